package redisbroker_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

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
