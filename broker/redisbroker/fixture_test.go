package redisbroker_test

import (
	"context"
	"log/slog"
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
	busy map[string]bool // outcomes that are being written
	// afterLook runs once, after the next look at what is held.
	afterLook func()
}

// settling notes that the outcome of an entry in hand is being written.
func (f *fixture) settling(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy[id] = true
}

// drop notes that an entry is no longer in hand.
func (f *fixture) drop(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.hand, id)
}

// Held is what was read and not settled.
func (f *fixture) Held(time.Duration) []broker.Held {
	f.mu.Lock()
	var held []broker.Held
	for id, count := range f.hand {
		held = append(held, broker.Held{ID: id, Count: count, Settling: f.busy[id]})
	}
	after := f.afterLook
	f.afterLook = nil
	f.mu.Unlock()
	if after != nil {
		after()
	}
	return held
}

func (f *fixture) Lost(lost []broker.Held) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range lost {
		f.lost = append(f.lost, l.ID)
	}
}

// hold notes what a read brought.
func (f *fixture) hold(ds []*broker.Delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range ds {
		f.hand[d.ID] = d.Count
	}
}

// each runs the body on the embedded server, on the matrix and on a cluster.
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
	// The keys of these tests are in different slots.
	t.Run("cluster", func(t *testing.T) {
		server := redistest.Cluster(t)
		b := redisbroker.Cluster(server.URL())
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		body(t, server.Client(), b)
	})
}

func open(t *testing.T, client *redis.Client, b *redisbroker.Broker, source broker.Source, changes ...func(*broker.Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, client: client, count: map[string]int{}, hand: map[string]int64{}, busy: map[string]bool{}}
	source.Structure, source.Key, source.Group = broker.StructureStream, "s", "g"
	var err error
	if err = b.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	config := broker.Config{
		Name: "t.h", Source: b.Resolve(source), DeadLetter: "dlq", Logger: slog.New(slog.DiscardHandler),
		Discarded: func(why string) { f.count[why]++ }, Buried: func(reason string) { f.count[reason]++ },
		Trimmed: func(key string, n int64) { f.count["trimmed "+key] += int(n) },
		Holder:  f,
	}
	for _, change := range changes {
		change(&config)
	}
	f.sub, err = b.Subscribe(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	// It frees the connection of the reads.
	t.Cleanup(func() { _ = f.sub.Release(context.Background(), nil) })
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
