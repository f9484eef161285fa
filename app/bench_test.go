package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// order is a payload of about 200 bytes.
type order struct {
	ID       int      `json:"id"`
	Customer string   `json:"customer"`
	Note     string   `json:"note"`
	Lines    []string `json:"lines"`
	Cents    int      `json:"cents"`
}

const benchMessages = 100_000

// BenchmarkConsume drains a stream with one mount whose handler does nothing, and with the barest loop that go-redis
// allows (XREADGROUP COUNT 100, JSON decode, one XACK a batch, pipelined), turn by turn on one server. Rates on a shared
// machine drift; the ratio of the two, a median over the rounds, is the figure to quote:
//
//	go test -run '^$' -bench Consume -benchtime 5x ./app
func BenchmarkConsume(b *testing.B) {
	for _, concurrency := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("concurrency=%d", concurrency), func(b *testing.B) {
			server := redistest.Start(b)
			var bare, mount, ratio []float64
			for range b.N {
				b.StopTimer()
				fill(b, server.Client())
				bareRate := rate(b, func() { drainBare(b, server.Client()) })
				fill(b, server.Client())
				b.StartTimer()
				mountRate := rate(b, func() { drainMount(b, server, concurrency) })
				bare, mount, ratio = append(bare, bareRate), append(mount, mountRate), append(ratio, mountRate/bareRate)
			}
			b.ReportMetric(median(bare), "bare-msg/s")
			b.ReportMetric(median(mount), "msg/s")
			b.ReportMetric(median(ratio), "of-bare")
			b.ReportMetric(float64(benchMessages), "msg/op")
		})
	}
}

func rate(b *testing.B, drain func()) float64 {
	b.Helper()
	start := time.Now()
	drain()
	return benchMessages / time.Since(start).Seconds()
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// fill makes a stream of unread messages and a group at its start.
func fill(b *testing.B, client *redis.Client) {
	b.Helper()
	ctx := b.Context()
	body, err := json.Marshal(order{
		ID: 7, Customer: "c-193847", Note: "leave it at the door, the bell does not work",
		Lines: []string{"2 x blue kettle", "1 x tea, assam, 500 g", "1 x cup, large"}, Cents: 4599,
	})
	if err != nil {
		b.Fatal(err)
	}
	client.Del(ctx, "orders")
	for range benchMessages / 1000 {
		_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for range 1000 {
				p.XAdd(ctx, &redis.XAddArgs{Stream: "orders", Values: []any{"_payload", body}})
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := client.XGroupCreate(ctx, "orders", "bench", "0").Err(); err != nil {
		b.Fatal(err)
	}
}

func drainBare(b *testing.B, client *redis.Client) {
	ctx := b.Context()
	var ids []string
	for left := benchMessages; left > 0; {
		pipe := client.Pipeline()
		if len(ids) > 0 {
			pipe.XAck(ctx, "orders", "bench", ids...)
		}
		read := pipe.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "bench", Consumer: "bare", Streams: []string{"orders", ">"}, Count: 100, Block: -1})
		if _, err := pipe.Exec(ctx); err != nil {
			b.Fatal(err)
		}
		ids = ids[:0]
		for _, m := range read.Val()[0].Messages {
			var o order
			if err := json.Unmarshal([]byte(m.Values["_payload"].(string)), &o); err != nil {
				b.Fatal(err)
			}
			ids = append(ids, m.ID)
			left--
		}
	}
	if err := client.XAck(ctx, "orders", "bench", ids...).Err(); err != nil {
		b.Fatal(err)
	}
}

// drainMount runs an app until everything is acknowledged; starting and stopping it is part of the time.
func drainMount(b *testing.B, server *redistest.Server, concurrency int) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var handled atomic.Int64
	sub := streamrt.SubscribeErr(streamrt.Spec{Name: "bench", Stream: "orders", Group: "bench"}, streamrt.JSON,
		func(context.Context, order) error {
			if handled.Add(1) == benchMessages {
				cancel()
			}
			return nil
		})
	a := app.New("bench", "0", app.Logger(slog.New(slog.DiscardHandler)))
	a.Broker(redisbroker.Standalone(server.URL())).Mount(sub, app.Concurrency(concurrency))
	if err := a.Run(ctx); err != nil {
		b.Fatal(err)
	}
	if n := handled.Load(); n != benchMessages {
		b.Fatalf("%d messages were handled", n)
	}
	if n := server.Client().XPending(b.Context(), "orders", "bench").Val().Count; n != 0 {
		b.Fatalf("%d messages are pending", n)
	}
}
