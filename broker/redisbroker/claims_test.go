package redisbroker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

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
