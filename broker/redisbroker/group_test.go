package redisbroker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

func TestALostGroupGetsBackWhatWasUnsettled(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond})
		for range 3 {
			f.add("_payload", "b")
		}
		ds := f.read(3)
		f.settle(broker.Settlement{Delivery: ds[0], Action: broker.Ack})
		client.XGroupDestroy(t.Context(), "s", "g")
		copied := broker.Settlement{Delivery: ds[1], Action: broker.Copy}
		f.sub.Settle(t.Context(), []*broker.Settlement{&copied})
		if copied.Err == nil {
			t.Fatalf("settled without a group: %v", copied.Result)
		}
		if more := f.read(3); len(more) != 0 {
			t.Fatalf("%d entries came again", len(more))
		}
		if p := f.pending(); len(p) != 2 || p[0].ID != ds[1].ID || p[1].ID != ds[2].ID || p[0].RetryCount != 1 {
			t.Fatalf("pending %v", p)
		}
		if got := f.settle(copied); got != broker.Done || len(f.pending()) != 1 {
			t.Errorf("%v, pending %v", got, f.pending())
		}
	})
}

func TestADeletedStreamDoesNotTakeWhatIsInHandWithIt(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond, DelaySet: "z"})
		for range 4 {
			f.add("_payload", "b")
		}
		ds := f.read(4)
		client.Del(t.Context(), "s")
		batch := []*broker.Settlement{
			{Delivery: ds[0], Action: broker.Copy},
			{Delivery: ds[1], Action: broker.Delay, Delay: time.Hour},
			{Delivery: ds[2], Action: broker.Bury, Target: "dlq", Burial: &broker.Burial{Reason: "rejected"}},
			{Delivery: ds[3], Action: broker.Keep, Count: 1000},
		}
		f.sub.Settle(t.Context(), batch)
		for _, st := range batch {
			if st.Err == nil || st.Repeated {
				t.Errorf("%s without a group: %v, %v; a refused try cannot have been carried out", st.Action, st.Result, st.Err)
			}
		}
		f.read(1) // makes the group again
		f.sub.Settle(t.Context(), batch)
		for i, want := range []broker.Result{broker.Done, broker.Done, broker.Done, broker.Vanished} {
			if batch[i].Result != want || batch[i].Err != nil {
				t.Errorf("%s: %v %v, want %v", batch[i].Action, batch[i].Result, batch[i].Err, want)
			}
		}
		if s, z, d := client.XLen(t.Context(), "s").Val(), client.ZCard(t.Context(), "z").Val(), client.XLen(t.Context(), "dlq").Val(); s != 1 || z != 1 || d != 1 {
			t.Errorf("%d copies, %d delayed, %d dead letters", s, z, d)
		}
	})
}

func TestAGroupThatSomebodyElseMadeAgainLosesNothing(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond, DelaySet: "z"})
		for range 5 {
			f.add("_payload", "b")
		}
		ds := f.read(5)
		f.settle(broker.Settlement{Delivery: ds[0], Action: broker.Ack})
		client.XGroupDestroy(t.Context(), "s", "g")
		client.XGroupCreate(t.Context(), "s", "g", "$")
		copied := broker.Settlement{Delivery: ds[1], Action: broker.Copy}
		f.sub.Settle(t.Context(), []*broker.Settlement{&copied})
		if copied.Err == nil {
			t.Fatalf("the copy was %v", copied.Result)
		}
		copied.Repeated = true
		if got := f.settle(copied); got != broker.Done || client.XLen(t.Context(), "s").Val() != 6 {
			t.Fatalf("%v, XLEN %d", got, client.XLen(t.Context(), "s").Val())
		}
		// Now the stream goes, too: what is in hand is all that is left of the messages.
		client.Del(t.Context(), "s")
		client.XGroupCreateMkStream(t.Context(), "s", "g", "0")
		for _, st := range []broker.Settlement{
			{Delivery: ds[2], Action: broker.Copy},
			{Delivery: ds[3], Action: broker.Delay, Delay: time.Hour},
			{Delivery: ds[4], Action: broker.Bury, Target: "dlq", Burial: &broker.Burial{Reason: "rejected"}},
		} {
			if got := f.settle(st); got != broker.Done {
				t.Errorf("%s: %v", st.Action, got)
			}
		}
		if s, z, d := client.XLen(t.Context(), "s").Val(), client.ZCard(t.Context(), "z").Val(), client.XLen(t.Context(), "dlq").Val(); s != 1 || z != 1 || d != 1 {
			t.Errorf("%d copies, %d delayed, %d dead letters", s, z, d)
		}
	})
}

// While the group is being made again outcomes are still written: one that the server has carried out, be it before the
// entry is put back or just after the look at what is in hand, is not undone.
func TestWhatIsSettledWhileTheGroupIsMadeAgainStaysSettled(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond})
		for range 4 {
			f.add("_payload", "b")
		}
		ds := f.read(4)
		onTheWire, between, copied, inHand := ds[0], ds[1], ds[2], ds[3]
		client.XGroupDestroy(t.Context(), "s", "g")
		// One acknowledgement has been carried out, and its answer is on the way; it is no longer in hand a moment later.
		f.settling(onTheWire.ID)
		ack := func(d *broker.Delivery) {
			st := broker.Settlement{Delivery: d, Action: broker.Ack}
			f.sub.Settle(t.Context(), []*broker.Settlement{&st})
		}
		ack(onTheWire)
		// Another one, and the copy of a third, are submitted after the look and carried out before it has an effect.
		f.afterLook = func() {
			f.settling(between.ID)
			ack(between)
			f.settling(copied.ID)
		}
		_, _ = f.sub.Read(t.Context(), broker.Want{New: 1, Back: 1}) // finds that the group is gone
		f.read(1)                                                    // makes it again
		// Now the answers arrive.
		f.drop(onTheWire.ID)
		f.drop(between.ID)
		st := broker.Settlement{Delivery: copied, Action: broker.Copy}
		for range 2 {
			if f.sub.Settle(t.Context(), []*broker.Settlement{&st}); st.Err == nil {
				break
			}
		}
		f.drop(copied.ID)
		if st.Result != broker.Done {
			t.Errorf("the copy: %v, %v", st.Result, st.Err)
		}
		var last *broker.Delivery
		for range 3 {
			for _, d := range f.read(1) {
				last = d
			}
		}
		want := []string{inHand.ID}
		if last == nil {
			t.Fatal("the copy was not read")
		}
		want = append(want, last.ID)
		var got []string
		for _, p := range f.pending() {
			got = append(got, p.ID)
		}
		if !slices.Equal(got, want) || client.XLen(t.Context(), "s").Val() != 5 {
			t.Errorf("pending %v, want %v; %d entries, want 4 and a copy", got, want, client.XLen(t.Context(), "s").Val())
		}
	})
}

// What was taken from a dead owner since the last look is not put back under that owner: it is in hand here, or done.
func TestALostGroupGetsNothingBackThatWasTakenFromADeadOwner(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond})
		var ids []string
		for range 3 {
			ids = append(ids, f.add("_payload", "b"))
			client.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "g", Consumer: "dead", Streams: []string{"s", ">"}, Count: 1})
		}
		name := f.consumer()
		stop := f.start()
		var first []*broker.Delivery
		eventually(t, "the first is taken", func() bool {
			first = f.read(1)
			return len(first) == 1
		})
		second := f.wait()
		stop() // no look from here on
		f.settle(broker.Settlement{Delivery: first[0], Action: broker.Ack})
		client.XGroupDestroy(t.Context(), "s", "g")
		_, _ = f.sub.Read(t.Context(), broker.Want{New: 1})
		if _, err := f.sub.Read(t.Context(), broker.Want{New: 1}); err != nil {
			t.Fatal(err)
		}
		p := f.pending()
		if len(p) != 2 || p[0].ID != second.ID || p[0].Consumer != name || p[0].RetryCount != 2 || p[1].ID != ids[2] || p[1].Consumer != "dead" {
			t.Errorf("pending %v, want %s here and %s under its dead owner", p, second.ID, ids[2])
		}
	})
}

// What waits for its next attempt is pending without being in hand, and gets its place back, too.
func TestALostGroupGetsBackWhatWaitsToBeClaimed(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond, Claim: time.Second})
		id := f.add("_payload", "b")
		d := f.one()
		f.settle(broker.Settlement{Delivery: d, Action: broker.Keep, Count: d.Count})
		client.XGroupDestroy(t.Context(), "s", "g")
		_, _ = f.sub.Read(t.Context(), broker.Want{New: 1, Back: 1})
		if d := f.wait(); d.ID != id || d.Count != 2 {
			t.Errorf("%s came back with count %d", d.ID, d.Count)
		}
	})
}

// A claiming process takes nothing from a dead peer before the claim time is over, and remembers what it saw there: a lost
// group gets it back, as idle as it was, but for what came back to a process since.
func TestALostGroupGetsBackWhatAClaimingProcessSawUnderDeadOwners(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond, Claim: time.Minute})
		var ids []string
		for range 3 {
			ids = append(ids, f.add("_payload", "b"))
			client.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "g", Consumer: "dead", Streams: []string{"s", ">"}, Count: 1})
		}
		f.read(1) // nothing yet
		const idle = 20 * time.Second
		client.Do(t.Context(), "XCLAIM", "s", "g", "dead", 0, ids[1], ids[2], "IDLE", idle.Milliseconds(), "RETRYCOUNT", 2, "JUSTID")
		stop := f.start()
		eventually(t, "the process has looked at its peers", func() bool { return client.Exists(t.Context(), "{s}:judge:g").Val() == 1 })
		client.Do(t.Context(), "XCLAIM", "s", "g", "~free", 0, ids[0], "IDLE", time.Hour.Milliseconds(), "RETRYCOUNT", 0, "JUSTID")
		d := f.wait()
		stop() // no look from here on
		if d.ID != ids[0] || d.Count != 1 {
			t.Fatalf("took %s with count %d, want %s", d.ID, d.Count, ids[0])
		}
		f.settle(broker.Settlement{Delivery: d, Action: broker.Ack})
		client.XGroupDestroy(t.Context(), "s", "g")
		eventually(t, "the group is made again", func() bool {
			_, err := f.sub.Read(t.Context(), broker.Want{New: 1, Back: 1})
			return err == nil
		})
		p := f.pending()
		if len(p) != 2 || p[0].ID != ids[1] || p[1].ID != ids[2] {
			t.Fatalf("pending %v, want %v", p, ids[1:])
		}
		for _, e := range p {
			if e.Consumer != "dead" || e.RetryCount != 2 || e.Idle < idle || e.Idle > 2*idle {
				t.Errorf("%s was put back as %+v", e.ID, e)
			}
		}
	})
}
