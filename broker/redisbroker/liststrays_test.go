package redisbroker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

// The server loses what it was told of items of a reliable list, as a replica that lagged and became the master has. The
// process that told it makes up for that while it runs.
func TestWhatTheServerLostOfItemsIsMadeUpFor(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := openList(t, client, process(), reliable)
		f.push("settled", "in hand")
		ds := f.gather(2)
		list := f.keys("{l}:inflight:*")[0]
		aside := "{l}:aside" + list[len("{l}:inflight"):]
		f.beats()
		if got := f.settle(broker.Settlement{Delivery: ds[0], Action: broker.Ack}); got != broker.Done {
			t.Fatal(got)
		}
		began := time.Now()
		again := func(what string) {
			t.Helper()
			got := f.waitFor(1)
			if bodies := bodies(got); !slices.Equal(bodies, []string{"settled"}) {
				t.Fatalf("%s: read %v", what, bodies)
			}
			if losses, charged := got[0].Header("losses"); charged {
				t.Errorf("%s: charged with %s losses", what, losses)
			}
			if got := f.settle(broker.Settlement{Delivery: got[0], Action: broker.Ack}); got != broker.Done {
				t.Errorf("%s: %v", what, got)
			}
		}
		client.LPush(t.Context(), list, "settled")
		again("in flight")
		client.LPush(t.Context(), aside, "settled")
		again("aside")
		if took := time.Since(began); took > 4*ttl {
			t.Errorf("it took %s", took)
		}
		// It was taken up again, and stands aside on the server.
		client.LRem(t.Context(), list, 1, "in hand")
		client.LPush(t.Context(), aside, "in hand")
		f.eventually("what is in hand is in flight", func() bool {
			return slices.Equal(f.items(list), []string{"in hand"}) && len(f.items(aside)) == 0
		})
		if got := f.settle(broker.Settlement{Delivery: ds[1], Action: broker.Ack}); got != broker.Done || f.inFlight() != 0 {
			t.Errorf("%v, %d in flight", got, f.inFlight())
		}
	})
}
