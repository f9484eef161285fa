package redisbroker_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/embedded"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// fixture is one server, a broker on it and an open subscription of stream s, group g.
type fixture struct {
	t      *testing.T
	client *redis.Client
	sub    broker.Subscription
	count  map[string]int

	mu   sync.Mutex
	hand map[string]int64 // what the test holds
	lost []string
}

// Held is what was read and not settled.
func (f *fixture) Held(time.Duration) []broker.Held {
	f.mu.Lock()
	defer f.mu.Unlock()
	var held []broker.Held
	for id, count := range f.hand {
		held = append(held, broker.Held{ID: id, Count: count})
	}
	return held
}

func (f *fixture) Lost(ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = append(f.lost, ids...)
}

// hold notes what a read brought.
func (f *fixture) hold(ds []*broker.Delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range ds {
		f.hand[d.ID] = d.Count
	}
}

// each runs the body on the embedded server and on the matrix.
func each(t *testing.T, body func(t *testing.T, client *redis.Client, b *redisbroker.Broker)) {
	t.Run("embedded", func(t *testing.T) {
		b := embedded.New()
		client := b.Client()
		t.Cleanup(func() { _ = client.Close(); _ = b.Close(context.Background()) })
		body(t, client, b.Broker)
	})
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		b := redisbroker.Standalone(server.URL())
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		body(t, server.Client(), b)
	})
}

func TestMain(m *testing.M) { redistest.Main(m) }

func open(t *testing.T, client *redis.Client, b *redisbroker.Broker, source broker.Source) *fixture {
	t.Helper()
	f := &fixture{t: t, client: client, count: map[string]int{}, hand: map[string]int64{}}
	source.Structure, source.Key, source.Group = broker.StructureStream, "s", "g"
	var err error
	if err = b.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.sub, err = b.Subscribe(t.Context(), broker.Config{
		Name: "t.h", Source: b.Resolve(source), DeadLetter: "dlq", Logger: slog.New(slog.DiscardHandler),
		Discarded: func(why string) { f.count[why]++ }, Buried: func(reason string) { f.count[reason]++ },
		Holder: f,
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) add(values ...string) string {
	f.t.Helper()
	id, err := f.client.XAdd(f.t.Context(), &redis.XAddArgs{Stream: "s", Values: values}).Result()
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

func (f *fixture) read(n int) []*broker.Delivery {
	f.t.Helper()
	ds, err := f.sub.Read(f.t.Context(), broker.Want{New: n, Back: n})
	if err != nil {
		f.t.Fatal(err)
	}
	f.hold(ds)
	return ds
}

func (f *fixture) one() *broker.Delivery {
	f.t.Helper()
	ds := f.read(1)
	if len(ds) != 1 {
		f.t.Fatalf("read %d deliveries, want 1", len(ds))
	}
	return ds[0]
}

func (f *fixture) settle(st broker.Settlement) broker.Result {
	f.t.Helper()
	f.sub.Settle(f.t.Context(), []*broker.Settlement{&st})
	if st.Err != nil {
		f.t.Fatalf("%s: %v", st.Action, st.Err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.hand, st.Delivery.ID)
	if st.Action == broker.Keep && st.Count >= 1000 {
		f.hand[st.Delivery.ID] = st.Count
	}
	return st.Result
}

func (f *fixture) pending() []redis.XPendingExt {
	f.t.Helper()
	p, err := f.client.XPendingExt(f.t.Context(), &redis.XPendingExtArgs{Stream: "s", Group: "g", Start: "-", End: "+", Count: 100}).Result()
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

func (f *fixture) entries(key string) []map[string]any {
	f.t.Helper()
	messages, err := f.client.XRange(f.t.Context(), key, "-", "+").Result()
	if err != nil {
		f.t.Fatal(err)
	}
	var all []map[string]any
	for _, m := range messages {
		all = append(all, m.Values)
	}
	return all
}

func TestTheFieldsOfAnEntryArriveAsTheyStand(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second})
		id := f.add("_payload", "\x00\xff\r\nbody", "h:message-id", "m1", "x", "1", "x", "2", "h:a", "")
		d := f.one()
		if d.ID != id || d.Count != 1 || string(d.Body) != "\x00\xff\r\nbody" || d.MessageID() != "m1" || len(d.Fields) != 5 || d.Burial != nil {
			t.Fatalf("got %+v", d)
		}
		if v, ok := d.Header("a"); !ok || v != "" {
			t.Fatalf("header a: %q %v", v, ok)
		}
		if got := f.settle(broker.Settlement{Delivery: d, Action: broker.Ack}); got != broker.Done || len(f.pending()) != 0 {
			t.Fatalf("%v, pending %v", got, f.pending())
		}
	})
}

func TestACopyReplacesTheEntryInOneFencedStep(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second})
		id := f.add("_payload", "b", "h:retry-count", "1", "h:losses", "1", "k", "v")
		d := f.one()
		st := broker.Settlement{Delivery: d, Action: broker.Copy, Edits: broker.Edits{
			Set: []broker.HeaderLine{{Name: "retry-count", Value: "2"}, {Name: "retry-group", Value: "g"}}, Remove: []string{"losses"},
		}}
		if got := f.settle(st); got != broker.Done {
			t.Fatal(got)
		}
		st.Repeated = true
		if got := f.settle(st); got != broker.Gone {
			t.Fatalf("the same again: %v", got)
		}
		all := f.entries("s")
		want := map[string]any{"_payload": "b", "k": "v", "h:retry-count": "2", "h:retry-group": "g", "h:message-id": id}
		if len(all) != 2 || !maps.Equal(all[1], want) || len(f.pending()) != 0 {
			t.Fatalf("stream %v, pending %v", all, f.pending())
		}
	})
}

func TestAStaleOwnerSettlesNothing(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second, DelaySet: "z"})
		f.add("_payload", "b")
		d := f.one()
		client.Do(t.Context(), "XCLAIM", "s", "g", "other", 0, d.ID, "RETRYCOUNT", 2, "JUSTID")
		for _, st := range []broker.Settlement{
			{Delivery: d, Action: broker.Copy},
			{Delivery: d, Action: broker.Delay, Delay: time.Second},
			{Delivery: d, Action: broker.Bury, Target: "dlq", Burial: &broker.Burial{}},
			{Delivery: d, Action: broker.Keep, Count: 1000},
			{Delivery: d, Action: broker.Unpark},
		} {
			if got := f.settle(st); got != broker.Lost {
				t.Errorf("%s: %v", st.Action, got)
			}
		}
		p := f.pending()
		if len(p) != 1 || p[0].Consumer != "other" || p[0].RetryCount != 2 {
			t.Errorf("pending %v", p)
		}
		if n := client.Exists(t.Context(), "z", "dlq").Val(); n != 0 || len(f.entries("s")) != 1 {
			t.Errorf("%d keys were written, stream %v", n, f.entries("s"))
		}
	})
}

// Each half of the fence alone: another owner with the same count, and the same owner with another count.
func TestTheFenceLooksAtOwnerAndCount(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second, DelaySet: "z"})
		f.add("_payload", "other owner")
		f.add("_payload", "other count")
		ds := f.read(2)
		client.Do(t.Context(), "XCLAIM", "s", "g", "other", 0, ds[0].ID, "RETRYCOUNT", 1, "JUSTID")
		client.Do(t.Context(), "XCLAIM", "s", "g", f.consumer(), 0, ds[1].ID, "RETRYCOUNT", 2, "JUSTID")
		for _, d := range ds {
			for _, st := range []broker.Settlement{
				{Delivery: d, Action: broker.Copy},
				{Delivery: d, Action: broker.Delay, Delay: time.Second},
				{Delivery: d, Action: broker.Bury, Target: "dlq", Burial: &broker.Burial{}},
				{Delivery: d, Action: broker.Keep, Count: 1000},
			} {
				if got := f.settle(st); got != broker.Lost {
					t.Errorf("%s of %s: %v", st.Action, d.Body, got)
				}
			}
		}
		if n := client.Exists(t.Context(), "z", "dlq").Val(); n != 0 || len(f.entries("s")) != 2 || len(f.pending()) != 2 {
			t.Errorf("%d keys were written, stream %v, pending %v", n, f.entries("s"), f.pending())
		}
	})
}

func TestBuryAppendsWhatHappenedAndTheServersTime(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second})
		f.add("_payload", "b", "h:retry-group", "g", "f", "1")
		d := f.one()
		burial := broker.Burial{Reason: "max_attempts", Detail: "boom", Source: "s", ID: d.ID, Group: "g", Handler: "t.h", Error: "boom", Attempts: 3, Losses: 1, Deliveries: 4}
		f.settle(broker.Settlement{Delivery: d, Action: broker.Bury, Target: "dlq", Burial: &burial, Edits: broker.Edits{Remove: []string{"retry-group"}}})
		letters := f.entries("dlq")
		if len(letters) != 1 || letters[0]["_payload"] != "b" || letters[0]["f"] != "1" || letters[0]["dlq_reason"] != "max_attempts" || letters[0]["h:retry-group"] != nil {
			t.Fatalf("dead letters %v", letters)
		}
		var read broker.Burial
		for name, value := range letters[0] {
			read.Set(name, value.(string))
		}
		if age := client.Time(t.Context()).Val().Sub(read.At); age < -time.Second || age > time.Minute {
			t.Errorf("buried %v ago", age)
		}
		read.At = time.Time{}
		if read != burial || len(f.pending()) != 0 {
			t.Errorf("read back %+v", read)
		}
	})
}

func TestADelayIsKeptByTheServersClockAndMovedOnce(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: 2 * time.Second, DelaySet: "z", DelayTTL: time.Minute})
		f.add("_payload", "same", "x", "1", "x", "2", "h:message-id", "same")
		f.add("_payload", "same", "x", "1", "x", "2", "h:message-id", "same")
		var asked time.Time
		for _, d := range f.read(2) {
			if asked.IsZero() {
				asked = client.Time(t.Context()).Val()
			}
			f.settle(broker.Settlement{Delivery: d, Action: broker.Delay, Delay: 300 * time.Millisecond, Edits: broker.Edits{Set: []broker.HeaderLine{{Name: "retry-count", Value: "1"}}}})
		}
		if n := client.ZCard(t.Context(), "z").Val(); n != 2 {
			t.Fatalf("ZCARD %d: equal messages collapsed", n)
		}
		if ttl := client.PTTL(t.Context(), "z").Val(); ttl < 50*time.Second || ttl > 61*time.Second {
			t.Errorf("PTTL %v", ttl)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.task("mover")(ctx)
		}()
		d := f.one()
		late := client.Time(t.Context()).Val().Sub(asked) - 300*time.Millisecond
		if late < 0 || late > 200*time.Millisecond {
			t.Errorf("moved %v late", late)
		}
		cancel()
		<-done
		if v, _ := d.Header("retry-count"); v != "1" || len(d.Fields) != 5 || string(d.Fields[2].Value) != "2" {
			t.Errorf("moved %+v", d)
		}
	})
}

func TestTwoMoversMoveAMemberOnce(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second, DelaySet: "z"})
		const n, wide = 300, 20
		many := []string{"_payload", "wide"}
		for range 2000 {
			many = append(many, "n", "v")
		}
		for i := range n {
			if i < wide {
				f.add(many...)
				continue
			}
			f.add("_payload", "b")
		}
		for range n {
			f.settle(broker.Settlement{Delivery: f.one(), Action: broker.Delay})
		}
		ctx, cancel := context.WithCancel(t.Context())
		var movers sync.WaitGroup
		for range 6 {
			movers.Go(func() { f.task("mover")(ctx) })
		}
		for client.ZCard(t.Context(), "z").Val() > 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		movers.Wait()
		if got := client.XLen(t.Context(), "s").Val(); got != 2*n {
			t.Errorf("%d entries were appended for %d delayed messages", got-n, n)
		}
	})
}

func TestAMoveThatFailsLeavesTheMember(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second, DelaySet: "z"})
		f.add("_payload", "b")
		f.settle(broker.Settlement{Delivery: f.one(), Action: broker.Delay})
		client.Rename(t.Context(), "s", "aside")
		client.Set(t.Context(), "s", "no stream", 0)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		f.task("mover")(ctx)
		if n := client.ZCard(t.Context(), "z").Val(); n != 1 {
			t.Fatalf("ZCARD %d: the message is gone", n)
		}
		client.Rename(t.Context(), "aside", "s")
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		go f.task("mover")(ctx)
		if d := f.wait(); string(d.Body) != "b" {
			t.Errorf("moved %s", d.Body)
		}
	})
}

func TestAMemberThatNobodyCanDecodeIsBuried(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second, DelaySet: "z"})
		client.ZAdd(t.Context(), "z", redis.Z{Score: 1, Member: "rubbish\x00\xff"})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		go func() {
			for ctx.Err() == nil && client.XLen(ctx, "dlq").Val() == 0 {
				time.Sleep(5 * time.Millisecond)
			}
			cancel()
		}()
		f.task("mover")(ctx)
		letters := f.entries("dlq")
		if len(letters) != 1 || letters[0]["_payload"] != "rubbish\x00\xff" || letters[0]["dlq_reason"] != "malformed" {
			t.Fatalf("dead letters %v", letters)
		}
		if n := client.ZCard(t.Context(), "z").Val(); n != 0 || f.count["malformed"] != 1 {
			t.Errorf("ZCARD %d, counted %v", n, f.count)
		}
	})
}

func TestAKeptEntryIsCopiedFromTheStream(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second})
		wide := []string{"_payload", "wide"}
		for range 2500 {
			wide = append(wide, "n", "v")
		}
		for _, values := range [][]string{{"_payload", "b", "h:history", "old", "x", "1", "x", "2"}, wide} {
			id := f.add(values...)
			d := f.one()
			keep := broker.Settlement{Delivery: d, Action: broker.Keep, Count: 1000}
			if got := f.settle(keep); got != broker.Done {
				t.Fatal(got)
			}
			if got := f.settle(keep); got != broker.Done {
				t.Fatalf("the same again: %v", got)
			}
			if p := f.pending(); len(p) != 1 || p[0].RetryCount != 1000 {
				t.Fatalf("pending %v", p)
			}
			parked := &broker.Delivery{ID: d.ID, Count: 1000}
			edits := broker.Edits{Set: []broker.HeaderLine{{Name: "history", Value: "new"}, {Name: "retry-count", Value: "1"}}, Remove: []string{"losses"}}
			if got := f.settle(broker.Settlement{Delivery: parked, Action: broker.Unpark, Edits: edits}); got != broker.Done {
				t.Fatal(got)
			}
			copied := f.one()
			if id2, _ := copied.Header("message-id"); id2 != id || copied.ID == id {
				t.Errorf("message-id %q", id2)
			}
			if h, _ := copied.Header("history"); h != "new" || len(copied.Fields) < len(values)/2+2 {
				t.Errorf("copied %d fields, history %q", len(copied.Fields), h)
			}
			f.settle(broker.Settlement{Delivery: copied, Action: broker.Ack})
			if p := f.pending(); len(p) != 0 {
				t.Errorf("pending %v", p)
			}
		}
	})
}

func TestAnEntryOfManyFieldsIsCopiedDelayedAndBuriedWhole(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: 2 * time.Second, DelaySet: "z"})
		values := []string{"_payload", "wide"}
		for range 4500 {
			values = append(values, "n", "v")
		}
		f.add(values...)
		if got := f.settle(broker.Settlement{Delivery: f.one(), Action: broker.Copy}); got != broker.Done {
			t.Fatal(got)
		}
		if got := f.settle(broker.Settlement{Delivery: f.one(), Action: broker.Delay, Delay: time.Millisecond}); got != broker.Done {
			t.Fatal(got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.task("mover")(ctx)
		d := f.one()
		if len(d.Fields) != len(values)/2+1 {
			t.Errorf("%d fields came back", len(d.Fields))
		}
		if got := f.settle(broker.Settlement{Delivery: d, Action: broker.Bury, Target: "dlq", Burial: &broker.Burial{Reason: "rejected"}}); got != broker.Done {
			t.Fatal(got)
		}
		if len(f.pending()) != 0 || client.XLen(t.Context(), "dlq").Val() != 1 {
			t.Errorf("pending %v", f.pending())
		}
	})
}

func TestClaimingTakesIdleEntriesBackAndNewOnesKeepComing(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: 5 * time.Second, Claim: time.Second})
		id := f.add("_payload", "old")
		d := f.one()
		kept := time.Now()
		if got := f.settle(broker.Settlement{Delivery: d, Action: broker.Keep, Count: d.Count}); got != broker.Done {
			t.Fatal(got)
		}
		d = f.wait()
		if took := time.Since(kept); d.ID != id || d.Count != 2 || took < time.Second || took > 1500*time.Millisecond {
			t.Fatalf("came back as %s with count %d after %v", d.ID, d.Count, took)
		}
		f.settle(broker.Settlement{Delivery: d, Action: broker.Keep, Count: d.Count})
		time.Sleep(1100 * time.Millisecond)
		fresh := f.add("_payload", "new")
		var seen []string
		for len(seen) < 2 {
			seen = append(seen, f.wait().ID)
		}
		if !slices.Contains(seen, fresh) || !slices.Contains(seen, id) {
			t.Errorf("read %v, want %s and %s", seen, id, fresh)
		}
	})
}

// task returns one of the subscription's loops.
func (f *fixture) task(name string) func(context.Context) {
	for _, task := range f.sub.Tasks() {
		if task.Name == name {
			return task.Run
		}
	}
	f.t.Fatalf("there is no task %s", name)
	return nil
}

// wait reads until something comes.
func (f *fixture) wait() *broker.Delivery {
	f.t.Helper()
	for range 20 {
		if ds := f.read(1); len(ds) == 1 {
			return ds[0]
		}
	}
	f.t.Fatal("nothing came")
	return nil
}

func TestStopEndsABlockedReadAtOnceAndReleaseHandsBack(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Minute})
		for range 3 {
			f.add("_payload", "b")
		}
		ds := f.read(3)
		f.settle(broker.Settlement{Delivery: ds[1], Action: broker.Keep, Count: 1000})
		ended := make(chan error, 1)
		go func() {
			for {
				if _, err := f.sub.Read(context.Background(), broker.Want{New: 1, Back: 1}); err != nil {
					ended <- err
					return
				}
			}
		}()
		time.Sleep(50 * time.Millisecond)
		start := time.Now()
		f.sub.Stop(t.Context())
		if err := <-ended; !errors.Is(err, broker.ErrClosed) || time.Since(start) > time.Second {
			t.Fatalf("read ended with %v after %v", err, time.Since(start))
		}
		err := f.sub.Release(t.Context(), []broker.Held{{ID: ds[0].ID, Count: 0}, {ID: ds[1].ID, Count: 1000, Due: 10 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		p := f.pending()
		if len(p) != 3 || p[0].Consumer != "~free" || p[0].RetryCount != 0 || p[1].RetryCount != 1000 || p[2].RetryCount != 0 {
			t.Fatalf("pending %v", p)
		}
		if p[0].Idle < 30*time.Second || p[1].Idle > 22*time.Second || p[2].Idle < 30*time.Second {
			t.Errorf("idle %v %v %v", p[0].Idle, p[1].Idle, p[2].Idle)
		}
		for _, c := range client.XInfoConsumers(t.Context(), "s", "g").Val() {
			if c.Name != "~free" {
				t.Errorf("consumer %s was left", c.Name)
			}
		}
	})
}

func TestAForgottenScriptIsSentAgain(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second})
		f.add("_payload", "1")
		f.add("_payload", "2")
		ds := f.read(2)
		client.ScriptFlush(t.Context())
		batch := []*broker.Settlement{
			{Delivery: ds[0], Action: broker.Ack},
			{Delivery: ds[1], Action: broker.Copy},
		}
		f.sub.Settle(t.Context(), batch)
		for _, st := range batch {
			if st.Err != nil || st.Result != broker.Done {
				t.Errorf("%s: %v %v", st.Action, st.Result, st.Err)
			}
		}
		if len(f.entries("s")) != 3 || len(f.pending()) != 0 {
			t.Errorf("stream %v, pending %v", f.entries("s"), f.pending())
		}
	})
}

func TestAWriteThatFailsLeavesTheEntryPending(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second, DelaySet: "z"})
		client.Set(t.Context(), "z", "a string", 0)
		client.Set(t.Context(), "dlq", "a string", 0)
		f.add("_payload", "1")
		f.add("_payload", "2")
		f.add("_payload", "3")
		ds := f.read(3)
		batch := []*broker.Settlement{
			{Delivery: ds[0], Action: broker.Delay, Delay: time.Second},
			{Delivery: ds[1], Action: broker.Bury, Target: "dlq", Burial: &broker.Burial{}},
			{Delivery: ds[2], Action: broker.Copy},
		}
		f.sub.Settle(t.Context(), batch)
		for _, st := range batch[:2] {
			if st.Err == nil || !strings.Contains(st.Err.Error(), "WRONGTYPE") {
				t.Errorf("%s: %v %v", st.Action, st.Result, st.Err)
			}
		}
		if batch[2].Err != nil {
			t.Errorf("the failure spoiled its neighbour: %v", batch[2].Err)
		}
		if p := f.pending(); len(p) != 2 || p[0].ID != ds[0].ID || p[1].ID != ds[1].ID {
			t.Errorf("pending %v", p)
		}
		client.Del(t.Context(), "z", "dlq")
		f.sub.Settle(t.Context(), batch[:2])
		if p := f.pending(); len(p) != 0 || batch[0].Result != broker.Done || batch[1].Result != broker.Done {
			t.Errorf("the same settlements again: %v %v, pending %v", batch[0], batch[1], p)
		}
	})
}

func TestAGroupThatIsGoneIsMadeAgainWhereItWas(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second})
		f.add("_payload", "1")
		f.settle(broker.Settlement{Delivery: f.one(), Action: broker.Ack})
		client.XGroupDestroy(t.Context(), "s", "g")
		want := f.add("_payload", "2")
		if _, err := f.sub.Read(t.Context(), broker.Want{New: 1, Back: 1}); err == nil {
			t.Fatal("the group is gone and nothing was said")
		}
		if d := f.one(); d.ID != want {
			t.Errorf("read %s, want %s", d.ID, want)
		}
		// The embedded server cannot tell a new stream from an old one within the same millisecond.
		for old := want; want == old; {
			client.Del(t.Context(), "s")
			want = f.add("_payload", "3")
		}
		_, _ = f.sub.Read(t.Context(), broker.Want{New: 1, Back: 1})
		if d := f.wait(); d.ID != want {
			t.Errorf("read %s, want %s", d.ID, want)
		}
	})
}

func TestWhatAPeerHandedBackIsTakenWithinASecond(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Minute})
		id := f.add("_payload", "b")
		f.one()
		client.Do(t.Context(), "XCLAIM", "s", "g", "~free", 0, id, "IDLE", 30000, "RETRYCOUNT", 0, "JUSTID")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, task := range f.sub.Tasks() {
			go task.Run(ctx)
		}
		start := time.Now()
		if d := f.wait(); d.ID != id || d.Count != 1 || time.Since(start) > 2*time.Second {
			t.Errorf("took %s with count %d after %v", d.ID, d.Count, time.Since(start))
		}
	})
}

func TestAVanishedEntryIsNeverHandedOut(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: 100 * time.Millisecond, Claim: time.Second})
		gone := f.add("_payload", "gone")
		f.one()
		client.XDel(t.Context(), "s", gone)
		client.Do(t.Context(), "XCLAIM", "s", "g", "other", 0, gone, "IDLE", 5000, "RETRYCOUNT", 1, "JUSTID")
		stays := f.add("_payload", "stays")
		if d := f.wait(); d.ID != stays {
			t.Errorf("read %s", d.ID)
		}
	})
}

func TestInspectNamesEveryKeyThatHoldsSomethingElse(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		client.Set(t.Context(), "a", "x", 0)
		client.LPush(t.Context(), "b", "x")
		client.XAdd(t.Context(), &redis.XAddArgs{Stream: "c", Values: []string{"k", "v"}})
		errs := b.Inspect(t.Context(), []broker.KeyUse{
			{Mount: "m1", Role: "source", Key: "a", Structure: broker.StructureStream},
			{Mount: "m2", Role: "delay set", Key: "b", Structure: broker.StructureSortedSet},
			{Mount: "m3", Role: "source", Key: "c", Structure: broker.StructureStream},
			{Mount: "m3", Role: "dead letter", Key: "none", Structure: broker.StructureStream},
		})
		if len(errs) != 2 || !strings.Contains(errs[0].Error(), `m1: source "a"`) || !strings.Contains(errs[1].Error(), "is a list, not a sorted set") {
			t.Errorf("got %v", errs)
		}
	})
}
