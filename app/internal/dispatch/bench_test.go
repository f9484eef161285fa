package dispatch

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/millrace-go/millrace/app/internal/telemetry"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// endless is a source that always has more, so that a benchmark measures the engine alone.
type endless struct {
	body      []byte
	given     atomic.Int64
	settled   atomic.Int64
	target    int64
	done      chan struct{}
	isStopped atomic.Bool
}

func (s *endless) Capabilities() broker.Capabilities {
	return broker.Capabilities{Acks: true, Refetches: true, PacksFailures: true}
}
func (s *endless) Tasks() []broker.Task { return nil }
func (s *endless) Stop(context.Context) { s.isStopped.Store(true) }

func (s *endless) Release(context.Context, []broker.Held) error { return nil }

func (s *endless) Read(_ context.Context, want broker.Want) ([]*broker.Delivery, error) {
	if s.isStopped.Load() {
		return nil, broker.ErrClosed
	}
	if s.given.Load() >= s.target {
		time.Sleep(time.Millisecond)
		return nil, nil
	}
	deliveries := make([]broker.Delivery, want.New)
	list := make([]*broker.Delivery, want.New)
	for i := range deliveries {
		deliveries[i] = broker.Delivery{ID: strconv.FormatInt(s.given.Add(1), 10), Count: 1, Body: s.body, HasBody: true}
		list[i] = &deliveries[i]
	}
	return list, nil
}

func (s *endless) Settle(_ context.Context, batch []*broker.Settlement) {
	for _, st := range batch {
		st.Result = broker.Done
	}
	if n := s.settled.Add(int64(len(batch))); n >= s.target && n-int64(len(batch)) < s.target {
		close(s.done)
	}
}

func BenchmarkAck(b *testing.B) {
	for _, concurrency := range []int{1, 10, 100} {
		b.Run(strconv.Itoa(concurrency), func(b *testing.B) { benchmarkAck(b, concurrency, telemetry.New(nil, nil)) })
	}
}

// BenchmarkTelemetry is what it costs a message to be measured, and to have a span.
func BenchmarkTelemetry(b *testing.B) {
	meters := func() *sdkmetric.MeterProvider {
		return sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	}
	for name, t := range map[string]*telemetry.Telemetry{
		"none":      telemetry.New(nil, nil),
		"metrics":   telemetry.New(meters(), nil),
		"unsampled": telemetry.New(meters(), sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))),
		"spans":     telemetry.New(meters(), sdktrace.NewTracerProvider()),
	} {
		b.Run(name, func(b *testing.B) { benchmarkAck(b, 10, t) })
	}
}

func benchmarkAck(b *testing.B, concurrency int, t *telemetry.Telemetry) {
	source := &endless{body: []byte("x"), target: int64(b.N), done: make(chan struct{})}
	engine := New(Config{
		Name: "bench",
		Routes: []Route{{
			Name: "bench",
			Subscription: streamrt.Subscribe(streamrt.Spec{}, streamrt.Default, func(context.Context, int) outcome.HandlerOutcome {
				return outcome.Ack()
			}),
			Codec: constant{}, Concurrency: concurrency,
			Logger: slog.New(slog.DiscardHandler), Telemetry: t.Mount("bench", broker.Source{Key: "bench", Group: "g"}, Outcomes),
		}},
		MaxParked: 10000, Logger: slog.New(slog.DiscardHandler), Holdings: NewHoldings(), Vitals: NewVitals(0),
	}, source)
	b.ReportAllocs()
	b.ResetTimer()
	engine.Start(b.Context())
	<-source.done
	b.StopTimer()
	if err := engine.Shutdown(b.Context(), time.Second, nil); err != nil {
		b.Fatal(err)
	}
}

// constant is a codec that costs nothing.
type constant struct{}

func (constant) Name() string                { return "constant" }
func (constant) Marshal(any) ([]byte, error) { return nil, nil }
func (constant) Unmarshal([]byte, any) error { return nil }
