package redisbroker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

func TestEntriesOfADeadOwnerAreTakenAndThoseOfALivingOneAreNot(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		// Long enough for a look that judges at once to be told from one that waits.
		const ttl = 2500 * time.Millisecond
		f := open(t, client, process(redisbroker.Liveness(ttl)), broker.Source{Block: 5 * time.Second})
		opened := time.Now()
		f.start()
		var ids []string
		for range 4 {
			ids = append(ids, f.add("_payload", "b"))
		}
		for i, owner := range []string{"dead", "dead", "alive", "foreign"} {
			client.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "g", Consumer: owner, Streams: []string{"s", ">"}, Count: 1})
			client.Do(t.Context(), "XCLAIM", "s", "g", owner, 0, ids[i], "IDLE", 60_000, "RETRYCOUNT", i+1, "JUSTID")
		}
		client.Set(t.Context(), "{s}:alive:g:alive", "token", time.Minute)
		got := f.collect(3)
		if _, taken := got[ids[2]]; taken {
			t.Error("the entry of a living owner was taken")
		}
		for id, at := range got {
			if at.Sub(opened) < ttl {
				t.Errorf("%s was taken %v after the start: nobody may be judged before a TTL has passed", id, at.Sub(opened))
			}
		}
		for _, p := range f.pending() {
			for i, id := range ids {
				if p.ID == id && i != 2 && p.RetryCount != int64(i+2) {
					t.Errorf("entry %d was taken with count %d", i, p.RetryCount)
				}
			}
		}
	})
}

func TestDeadConsumersThatHoldNothingAreRemoved(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond})
		for _, name := range []string{"dead", "alive", "holds"} {
			client.XGroupCreateConsumer(t.Context(), "s", "g", name)
		}
		client.Set(t.Context(), "{s}:alive:g:alive", "token", time.Minute)
		client.Set(t.Context(), "{s}:alive:g:holds", "token", time.Minute)
		f.start()
		names := func() string {
			var all []string
			for _, c := range client.XInfoConsumers(t.Context(), "s", "g").Val() {
				if c.Name == "dead" || c.Name == "alive" || c.Name == "holds" {
					all = append(all, c.Name)
				}
			}
			return strings.Join(all, " ")
		}
		eventually(t, "only the dead consumer is removed", func() bool { return names() == "alive holds" })
	})
}

func TestAConsumerThatHoldsSomethingIsNotRemoved(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond})
		id := f.add("_payload", "b")
		client.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "g", Consumer: "dead", Streams: []string{"s", ">"}, Count: 1})
		f.start()
		// Nobody reads here, so that nothing is taken from it.
		time.Sleep(2*ttl + ttl/2)
		if p := f.pending(); len(p) != 1 || p[0].ID != id || p[0].Consumer != "dead" {
			t.Errorf("pending %v", p)
		}
	})
}

func TestAReadWhoseReplyWasLostIsFoundAgain(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond})
		name := f.consumer()
		inHand := f.add("_payload", "in hand")
		f.one()
		// The server gives an entry to this consumer, which never learns of it; the error follows with the next read.
		unseen := f.add("_payload", "unseen")
		client.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "g", Consumer: name, Streams: []string{"s", ">"}, Count: 1})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.sub.Read(ctx, broker.Want{New: 1, Back: 1}); err == nil {
			t.Fatal("a read with an ended context succeeded")
		}
		d := f.one()
		if d.ID != unseen || d.Count != 1 {
			t.Errorf("found %s with count %d; want %s uncharged, and not %s, which is in hand", d.ID, d.Count, unseen, inHand)
		}
		if more := f.read(5); len(more) != 0 {
			t.Errorf("found %d more", len(more))
		}
	})
}

func TestAClaimWhoseReplyWasLostIsFoundAgainAndNotChargedTwice(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond, Claim: time.Minute})
		name := f.consumer()
		waits := f.add("_payload", "waits")
		back := f.add("_payload", "back")
		for _, d := range f.read(2) {
			f.settle(broker.Settlement{Delivery: d, Action: broker.Keep, Count: d.Count})
		}
		// The server gives one of them out again, and this consumer never learns of it.
		client.Do(t.Context(), "XCLAIM", "s", "g", name, 0, back, "RETRYCOUNT", 2, "JUSTID")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.sub.Read(ctx, broker.Want{New: 1, Back: 1}); err == nil {
			t.Fatal("a read with an ended context succeeded")
		}
		if d := f.wait(); d.ID != back || d.Count != 2 {
			t.Errorf("found %s with count %d, want %s with 2; %s still waits", d.ID, d.Count, back, waits)
		}
		if more := f.read(5); len(more) != 0 {
			t.Errorf("found %d more", len(more))
		}
	})
}

func TestReclaimTakesOnlyWhatDeadOwnersLeft(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond, Reclaim: 2 * ttl})
		f.start()
		left := f.add("_payload", "left by a foreign reader that never acknowledges")
		read := time.Now()
		client.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "g", Consumer: "foreign", Streams: []string{"s", ">"}, Count: 1})
		fresh := f.add("_payload", "new")
		got := f.collect(1)
		if at, ok := got[left]; !ok || at.Sub(read) < 2*ttl-5*time.Millisecond { // the server's clock has whole milliseconds
			t.Errorf("got %v, want %s not before %v", got, left, 2*ttl)
		}
		if ds := f.read(1); len(ds) != 0 {
			t.Errorf("read %s; %s is new and not for a reclaiming subscription", ds[0].ID, fresh)
		}
	})
}

// A process that reads a group may also reclaim in it. Each of the two leaves alone what the other one has in hand.
func TestReclaimingLeavesAloneWhatItsOwnProcessHasInHand(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		b := process()
		plain := open(t, client, b, broker.Source{Block: 200 * time.Millisecond})
		reclaiming := open(t, client, b, broker.Source{Block: 200 * time.Millisecond, Reclaim: ttl})
		id := plain.add("_payload", "in hand")
		plain.one()
		reader := plain.pending()[0].Consumer
		// A read that failed has the subscription look for what it was given and never saw.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := reclaiming.sub.Read(ctx, broker.Want{New: 1, Back: 1}); err == nil {
			t.Fatal("a read with an ended context succeeded")
		}
		if ds := reclaiming.read(1); len(ds) != 0 {
			t.Errorf("%s was given out again, and is in hand", ds[0].ID)
		}
		reclaiming.sub.Stop(t.Context())
		if err := reclaiming.sub.Release(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if p := plain.pending(); len(p) != 1 || p[0].ID != id || p[0].Consumer != reader {
			t.Errorf("pending %v, want the entry under %s, which has it in hand", p, reader)
		}
		if n := client.Exists(t.Context(), "{s}:alive:g:"+reader).Val(); n != 1 {
			t.Error("the liveness key of the one that reads is gone")
		}
	})
}
