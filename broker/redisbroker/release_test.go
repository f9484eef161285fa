package redisbroker_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// What the server gave out and this process never saw has not been tried: neither as new nor as tried again. What waits
// for its next attempt keeps its count and its rest.
func TestAStopRestoresTheCountsOfClaimsThatItNeverSaw(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		const claim = time.Minute
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond, Claim: claim})
		name := f.consumer()
		waits := f.add("_payload", "waits")
		back := f.add("_payload", "back")
		for _, d := range f.read(2) {
			f.settle(broker.Settlement{Delivery: d, Action: broker.Keep, Count: d.Count})
		}
		client.Do(t.Context(), "XCLAIM", "s", "g", name, 0, back, "RETRYCOUNT", 2, "JUSTID")
		fresh := f.add("_payload", "fresh")
		client.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "g", Consumer: name, Streams: []string{"s", ">"}, Count: 1})
		f.sub.Stop(t.Context())
		if err := f.sub.Release(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		p := f.pending()
		if len(p) != 3 {
			t.Fatalf("pending %v", p)
		}
		for i, want := range []struct {
			id    string
			count int64
			rests bool
		}{{waits, 1, true}, {back, 1, false}, {fresh, 0, false}} {
			if got := p[i]; got.ID != want.id || got.Consumer != "~free" || got.RetryCount != want.count || got.Idle < claim != want.rests {
				t.Errorf("handed back %+v, want %+v", got, want)
			}
		}
	})
}

// A stop that has thousands of entries to hand back does so in calls that the server hardly notices, and forgets none.
func TestAStopHandsBackMoreThanOneCallTakes(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		const n = 1234
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond})
		_, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for range n {
				p.XAdd(t.Context(), &redis.XAddArgs{Stream: "s", Values: []string{"_payload", "b"}})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ds := f.read(n)
		parked := ds[n-1]
		f.settle(broker.Settlement{Delivery: parked, Action: broker.Keep, Count: 1000})
		client.XDel(t.Context(), "s", ds[0].ID)
		f.sub.Stop(t.Context())
		if err := f.sub.Release(t.Context(), []broker.Held{{ID: parked.ID, Count: 1000, Due: ttl / 2}}); err != nil {
			t.Fatal(err)
		}
		all, err := client.XPendingExt(t.Context(), &redis.XPendingExtArgs{Stream: "s", Group: "g", Start: "-", End: "+", Count: 2 * n, Consumer: "~free"}).Result()
		if err != nil || len(all) != n-1 || client.XPending(t.Context(), "s", "g").Val().Count != n-1 {
			t.Fatalf("%d of %d are free: %v", len(all), n-1, err)
		}
		for _, p := range all {
			switch {
			case p.ID == parked.ID && (p.RetryCount != 1000 || p.Idle >= ttl):
				t.Errorf("parked: %+v", p)
			case p.ID != parked.ID && (p.RetryCount != 0 || p.Idle < ttl):
				t.Errorf("unseen: %+v", p)
			}
		}
		if consumers := client.XInfoConsumers(t.Context(), "s", "g").Val(); len(consumers) != 1 {
			t.Errorf("consumers %v", consumers)
		}
	})
}

// What is handed back is idle for long, and Redis 8.4 keeps what is pending in the order of idle time: putting an entry
// there costs it the more the more is pending. A stop takes fewer at a time then.
func TestAStopBesideAHundredThousandPendingEntriesHoldsNobodyUp(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred thousand entries on each server")
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) { // the embedded server keeps no slow log
		const own, others = 400, 100_000
		client := server.Client()
		b := redisbroker.Standalone(server.URL(), redisbroker.Liveness(ttl))
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		f := open(t, client, b, broker.Source{Block: 200 * time.Millisecond})
		f.addMany(own)
		f.read(own)
		for range others / 1000 {
			f.addMany(1000)
			client.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "g", Consumer: "peer", Streams: []string{"s", ">"}, Count: 1000})
		}
		check := nothingSlow(t, client)
		f.sub.Stop(t.Context())
		if err := f.sub.Release(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		check()
		p := client.XPending(t.Context(), "s", "g").Val()
		if p.Consumers["~free"] != own || p.Consumers["peer"] != others {
			t.Errorf("pending %v", p.Consumers)
		}
	})
}

// While no handler slot was free nobody asked for what waits, however long that took: it has not been given to anyone,
// and the stop hands it back with the count that its attempts gave it.
func TestAStopKeepsTheCountOfWhatHasWaitedForASlot(t *testing.T) {
	paused(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: time.Second, Claim: time.Second})
		f.add("_payload", "waits")
		d := f.one()
		f.settle(broker.Settlement{Delivery: d, Action: broker.Keep, Count: d.Count})
		for kept := time.Now(); time.Since(kept) < 5*time.Minute; {
			if _, err := f.sub.Read(t.Context(), broker.Want{New: 1}); err != nil {
				t.Fatal(err)
			}
		}
		f.sub.Stop(t.Context())
		if err := f.sub.Release(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if p := f.pending(); len(p) != 1 || p[0].RetryCount != 1 {
			t.Errorf("handed back %v", p)
		}
	})
}

// What a peer has taken is forgotten in the end.
func TestWhatAPeerTookIsForgotten(t *testing.T) {
	paused(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: time.Second, Claim: time.Second})
		name := f.consumer()
		id := f.add("_payload", "waits")
		d := f.one()
		f.settle(broker.Settlement{Delivery: d, Action: broker.Keep, Count: d.Count})
		client.Do(t.Context(), "XCLAIM", "s", "g", "peer", 0, id, "RETRYCOUNT", 2, "JUSTID")
		client.XAck(t.Context(), "s", "g", id)
		for kept := time.Now(); time.Since(kept) < 5*time.Minute; {
			f.read(1)
		}
		// The same count under the own name again is one that was given out and never seen.
		client.Do(t.Context(), "XCLAIM", "s", "g", name, 0, id, "RETRYCOUNT", 1, "FORCE", "JUSTID")
		f.sub.Stop(t.Context())
		if err := f.sub.Release(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if p := f.pending(); len(p) != 1 || p[0].RetryCount != 0 {
			t.Errorf("handed back %v", p)
		}
	})
}
