package app_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// channelMessages are so many that starting and stopping the app, a few milliseconds each, weigh little.
const channelMessages = 500_000

// BenchmarkConsumeChannel receives what is published on a channel with one mount whose handler does nothing, and with the
// barest loop that go-redis allows (ReceiveMessage, JSON decode), turn by turn on one server. The publisher is the same:
// batches of a thousand, and never more than five of them ahead, so that nothing overflows. The figure to quote is the
// ratio:
//
//	go test -run '^$' -bench ConsumeChannel -benchtime 3x ./app
func BenchmarkConsumeChannel(b *testing.B) {
	server := redistest.Start(b)
	var bare, mount, ratio []float64
	for range b.N {
		b.StopTimer()
		bareRate := channelRate(func() { receiveBare(b, server.Client()) })
		b.StartTimer()
		mountRate := channelRate(func() { receiveMount(b, server) })
		bare, mount, ratio = append(bare, bareRate), append(mount, mountRate), append(ratio, mountRate/bareRate)
	}
	b.ReportMetric(median(bare), "bare-msg/s")
	b.ReportMetric(median(mount), "msg/s")
	b.ReportMetric(median(ratio), "of-bare")
	b.ReportMetric(float64(channelMessages), "msg/op")
}

func channelRate(drain func()) float64 {
	start := time.Now()
	drain()
	return channelMessages / time.Since(start).Seconds()
}

// announce publishes as fast as what it publishes is handled.
func announce(b *testing.B, client *redis.Client, handled *atomic.Int64, progress <-chan struct{}) {
	b.Helper()
	ctx := b.Context()
	body, err := json.Marshal(order{
		ID: 7, Customer: "c-193847", Note: "leave it at the door, the bell does not work",
		Lines: []string{"2 x blue kettle", "1 x tea, assam, 500 g", "1 x cup, large"}, Cents: 4599,
	})
	if err != nil {
		b.Error(err)
		return
	}
	const batch, ahead = 1000, 5000
	for sent := 0; sent < channelMessages; sent += batch {
		for int64(sent)-handled.Load() > ahead-batch {
			<-progress
		}
		if _, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for range batch {
				p.Publish(ctx, "orders", body)
			}
			return nil
		}); err != nil {
			b.Error(err)
			return
		}
	}
}

// tick tells the publisher of every hundredth message that was handled.
func tick(n int64, progress chan<- struct{}) {
	if n%100 == 0 {
		select {
		case progress <- struct{}{}:
		default:
		}
	}
}

func receiveBare(b *testing.B, client *redis.Client) {
	sub := client.Subscribe(b.Context(), "orders")
	defer sub.Close()
	if _, err := sub.Receive(b.Context()); err != nil {
		b.Fatal(err)
	}
	var handled atomic.Int64
	progress := make(chan struct{}, 1)
	go announce(b, client, &handled, progress)
	for handled.Load() < channelMessages {
		m, err := sub.ReceiveMessage(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		var o order
		if err := json.Unmarshal([]byte(m.Payload), &o); err != nil {
			b.Fatal(err)
		}
		tick(handled.Add(1), progress)
	}
}

// receiveMount runs an app until everything is handled; starting and stopping it is part of the time.
func receiveMount(b *testing.B, server *redistest.Server) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var handled atomic.Int64
	progress := make(chan struct{}, 1)
	sub := streamrt.SubscribeErr(streamrt.Spec{Name: "bench", Channel: "orders"}, streamrt.JSON,
		func(context.Context, order) error {
			n := handled.Add(1)
			tick(n, progress)
			if n == channelMessages {
				cancel()
			}
			return nil
		})
	a := app.New("bench", "0", app.Logger(slog.New(slog.DiscardHandler)))
	a.AfterStartup(func(context.Context) error {
		go announce(b, server.Client(), &handled, progress)
		return nil
	})
	a.Broker(redisbroker.Standalone(server.URL())).Mount(sub)
	if err := a.Run(ctx); err != nil {
		b.Fatal(err)
	}
	if n := handled.Load(); n != channelMessages {
		b.Fatalf("%d messages were handled", n)
	}
}
