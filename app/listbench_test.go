package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// BenchmarkConsumeList drains a list with one mount whose handler does nothing, and with the barest loop that go-redis
// allows, turn by turn on one server: RPOP of 100 items and JSON decode for a plain list; for a reliable one LMOVE of 100
// items into a list in flight and LREM of each, in one pipeline. The ratio of the two is the figure to quote:
//
//	go test -run '^$' -bench ConsumeList -benchtime 5x ./app
func BenchmarkConsumeList(b *testing.B) {
	for _, reliable := range []bool{false, true} {
		for _, concurrency := range []int{1, 10, 100} {
			b.Run(fmt.Sprintf("reliable=%t/concurrency=%d", reliable, concurrency), func(b *testing.B) {
				server := redistest.Start(b)
				bareLoop := popBare
				if reliable {
					bareLoop = moveBare
				}
				var bare, mount, ratio []float64
				for range b.N {
					b.StopTimer()
					fillList(b, server.Client())
					bareRate := rate(b, func() { bareLoop(b, server.Client()) })
					fillList(b, server.Client())
					b.StartTimer()
					mountRate := rate(b, func() { drainListMount(b, server, reliable, concurrency) })
					bare, mount, ratio = append(bare, bareRate), append(mount, mountRate), append(ratio, mountRate/bareRate)
				}
				b.ReportMetric(median(bare), "bare-msg/s")
				b.ReportMetric(median(mount), "msg/s")
				b.ReportMetric(median(ratio), "of-bare")
				b.ReportMetric(float64(benchMessages), "msg/op")
			})
		}
	}
}

func fillList(b *testing.B, client *redis.Client) {
	b.Helper()
	ctx := b.Context()
	body, err := json.Marshal(order{
		ID: 7, Customer: "c-193847", Note: "leave it at the door, the bell does not work",
		Lines: []string{"2 x blue kettle", "1 x tea, assam, 500 g", "1 x cup, large"}, Cents: 4599,
	})
	if err != nil {
		b.Fatal(err)
	}
	client.Del(ctx, "orders.list", "orders.flight")
	for range benchMessages / 1000 {
		values := make([]any, 1000)
		for i := range values {
			values[i] = body
		}
		if err := client.LPush(ctx, "orders.list", values...).Err(); err != nil {
			b.Fatal(err)
		}
	}
}

func popBare(b *testing.B, client *redis.Client) {
	for left := benchMessages; left > 0; {
		items, err := client.RPopCount(b.Context(), "orders.list", 100).Result()
		if err != nil {
			b.Fatal(err)
		}
		for _, item := range items {
			decodeOrder(b, item)
		}
		left -= len(items)
	}
}

func moveBare(b *testing.B, client *redis.Client) {
	ctx := b.Context()
	var held []string
	for left := benchMessages; left > 0 || len(held) > 0; left -= len(held) {
		pipe := client.Pipeline()
		for _, item := range held {
			pipe.LRem(ctx, "orders.flight", -1, item)
		}
		moves := make([]*redis.StringCmd, min(100, left))
		for i := range moves {
			moves[i] = pipe.LMove(ctx, "orders.list", "orders.flight", "RIGHT", "LEFT")
		}
		if _, err := pipe.Exec(ctx); err != nil {
			b.Fatal(err)
		}
		held = held[:0]
		for _, m := range moves {
			decodeOrder(b, m.Val())
			held = append(held, m.Val())
		}
	}
}

func decodeOrder(b *testing.B, item string) {
	var o order
	if err := json.Unmarshal([]byte(item), &o); err != nil {
		b.Fatal(err)
	}
}

// drainListMount runs an app until everything is handled; starting and stopping it is part of the time.
func drainListMount(b *testing.B, server *redistest.Server, reliable bool, concurrency int) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var handled atomic.Int64
	sub := streamrt.SubscribeErr(streamrt.Spec{Name: "bench", List: "orders.list", Reliable: reliable}, streamrt.JSON,
		func(context.Context, order) error {
			if handled.Add(1) == benchMessages {
				cancel()
			}
			return nil
		})
	a := app.New("bench", "0", app.Logger(slog.New(slog.DiscardHandler)))
	a.Broker(redisbroker.Standalone(server.URL())).Mount(sub, app.Concurrency(concurrency), app.Prefetch(100))
	if err := a.Run(ctx); err != nil {
		b.Fatal(err)
	}
	if n := handled.Load(); n != benchMessages {
		b.Fatalf("%d messages were handled", n)
	}
	// A key that keeps other processes from looking at the list within the same second ends by itself.
	if keys := server.Client().Keys(b.Context(), "*orders.list*[^:]").Val(); len(keys) != 0 {
		b.Fatalf("keys are left: %v", keys)
	}
}
