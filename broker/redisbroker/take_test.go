package redisbroker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// leave leaves n entries pending under a consumer, idle for an hour. They are trimmed unless whole is set. It returns the
// id of the last one.
func (f *fixture) leave(consumer string, n int, whole bool) (last string) {
	f.t.Helper()
	ctx, c := f.t.Context(), f.client
	const step = 1000
	for done := 0; done < n; done += step {
		f.addMany(min(step, n-done))
		all := c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: consumer, Streams: []string{"s", ">"}, Count: step}).Val()
		claim := []any{"XCLAIM", "s", "g", consumer, 0}
		var ids []string
		for _, m := range all[0].Messages {
			claim, ids = append(claim, m.ID), append(ids, m.ID)
		}
		if err := c.Do(ctx, append(claim, "IDLE", 3_600_000, "RETRYCOUNT", 1, "JUSTID")...).Err(); err != nil {
			f.t.Fatal(err)
		}
		if last = ids[len(ids)-1]; !whole {
			c.XDel(ctx, "s", ids...)
		}
	}
	return last
}

// addMany appends n entries in one round trip.
func (f *fixture) addMany(n int) {
	f.t.Helper()
	_, err := f.client.Pipelined(f.t.Context(), func(p redis.Pipeliner) error {
		for range n {
			p.XAdd(f.t.Context(), &redis.XAddArgs{Stream: "s", Values: []string{"_payload", "one of many"}})
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// behind leaves n trimmed entries pending under a peer that is alive, and one whole entry of a dead one behind them. It
// returns the id of the last one.
func (f *fixture) behind(n int) string {
	f.t.Helper()
	f.client.Set(f.t.Context(), "{s}:alive:g:alive", "token", time.Hour)
	f.leave("alive", n, false)
	return f.leave("dead", 1, true)
}

// What a living peer has in hand of entries that were trimmed is left alone, and hides nothing that stands behind it.
func TestTrimmedEntriesOfALivingPeerHideNothing(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		for _, n := range []int{1, 3000} {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				client.FlushDB(t.Context())
				f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond, Claim: time.Second})
				id := f.behind(n)
				if d := f.wait(); d.ID != id || d.Count != 2 {
					t.Errorf("took %s with count %d, want %s", d.ID, d.Count, id)
				}
				left := client.XPendingExt(t.Context(), &redis.XPendingExtArgs{Stream: "s", Group: "g", Start: "-", End: "+", Count: int64(n) + 1, Consumer: "alive"}).Val()
				if len(left) != n {
					t.Errorf("the peer has %d of its %d entries left", len(left), n)
				}
			})
		}
	})
}

// However much is pending, a look takes the server so little time that the commands of others hardly wait for it.
func TestALookAtAHundredThousandPendingEntriesIsShort(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred thousand entries on each server")
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) { // the embedded server keeps no slow log
		const n = 100_000
		client := server.Client()
		b := redisbroker.Standalone(server.URL(), redisbroker.Liveness(ttl))
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		for _, source := range []broker.Source{{Claim: time.Second}, {}} {
			t.Run(fmt.Sprint("claim=", source.Claim), func(t *testing.T) {
				client.FlushDB(t.Context())
				source.Block = 200 * time.Millisecond
				f := open(t, client, b, source)
				id := f.behind(n)
				stop := f.start()
				check := nothingSlow(t, client)
				f.collect(1)
				stop()
				f.sub.Stop(t.Context())
				if err := f.sub.Release(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				check()
				if p := f.pending(); len(p) == 0 || client.XLen(t.Context(), "s").Val() != 1 {
					t.Errorf("%s: pending %v", id, p)
				}
			})
		}
	})
}

// nothingSlow has the server note every command from now on that takes long; the returned function says which did.
func nothingSlow(t *testing.T, client *redis.Client) (check func()) {
	t.Helper()
	const longest = 50 * time.Millisecond
	if err := client.ConfigSet(t.Context(), "slowlog-log-slower-than", fmt.Sprint(longest.Microseconds())).Err(); err != nil {
		t.Fatal(err)
	}
	client.Do(t.Context(), "SLOWLOG", "RESET")
	return func() {
		t.Helper()
		slow, err := client.SlowLogGet(t.Context(), 10).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range slow {
			t.Errorf("%v took %s", s.Args[:min(len(s.Args), 12)], s.Duration)
		}
	}
}

// The same holds for what is pending under the process's own name: what a predecessor left under it, and what waits to be
// claimed.
func TestALookAtAHundredThousandOwnEntriesIsShort(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred thousand entries on each server")
	}
	const n = 100_000
	redistest.Each(t, func(t *testing.T, server *redistest.Server) { // the embedded server keeps no slow log
		process := func(options ...redisbroker.Option) *redisbroker.Broker {
			b := redisbroker.Standalone(server.URL(), append(options, redisbroker.Liveness(ttl))...)
			t.Cleanup(func() { _ = b.Close(context.Background()) })
			return b
		}
		client := server.Client()
		t.Run("a predecessor's", func(t *testing.T) {
			client.FlushDB(t.Context())
			f := open(t, client, process(redisbroker.Consumer("fixed")), broker.Source{Block: 200 * time.Millisecond})
			f.leave("fixed", n, false)
			id := f.leave("fixed", 1, true)
			check := nothingSlow(t, client)
			if d := f.one(); d.ID != id || d.Count != 2 {
				t.Errorf("took %s with count %d, want %s", d.ID, d.Count, id)
			}
			check()
			if p := f.pending(); len(p) != 1 || f.count["vanished"] != n {
				t.Errorf("%d are pending, %d vanished", len(p), f.count["vanished"])
			}
		})
		t.Run("waiting", func(t *testing.T) {
			client.FlushDB(t.Context())
			f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond, Claim: time.Hour})
			name := f.consumer()
			for waiting := 0; waiting < n; {
				f.addMany(1000)
				var kept []*broker.Settlement
				for _, d := range f.read(1000) {
					kept = append(kept, &broker.Settlement{Delivery: d, Action: broker.Keep, Count: d.Count})
					f.drop(d.ID)
				}
				f.sub.Settle(t.Context(), kept)
				waiting += len(kept)
			}
			id := f.add("_payload", "unseen")
			client.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "g", Consumer: name, Streams: []string{"s", ">"}, Count: 1})
			check := nothingSlow(t, client)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := f.sub.Read(ctx, broker.Want{New: 1, Back: 1}); err == nil {
				t.Fatal("a read with an ended context succeeded")
			}
			if d := f.one(); d.ID != id || d.Count != 1 {
				t.Errorf("found %s with count %d, want %s", d.ID, d.Count, id)
			}
			check()
			client.FlushDB(t.Context()) // nothing is left to hand back
		})
	})
}
