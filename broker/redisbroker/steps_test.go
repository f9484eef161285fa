package redisbroker_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

// An entry that was lost with its stream is delayed from the body in hand: the set lives as long as for any other.
func TestADelayFromTheBodyInHandKeepsTheSetUntilItIsDue(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		ctx := t.Context()
		f := open(t, client, b, broker.Source{Block: time.Second, DelaySet: "z", DelayTTL: time.Minute})
		for _, delay := range []time.Duration{time.Hour, time.Second} {
			f.add("_payload", delay.String()) // the same id and the same body would be the same message
			d := f.one()
			client.Del(ctx, "s")
			if err := client.XGroupCreateMkStream(ctx, "s", "g", "0").Err(); err != nil {
				t.Fatal(err)
			}
			if got := f.settle(broker.Settlement{Delivery: d, Action: broker.Delay, Delay: delay}); got != broker.Done {
				t.Fatalf("settled: %s", got)
			}
			if left := client.PTTL(ctx, "z").Val(); left < time.Hour+50*time.Second || left > time.Hour+61*time.Second {
				t.Errorf("after a delay of %s the set expires in %s, want a minute after the hour", delay, left)
			}
		}
		if n := client.ZCard(ctx, "z").Val(); n != 2 {
			t.Errorf("ZCARD %d", n)
		}
	})
}

// A settlement in steps whose last step failed is not written again.
func TestWhatIsWrittenIsNotWrittenAgain(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second})
		wide := []string{"_payload", "wide"}
		for range 2000 {
			wide = append(wide, "n", "v")
		}
		f.add(wide...)
		st := broker.Settlement{Delivery: f.one(), Action: broker.Copy, Written: true}
		if got := f.settle(st); got != broker.Done {
			t.Fatalf("settled: %s", got)
		}
		if n := client.XLen(t.Context(), "s").Val(); n != 1 || len(f.pending()) != 0 {
			t.Errorf("XLEN %d, pending %v", n, f.pending())
		}
	})
}
