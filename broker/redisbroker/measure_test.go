package redisbroker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

// unknown is a number that the server cannot tell.
var unknown = broker.Number{}

func measure(t *testing.T, b *redisbroker.Broker, source broker.Source, deadLetter string) broker.Measures {
	t.Helper()
	all, err := b.Measure(t.Context(), []broker.Measurand{{Source: source, DeadLetter: deadLetter}})
	if err != nil || len(all) != 1 {
		t.Fatalf("%d measures: %v", len(all), err)
	}
	return all[0]
}

// The lag that XINFO GROUPS states is nil after a deletion ahead of the group, counts what was trimmed, and on some servers
// stays above 0 for good after the group has passed a deleted entry.
func TestTheLagIsTrueOrUnknown(t *testing.T) {
	source := broker.Source{Structure: broker.StructureStream, Key: "s", Group: "g"}
	for _, c := range []struct {
		name string
		// before and after come before and after two of four entries are read.
		before, after func(ctx context.Context, client *redis.Client, ids []string)
		lag           []broker.Number
		length        int64
	}{
		{name: "nothing special", lag: []broker.Number{broker.Known(2)}, length: 4},
		{name: "the next one is deleted", after: func(ctx context.Context, client *redis.Client, ids []string) {
			client.XDel(ctx, "s", ids[2])
		}, lag: []broker.Number{unknown, broker.Known(1)}, length: 3},
		{name: "the last one is deleted", after: func(ctx context.Context, client *redis.Client, ids []string) {
			client.XDel(ctx, "s", ids[3])
		}, lag: []broker.Number{unknown, broker.Known(1)}, length: 3},
		{name: "the first one is deleted", after: func(ctx context.Context, client *redis.Client, ids []string) {
			client.XDel(ctx, "s", ids[0])
		}, lag: []broker.Number{broker.Known(2)}, length: 3},
		{name: "unread ones are trimmed", after: func(ctx context.Context, client *redis.Client, _ []string) {
			client.XTrimMaxLen(ctx, "s", 1)
		}, lag: []broker.Number{broker.Known(1)}, length: 1},
		{name: "all are trimmed", after: func(ctx context.Context, client *redis.Client, _ []string) {
			client.XTrimMaxLen(ctx, "s", 0)
		}, lag: []broker.Number{broker.Known(0)}},
		{name: "all are deleted", after: func(ctx context.Context, client *redis.Client, ids []string) {
			client.XDel(ctx, "s", ids...)
		}, lag: []broker.Number{broker.Known(0)}},
		{name: "all is read, past a deleted one", before: func(ctx context.Context, client *redis.Client, ids []string) {
			client.XDel(ctx, "s", ids[0])
		}, after: func(ctx context.Context, client *redis.Client, ids []string) {
			client.XDel(ctx, "s", ids[2])
			client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{"s", ">"}, Block: -1})
		}, lag: []broker.Number{broker.Known(0)}, length: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
				ctx := t.Context()
				if err := client.XGroupCreateMkStream(ctx, "s", "g", "0").Err(); err != nil {
					t.Fatal(err)
				}
				var ids []string
				for range 4 {
					ids = append(ids, client.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: []any{"_payload", "b"}}).Val())
				}
				if c.before != nil {
					c.before(ctx, client, ids)
				}
				read := client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{"s", ">"}, Count: 2, Block: -1})
				if err := read.Err(); err != nil {
					t.Fatal(err)
				}
				if c.after != nil {
					c.after(ctx, client, ids)
				}
				got := measure(t, b, source, "")
				fits := false
				for _, lag := range c.lag {
					fits = fits || got.Lag == lag
				}
				if !fits || got.Length != broker.Known(c.length) {
					t.Errorf("lag %v of %v, want one of %v of %d", got.Lag, got.Length, c.lag, c.length)
				}
			})
		})
	}
}

func TestEverythingOfASourceIsMeasuredAtOnce(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		ctx := t.Context()
		now := time.Now().UnixMilli()
		client.XGroupCreateMkStream(ctx, "s", "g", "0")
		for range 3 {
			client.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: []any{"_payload", "b"}})
			client.XAdd(ctx, &redis.XAddArgs{Stream: "dlq", Values: []any{"_payload", "b"}})
		}
		client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{"s", ">"}, Count: 1, Block: -1})
		client.ZAdd(ctx, "z", redis.Z{Score: float64(now - 60_000), Member: "due"}, redis.Z{Score: float64(now + 60_000), Member: "later"})
		client.ZAdd(ctx, "{s}:deferred", redis.Z{Score: float64(now + 60_000), Member: "later"})
		client.LPush(ctx, "l", "1", "2", "3")
		client.SAdd(ctx, "{l}:owners", "c1:t1", "c2:t2")
		client.LPush(ctx, "{l}:inflight::c1:t1", "4", "5")
		client.LPush(ctx, "{l}:aside::c2:t2", "6")
		client.LPush(ctx, "letters", "1", "2")

		known := broker.Known
		all, err := b.Measure(ctx, []broker.Measurand{
			{Source: broker.Source{Structure: broker.StructureStream, Key: "s", Group: "g", DelaySet: "z"}, DeadLetter: "dlq"},
			{Source: broker.Source{Structure: broker.StructureStream, Key: "s", Group: "none", Defers: true}},
			{Source: broker.Source{Structure: broker.StructureStream, Key: "gone", Group: "g", DelaySet: "empty"}, DeadLetter: "nobody"},
			{Source: broker.Source{Structure: broker.StructureList, Key: "l"}, DeadLetter: "letters"},
			{Source: broker.Source{Structure: broker.StructureList, Key: "l", Reliable: true}},
			{Source: broker.Source{Structure: broker.StructureChannel, Key: "c"}, DeadLetter: "another"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if overdue := all[0].Overdue; overdue < time.Minute-5*time.Second || overdue > time.Minute+15*time.Second {
			t.Errorf("the first is overdue for %s", overdue)
		}
		all[0].Overdue = 0
		for i, want := range []broker.Measures{
			{Length: known(3), Lag: known(2), Pending: known(1), Delayed: known(2), HasOverdue: true, DeadLetters: known(3)},
			{Length: known(3), Delayed: known(1), HasOverdue: true},
			{Length: known(0), Delayed: known(0), HasOverdue: true, DeadLetters: known(0)},
			{Length: known(3), Lag: known(3), DeadLetters: known(2)},
			{Length: known(3), Lag: known(3), Pending: known(3), Delayed: known(0), HasOverdue: true},
			{},
		} {
			if all[i] != want {
				t.Errorf("%d: %+v, want %+v", i, all[i], want)
			}
		}
	})
}

// What one key refuses hides no other number, and is told.
func TestWhatCannotBeMeasuredIsUnknown(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		ctx := t.Context()
		client.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: []any{"_payload", "b"}})
		client.Set(ctx, "z", "text", 0)
		client.Set(ctx, "dlq", "text", 0)
		all, err := b.Measure(ctx, []broker.Measurand{
			{Source: broker.Source{Structure: broker.StructureStream, Key: "s", Group: "g", DelaySet: "z"}, DeadLetter: "dlq"},
		})
		if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || !strings.Contains(err.Error(), "dlq") {
			t.Errorf("the error is %v", err)
		}
		if len(all) != 1 || all[0] != (broker.Measures{Length: broker.Known(1)}) {
			t.Errorf("%+v", all)
		}
	})
}

func TestAServerThatForgotItsScriptsIsMeasured(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		ctx := t.Context()
		source := broker.Source{Structure: broker.StructureStream, Key: "s", Group: "g", DelaySet: "z"}
		client.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: []any{"_payload", "b"}})
		for range 2 {
			if err := client.ScriptFlush(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			if got := measure(t, b, source, ""); got.Length != broker.Known(1) || got.Delayed != broker.Known(0) {
				t.Errorf("%+v", got)
			}
		}
	})
}

// A hundred mounts of a service cost one round trip.
func TestManySourcesAreMeasuredInOneRoundTrip(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		if err := b.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		trips := redisbroker.CountTrips(b)
		var sources []broker.Measurand
		for range 50 {
			sources = append(sources,
				broker.Measurand{Source: broker.Source{Structure: broker.StructureStream, Key: "s", Group: "g", DelaySet: "z"}, DeadLetter: "dlq"},
				broker.Measurand{Source: broker.Source{Structure: broker.StructureList, Key: "l", Reliable: true}, DeadLetter: "letters"})
		}
		if _, err := b.Measure(t.Context(), sources); err != nil {
			t.Fatal(err)
		}
		if n, commands := trips(); n != 1 || commands != 7 {
			t.Errorf("%d round trips with %d commands", n, commands)
		}
	})
}
