package redisbroker_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

// What a start tries out on the server, for the sake of the permissions, neither takes an entry nor counts as a delivery.
func TestAStartTakesNothing(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		for _, value := range []string{"first", "second"} {
			if err := client.XAdd(t.Context(), &redis.XAddArgs{Stream: "s", Values: []string{"_payload", value}}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		open(t, client, process(), broker.Source{Block: 200 * time.Millisecond})
		if n := client.XPending(t.Context(), "s", "g").Val().Count; n != 0 {
			t.Errorf("%d entries are pending before the first read", n)
		}
		if err := client.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "g", Consumer: "fixed", Streams: []string{"s", ">"}}).Err(); err != nil {
			t.Fatal(err)
		}
		heir := open(t, client, process(redisbroker.Consumer("fixed")), broker.Source{Block: 200 * time.Millisecond})
		for _, p := range heir.pending() {
			if p.RetryCount != 1 {
				t.Errorf("the delivery count of a predecessor's entry is %d after the start", p.RetryCount)
			}
		}
	})
}
