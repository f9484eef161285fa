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

// behind leaves n trimmed entries pending under a peer that is alive, and one whole entry of a dead one behind them. All
// have been idle for an hour. It returns the id of the last one.
func (f *fixture) behind(n int) string {
	f.t.Helper()
	ctx, c := f.t.Context(), f.client
	c.Set(ctx, "{s}:alive:g:alive", "token", time.Hour)
	const step = 1000
	for done := 0; done < n; done += step {
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for range min(step, n-done) {
				p.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: []string{"_payload", "trimmed"}})
			}
			return nil
		})
		if err != nil {
			f.t.Fatal(err)
		}
		all := c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "alive", Streams: []string{"s", ">"}, Count: step}).Val()
		claim := []any{"XCLAIM", "s", "g", "alive", 0}
		var ids []string
		for _, m := range all[0].Messages {
			claim, ids = append(claim, m.ID), append(ids, m.ID)
		}
		if err := c.Do(ctx, append(claim, "IDLE", 3_600_000, "RETRYCOUNT", 1, "JUSTID")...).Err(); err != nil {
			f.t.Fatal(err)
		}
		c.XDel(ctx, "s", ids...)
	}
	id := f.add("_payload", "behind")
	c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "dead", Streams: []string{"s", ">"}, Count: 1})
	c.Do(ctx, "XCLAIM", "s", "g", "dead", 0, id, "IDLE", 3_600_000, "RETRYCOUNT", 1, "JUSTID")
	return id
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
		const n, longest = 100_000, 50 * time.Millisecond
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
				if err := client.ConfigSet(t.Context(), "slowlog-log-slower-than", fmt.Sprint(longest.Microseconds())).Err(); err != nil {
					t.Fatal(err)
				}
				client.Do(t.Context(), "SLOWLOG", "RESET")
				f.collect(1)
				stop()
				f.sub.Stop(t.Context())
				if err := f.sub.Release(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				slow, err := client.SlowLogGet(t.Context(), 10).Result()
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range slow {
					t.Errorf("%v took %s", s.Args[:min(len(s.Args), 12)], s.Duration)
				}
				if p := f.pending(); len(p) == 0 || client.XLen(t.Context(), "s").Val() != 1 {
					t.Errorf("%s: pending %v", id, p)
				}
			})
		}
	})
}
