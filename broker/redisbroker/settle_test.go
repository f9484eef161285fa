package redisbroker_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

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

// A call that settles many looks at them together, and decides for each.
func TestEachOfABatchIsFencedByItself(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		for _, action := range []broker.Action{broker.Copy, broker.Delay, broker.Bury} {
			client.FlushDB(t.Context())
			f := open(t, client, b, broker.Source{Block: time.Second, DelaySet: "{s}.z"})
			var ids []string
			for range 8 {
				ids = append(ids, f.add("_payload", "b"))
			}
			var all []*broker.Delivery
			for len(all) < len(ids) {
				all = append(all, f.read(len(ids))...)
			}
			me := f.consumer()
			claim := func(consumer, id string, count int) {
				client.Do(t.Context(), "XCLAIM", "s", "g", consumer, 0, id, "RETRYCOUNT", count, "JUSTID")
			}
			claim("other", ids[1], 1)
			claim(me, ids[2], 5)
			client.XAck(t.Context(), "s", "g", ids[3])
			// Out of order, and one of them twice.
			order := []int{1, 4, 0, 2, 3, 5, 7, 6, 4}
			want := map[int]broker.Result{1: broker.Lost, 2: broker.Lost, 3: broker.Gone}
			batch := make([]*broker.Settlement, len(order))
			for i, n := range order {
				batch[i] = &broker.Settlement{Delivery: all[n], Action: action, Delay: time.Hour, Repeated: true}
				if action == broker.Bury {
					batch[i].Target, batch[i].Burial = "{s}.dlq", &broker.Burial{}
				}
			}
			f.sub.Settle(t.Context(), batch)
			for i, n := range order {
				expected := want[n]
				switch {
				case i == len(order)-1:
					expected = broker.Gone
				case expected == 0:
					expected = broker.Done
				}
				if st := batch[i]; st.Err != nil || st.Result != expected {
					t.Errorf("%s of entry %d: %s, %v, want %s", action, n, st.Result, st.Err, expected)
				}
			}
			written := map[broker.Action]int64{
				broker.Copy:  client.XLen(t.Context(), "s").Val() - int64(len(ids)),
				broker.Delay: client.ZCard(t.Context(), "{s}.z").Val(),
				broker.Bury:  client.XLen(t.Context(), "{s}.dlq").Val(),
			}
			if written[action] != 5 || written[broker.Copy]+written[broker.Delay]+written[broker.Bury] != 5 {
				t.Errorf("%s wrote %v, want 5", action, written)
			}
			if p := f.pending(); len(p) != 2 || p[0].ID != ids[1] || p[1].ID != ids[2] || p[1].RetryCount != 5 {
				t.Errorf("%s leaves pending %v", action, p)
			}
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
		client.Del(t.Context(), "z")
		client.Del(t.Context(), "dlq")
		f.sub.Settle(t.Context(), batch[:2])
		if p := f.pending(); len(p) != 0 || batch[0].Result != broker.Done || batch[1].Result != broker.Done {
			t.Errorf("the same settlements again: %v %v, pending %v", batch[0], batch[1], p)
		}
	})
}

// A subscription says whether its outcomes are one step: on a cluster they are several where a key is in another slot.
func TestSubscriptionsSayWhetherOutcomesAreOneStep(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		clustered := strings.HasSuffix(t.Name(), "/cluster")
		if f := open(t, client, b, broker.Source{}); f.sub.Capabilities().InSteps != clustered {
			t.Errorf("the stream s and the dead letter dlq: InSteps is %t", !clustered)
		}
	})
}
