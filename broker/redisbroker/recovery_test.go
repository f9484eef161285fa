package redisbroker_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/embedded"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// ttl is the liveness of the tests: the least that is allowed.
const ttl = time.Second

// peers runs the body with a function that makes one more process on the same server.
func peers(t *testing.T, body func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		server := embedded.NewServer()
		t.Cleanup(server.Close)
		client := server.Client()
		t.Cleanup(func() { _ = client.Close() })
		body(t, client, func(options ...redisbroker.Option) *redisbroker.Broker {
			b := server.Broker(append([]redisbroker.Option{redisbroker.Liveness(ttl)}, options...)...)
			t.Cleanup(func() { _ = b.Close(context.Background()) })
			return b
		})
	})
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		body(t, s.Client(), func(options ...redisbroker.Option) *redisbroker.Broker {
			b := redisbroker.Standalone(s.URL(), append([]redisbroker.Option{redisbroker.Liveness(ttl)}, options...)...)
			t.Cleanup(func() { _ = b.Close(context.Background()) })
			return b
		})
	})
}

// start runs the subscription's tasks until the test or the returned function ends them.
func (f *fixture) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	tasks := f.sub.Tasks()
	for _, task := range tasks {
		go func() { task.Run(ctx); done <- struct{}{} }()
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		for range tasks {
			<-done
		}
	}
	f.t.Cleanup(stop)
	return stop
}

// consumer is the name that the process reads under, as the server shows it.
func (f *fixture) consumer() string {
	f.t.Helper()
	keys := f.client.Keys(f.t.Context(), "{s}:alive:g:*").Val()
	if len(keys) != 1 {
		f.t.Fatalf("liveness keys %v", keys)
	}
	return strings.TrimPrefix(keys[0], "{s}:alive:g:")
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// collect reads until n deliveries have come, and returns when each did.
func (f *fixture) collect(n int) map[string]time.Time {
	f.t.Helper()
	got := map[string]time.Time{}
	for deadline := time.Now().Add(10 * time.Second); len(got) < n && time.Now().Before(deadline); {
		for _, d := range f.read(n) {
			got[d.ID] = time.Now()
		}
	}
	if len(got) < n {
		f.t.Fatalf("%d of %d entries came", len(got), n)
	}
	return got
}

func TestTheLivenessKeyStandsBeforeTheFirstReadAndIsRepaired(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond})
		key := "{s}:alive:g:" + f.consumer()
		if left := client.PTTL(t.Context(), key).Val(); left <= 0 || left > ttl {
			t.Fatalf("PTTL %v before the first read", left)
		}
		f.start()
		stands := func() bool { left := client.PTTL(t.Context(), key).Val(); return left > 0 && left <= ttl }
		client.Del(t.Context(), key)
		eventually(t, "the deleted key is made again", stands)
		client.Persist(t.Context(), key)
		eventually(t, "the persistent key expires again", stands)
		client.Del(t.Context(), key)
		client.Set(t.Context(), key, "somebody else", 0)
		time.Sleep(ttl)
		if holder := client.Get(t.Context(), key).Val(); holder != "somebody else" {
			t.Errorf("another process's key was overwritten: %q", holder)
		}
	})
}

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

func TestWhatIsHeldNeverLooksIdleAndKeepsItsCount(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond})
		f.add("_payload", "held")
		trimmed := f.add("_payload", "trimmed")
		stolen := f.add("_payload", "stolen")
		f.read(3)
		client.XDel(t.Context(), "s", trimmed)
		client.Do(t.Context(), "XCLAIM", "s", "g", "thief", 0, stolen, "RETRYCOUNT", 2, "JUSTID")
		f.start()
		for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			p := f.pending()
			if len(p) != 3 {
				t.Fatalf("pending %v: a trimmed entry in hand is still ours to settle", p)
			}
			if p[0].Idle > ttl*2/3 || p[0].RetryCount != 1 {
				t.Fatalf("idle %v, count %d", p[0].Idle, p[0].RetryCount)
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.lost) == 0 || f.lost[0] != stolen {
			t.Errorf("lost %v, want %s", f.lost, stolen)
		}
		for _, id := range f.lost {
			if id != stolen {
				t.Errorf("%s was reported lost", id)
			}
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

func TestAFixedNameIsGuardedAndInherits(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		first := open(t, client, process(redisbroker.Consumer("fixed")), broker.Source{Block: 200 * time.Millisecond})
		stop := first.start()
		id := first.add("_payload", "b")
		first.one()
		second := process(redisbroker.Consumer("fixed"))
		config := broker.Config{
			Name: "t.h", Source: second.Resolve(broker.Source{Structure: broker.StructureStream, Key: "s", Group: "g"}),
			Logger: slog.New(slog.DiscardHandler), Holder: first,
		}
		if _, err := second.Subscribe(t.Context(), config); err == nil || !strings.Contains(err.Error(), `consumer "fixed" is alive elsewhere`) {
			t.Fatalf("the second process: %v", err)
		}
		stop() // the first one is gone without a word
		heir := open(t, client, process(redisbroker.Consumer("fixed")), broker.Source{Block: 200 * time.Millisecond})
		if d := heir.one(); d.ID != id || d.Count != 2 {
			t.Errorf("inherited %s with count %d", d.ID, d.Count)
		}
	})
}

func TestReclaimTakesOnlyWhatDeadOwnersLeft(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond, Reclaim: 2 * ttl})
		f.start()
		left := f.add("_payload", "left by a foreign reader that never acknowledges")
		client.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "g", Consumer: "foreign", Streams: []string{"s", ">"}, Count: 1})
		read := time.Now()
		fresh := f.add("_payload", "new")
		got := f.collect(1)
		if at, ok := got[left]; !ok || at.Sub(read) < 2*ttl {
			t.Errorf("got %v, want %s not before %v", got, left, 2*ttl)
		}
		if ds := f.read(1); len(ds) != 0 {
			t.Errorf("read %s; %s is new and not for a reclaiming subscription", ds[0].ID, fresh)
		}
	})
}
