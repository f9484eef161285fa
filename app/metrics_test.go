package app_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// counted reads all counters of one subscription: "deliveries ack" and so on.
func counted(t *testing.T, reader sdk.Reader, subscription string) map[string]int64 {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	sums := map[string]int64{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if !ok {
				continue
			}
			for _, p := range sum.DataPoints {
				if name, _ := p.Attributes.Value("subscription"); name.AsString() != subscription {
					continue
				}
				for _, key := range []attribute.Key{"outcome", "reason", "why"} {
					if v, ok := p.Attributes.Value(key); ok {
						sums[m.Name+" "+v.AsString()] += p.Value
					}
				}
			}
		}
	}
	return sums
}

func TestEverythingIsCounted(t *testing.T) {
	paused(t, func(s *service) {
		reader := sdk.NewManualReader()
		provider := sdk.NewMeterProvider(sdk.WithReader(reader))
		otel.SetMeterProvider(provider)
		defer otel.SetMeterProvider(noop.NewMeterProvider())

		answers := map[string]outcome.HandlerOutcome{
			"ack": outcome.Ack(), "drop": outcome.Drop(), "retry": outcome.Retry(), "fail": outcome.Of(errors.New("x")),
			"reject": outcome.DeadLetter(errors.New("x")), "later": outcome.RetryAfter(time.Second), "zero": {},
		}
		answer := func(_ context.Context, body string) outcome.HandlerOutcome {
			if body == "panic" {
				panic("x")
			}
			return answers[body]
		}
		s.mount(streamrt.Spec{Name: "buries", Group: "a"}, answer, app.MaxAttempts(2), app.DeadLetter("dlq"), exact)
		s.mount(streamrt.Spec{Name: "loses", Group: "b"}, answer, app.MaxAttempts(2), exact)
		s.start()
		s.publish("ack", "ack", "drop", "retry", "fail", "reject", "later", "zero", "panic")
		s.Advance(10 * time.Second)

		deliveries := map[string]int64{
			"millrace.deliveries ack": 2, "millrace.deliveries drop": 1, "millrace.deliveries retry": 2,
			"millrace.deliveries fail": 2, "millrace.deliveries dead_letter": 1, "millrace.deliveries retry_after": 2,
			"millrace.deliveries none": 2, "millrace.deliveries panic": 2, "millrace.discarded dropped": 1,
		}
		for name, own := range map[string]map[string]int64{
			"buries": {"millrace.dead_letters max_attempts": 5, "millrace.dead_letters rejected": 1},
			"loses":  {"millrace.discarded cap": 5, "millrace.discarded rejected": 1},
		} {
			want := maps.Clone(deliveries)
			maps.Copy(want, own)
			if got := counted(s.t, reader, name); !maps.Equal(got, want) {
				s.t.Errorf("%s: %v\nwant %v", name, got, want)
			}
		}
	})
}
