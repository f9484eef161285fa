package redisbroker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

func TestADelayIsKeptByTheServersClockAndMovedOnce(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: 2 * time.Second, DelaySet: "z", DelayTTL: time.Minute})
		f.add("_payload", "same", "x", "1", "x", "2", "h:message-id", "same")
		f.add("_payload", "same", "x", "1", "x", "2", "h:message-id", "same")
		var asked time.Time
		for _, d := range f.read(2) {
			if asked.IsZero() {
				asked = client.Time(t.Context()).Val()
			}
			f.settle(broker.Settlement{Delivery: d, Action: broker.Delay, Delay: 300 * time.Millisecond, Edits: broker.Edits{Set: []broker.HeaderLine{{Name: "retry-count", Value: "1"}}}})
		}
		if n := client.ZCard(t.Context(), "z").Val(); n != 2 {
			t.Fatalf("ZCARD %d: equal messages collapsed", n)
		}
		if ttl := client.PTTL(t.Context(), "z").Val(); ttl < 50*time.Second || ttl > 61*time.Second {
			t.Errorf("PTTL %v", ttl)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.task("mover")(ctx)
		}()
		d := f.one()
		late := client.Time(t.Context()).Val().Sub(asked) - 300*time.Millisecond
		if late < 0 || late > 200*time.Millisecond {
			t.Errorf("moved %v late", late)
		}
		cancel()
		<-done
		if v, _ := d.Header("retry-count"); v != "1" || len(d.Fields) != 5 || string(d.Fields[2].Value) != "2" {
			t.Errorf("moved %+v", d)
		}
	})
}

func TestTwoMoversMoveAMemberOnce(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second, DelaySet: "z"})
		const n, wide = 300, 20
		many := []string{"_payload", "wide"}
		for range 2000 {
			many = append(many, "n", "v")
		}
		for i := range n {
			if i < wide {
				f.add(many...)
				continue
			}
			f.add("_payload", "b")
		}
		for range n {
			f.settle(broker.Settlement{Delivery: f.one(), Action: broker.Delay})
		}
		ctx, cancel := context.WithCancel(t.Context())
		var movers sync.WaitGroup
		for range 6 {
			movers.Go(func() { f.task("mover")(ctx) })
		}
		for client.ZCard(t.Context(), "z").Val() > 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		movers.Wait()
		if got := client.XLen(t.Context(), "s").Val(); got != 2*n {
			t.Errorf("%d entries were appended for %d delayed messages", got-n, n)
		}
	})
}

func TestAMoveThatFailsLeavesTheMember(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second, DelaySet: "z"})
		f.add("_payload", "b")
		f.settle(broker.Settlement{Delivery: f.one(), Action: broker.Delay})
		client.Rename(t.Context(), "s", "{s}.aside")
		client.Set(t.Context(), "s", "no stream", 0)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		f.task("mover")(ctx)
		if n := client.ZCard(t.Context(), "z").Val(); n != 1 {
			t.Fatalf("ZCARD %d: the message is gone", n)
		}
		client.Rename(t.Context(), "{s}.aside", "s")
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		go f.task("mover")(ctx)
		if d := f.wait(); string(d.Body) != "b" {
			t.Errorf("moved %s", d.Body)
		}
	})
}

func TestAMemberThatNobodyCanDecodeIsBuried(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second, DelaySet: "z"})
		client.ZAdd(t.Context(), "z", redis.Z{Score: 1, Member: "rubbish\x00\xff"})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		go func() {
			for ctx.Err() == nil && client.XLen(ctx, "dlq").Val() == 0 {
				time.Sleep(5 * time.Millisecond)
			}
			cancel()
		}()
		f.task("mover")(ctx)
		letters := f.entries("dlq")
		if len(letters) != 1 || letters[0]["_payload"] != "rubbish\x00\xff" || letters[0]["dlq_reason"] != "malformed" {
			t.Fatalf("dead letters %v", letters)
		}
		if n := client.ZCard(t.Context(), "z").Val(); n != 0 || f.count["malformed"] != 1 {
			t.Errorf("ZCARD %d, counted %v", n, f.count)
		}
	})
}

func TestAnEntryOfManyFieldsIsCopiedDelayedAndBuriedWhole(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: 2 * time.Second, DelaySet: "z"})
		values := []string{"_payload", "wide"}
		for range 4500 {
			values = append(values, "n", "v")
		}
		f.add(values...)
		if got := f.settle(broker.Settlement{Delivery: f.one(), Action: broker.Copy}); got != broker.Done {
			t.Fatal(got)
		}
		if got := f.settle(broker.Settlement{Delivery: f.one(), Action: broker.Delay, Delay: time.Millisecond}); got != broker.Done {
			t.Fatal(got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go f.task("mover")(ctx)
		d := f.one()
		if len(d.Fields) != len(values)/2+1 {
			t.Errorf("%d fields came back", len(d.Fields))
		}
		if got := f.settle(broker.Settlement{Delivery: d, Action: broker.Bury, Target: "dlq", Burial: &broker.Burial{Reason: "rejected"}}); got != broker.Done {
			t.Fatal(got)
		}
		if len(f.pending()) != 0 || client.XLen(t.Context(), "dlq").Val() != 1 {
			t.Errorf("pending %v", f.pending())
		}
	})
}
