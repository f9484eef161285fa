package app_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// measured is one app's metrics, which nobody else writes to.
type measured struct {
	t      *testing.T
	reader *sdk.ManualReader
}

func newMeasured(t *testing.T) *measured { return &measured{t, sdk.NewManualReader()} }

func (m *measured) option() app.Option { return app.MeterProvider(m.provider()) }

func (m *measured) provider() *sdk.MeterProvider {
	return sdk.NewMeterProvider(sdk.WithReader(m.reader))
}

// series is everything that is collected now, each under its name and attributes: the value of a counter or a gauge, the
// number of values of a histogram.
func (m *measured) series() map[string]float64 {
	m.t.Helper()
	var data metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &data); err != nil {
		m.t.Fatal(err)
	}
	all := map[string]float64{}
	for _, scope := range data.ScopeMetrics {
		for _, metric := range scope.Metrics {
			switch d := metric.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					all[seriesName(metric.Name, p)] += float64(p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					all[seriesName(metric.Name, p)] += float64(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					all[seriesName(metric.Name, p)] += p.Value
				}
			case metricdata.Histogram[int64]:
				for _, p := range d.DataPoints {
					all[histogramName(metric.Name, p)] += float64(p.Count)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					all[histogramName(metric.Name, p)] += float64(p.Count)
				}
			default:
				m.t.Fatalf("%s is a %T", metric.Name, d)
			}
		}
	}
	return all
}

func seriesName[N int64 | float64](name string, p metricdata.DataPoint[N]) string {
	return name + p.Attributes.Encoded(plainAttributes{})
}

func histogramName[N int64 | float64](name string, p metricdata.HistogramDataPoint[N]) string {
	return name + p.Attributes.Encoded(plainAttributes{})
}

// plainAttributes writes attributes so that splitSeries finds them again.
type plainAttributes struct{}

func (plainAttributes) ID() attribute.EncoderID { return plainID }

func (plainAttributes) Encode(attributes attribute.Iterator) string {
	var b strings.Builder
	for attributes.Next() {
		kv := attributes.Attribute()
		fmt.Fprintf(&b, "\x00%s=%s", kv.Key, kv.Value.String())
	}
	return b.String()
}

var plainID = attribute.NewEncoderID()

func splitSeries(series string) (metric string, attributes map[string]string) {
	parts := strings.Split(series, "\x00")
	attributes = map[string]string{}
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(part, "=")
		attributes[key] = value
	}
	return parts[0], attributes
}

// of returns the series of one metric, by the values of the named attributes: "ack" for a value of outcome.
func (m *measured) of(name string, keys ...string) map[string]float64 {
	m.t.Helper()
	found := map[string]float64{}
	for series, value := range m.series() {
		metric, attributes := splitSeries(series)
		if metric != name {
			continue
		}
		values := make([]string, len(keys))
		for i, key := range keys {
			values[i] = attributes[key]
		}
		found[strings.Join(values, " ")] += value
	}
	return found
}

func (m *measured) want(name string, keys []string, want map[string]float64) {
	m.t.Helper()
	if got := m.of(name, keys...); !maps.Equal(got, want) {
		m.t.Errorf("%s by %v: %v, want %v", name, keys, got, want)
	}
}

func TestRunsAreMeasured(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		m := newMeasured(h.T())
		s := newService(h, h.Broker(), m.option())
		s.mount(streamrt.Spec{Name: "refunds"}, func(ctx context.Context, body string) outcome.HandlerOutcome {
			time.Sleep(300 * time.Millisecond)
			if body == "fails" && app.MessageFrom(ctx).Attempt < 3 {
				return outcome.Of(errors.New("x"))
			}
			return outcome.Ack()
		}, app.MaxAttempts(5), exact)
		s.start()
		s.publish("good", "fails")
		s.Advance(10 * time.Second)
		m.want("messaging.process.duration", []string{
			"subscription", "outcome", "error.type", "messaging.system", "messaging.operation.name",
			"messaging.destination.name", "messaging.consumer.group.name",
		}, map[string]float64{"refunds ack  redis process in g": 2, "refunds fail fail redis process in g": 2})
		m.want("messaging.client.consumed.messages", []string{"messaging.operation.name", "messaging.destination.name", "messaging.consumer.group.name"},
			map[string]float64{"receive in g": 4})
		m.want("millrace.attempts", []string{"subscription"}, map[string]float64{"refunds": 4})
		if sum := m.sum("messaging.process.duration"); sum != 1.2 {
			s.t.Errorf("four runs of 0.3 s took %v s", sum)
		}
		if sum := m.sum("millrace.attempts"); sum != 1+1+2+3 {
			s.t.Errorf("the attempts 1, 1, 2 and 3 add up to %v", sum)
		}
	})
}

// sum is the total of a histogram.
func (m *measured) sum(name string) (sum float64) {
	m.t.Helper()
	var data metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &data); err != nil {
		m.t.Fatal(err)
	}
	for _, scope := range data.ScopeMetrics {
		for _, metric := range scope.Metrics {
			if metric.Name != name {
				continue
			}
			switch d := metric.Data.(type) {
			case metricdata.Histogram[int64]:
				for _, p := range d.DataPoints {
					sum += float64(p.Sum)
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					sum += p.Sum
				}
			}
		}
	}
	return sum
}

// A message's losses are counted once, however often it is copied, when it is done with: acknowledged, buried or given up.
func TestLossesAreCountedWhenAMessageIsDone(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		m := newMeasured(h.T())
		s := newService(h, h.Broker(), m.option())
		s.mount(streamrt.Spec{}, func(ctx context.Context, body string) outcome.HandlerOutcome {
			if body == "ack" && app.MessageFrom(ctx).Attempt == 1 {
				return outcome.Retry()
			}
			return map[string]outcome.HandlerOutcome{
				"ack": outcome.Ack(), "bury": outcome.DeadLetter(errors.New("x")), "drop": outcome.Drop(),
			}[body]
		}, app.MaxAttempts(5), app.MaxDeliveries(100), app.DeadLetter("dlq"))
		s.start()
		add := func(body string, values ...any) {
			err := h.Client().XAdd(h.T().Context(), &redis.XAddArgs{Stream: "in", Values: append([]any{"_payload", body}, values...)}).Err()
			if err != nil {
				h.T().Fatal(err)
			}
			h.Advance(time.Second)
		}
		for _, step := range []struct {
			body   string
			losses int
			want   float64
		}{{"ack", 2, 2}, {"bury", 3, 5}, {"drop", 1, 6}, {"ack", 0, 6}, {"bury", 200, 206}} {
			add(step.body, "h:losses", step.losses)
			m.want("millrace.losses", []string{"subscription"}, map[string]float64{"test.in": step.want})
		}
		// It is acknowledged here, and done with by the group that it is for.
		add("ack", "h:losses", 7, "h:retry-group", "another")
		m.want("millrace.losses", []string{"subscription"}, map[string]float64{"test.in": 206})
	})
}

func TestSettlementsThatFailAreCounted(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		m := newMeasured(h.T())
		tries := 0
		f := &flaky{Broker: h.Broker(), fails: func(st *broker.Settlement) bool {
			if st.Action == broker.Ack {
				return false
			}
			tries++
			return tries < 4
		}}
		s := newService(h, f, m.option())
		s.mount(streamrt.Spec{}, func(ctx context.Context, body string) outcome.HandlerOutcome {
			if app.MessageFrom(ctx).Attempt == 1 {
				return outcome.Retry()
			}
			return outcome.Ack()
		})
		s.start()
		s.publish("x")
		s.Advance(10 * time.Second)
		m.want("millrace.settle.retries", []string{"subscription"}, map[string]float64{"test.in": 3})
		m.want("messaging.client.operation.duration", []string{"messaging.operation.name", "messaging.operation.type", "error.type"},
			map[string]float64{"publish send ": 1, "settle settle _OTHER": 3, "settle settle ": 2})
	})
}

// allowed are the attributes that a metric may have. Each takes few values, which are known when the app starts.
var allowed = []string{
	"subscription", "outcome", "reason", "why", "error.type", "messaging.system", "messaging.operation.name", "messaging.operation.type",
	"messaging.destination.name", "messaging.destination.template", "messaging.consumer.group.name",
}

func TestTheNumberOfSeriesDoesNotGrow(t *testing.T) {
	m := newMeasured(t)
	provider := m.provider()
	run := func() []string {
		apptest.Paused(t, func(h *apptest.H) {
			s := newService(h, h.Broker(), app.MeterProvider(provider))
			s.mount(streamrt.Spec{}, func(_ context.Context, body string) outcome.HandlerOutcome {
				if strings.HasSuffix(body, "7") {
					return outcome.Of(fmt.Errorf("error %s", body))
				}
				return outcome.Ack()
			}, app.MaxAttempts(2), app.DeadLetter("dlq"), exact)
			s.start()
			for i := range 50 {
				s.publish(fmt.Sprintf("body-%d", i))
			}
			s.Advance(10 * time.Second)
		})
		return slices.Sorted(maps.Keys(m.series()))
	}
	first := run()
	for range 10 {
		if again := run(); !slices.Equal(again, first) {
			t.Fatalf("%d series, and before that %d:\n%s", len(again), len(first), strings.Join(again, "\n"))
		}
	}
	for _, series := range first {
		_, attributes := splitSeries(series)
		for key, value := range attributes {
			if !slices.Contains(allowed, key) {
				t.Errorf("%s has the attribute %s", series, key)
			}
			if strings.Contains(value, "body-") {
				t.Errorf("%s shows a payload", series)
			}
		}
	}
}

func TestPublishesAreMeasured(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		m := newMeasured(h.T())
		s := newService(h, h.Broker(), m.option())
		s.Client().Set(s.t.Context(), "taken", "x", 0)
		to := func(d broker.Destination) app.Outgoing { return app.Outgoing{To: d, Value: []byte("x")} }
		err := s.m.PublishBatch(s.t.Context(), to(broker.Stream("in")), to(broker.Stream("in")), to(broker.Stream("taken")),
			to(broker.List("l")), to(broker.Channel("customer-1")), to(broker.Channel("customer-2")))
		if err == nil {
			s.t.Fatal("a string took a stream's entry")
		}
		s.publish("one")
		m.want("messaging.client.sent.messages", []string{"messaging.system", "messaging.operation.name", "messaging.destination.name", "error.type"},
			map[string]float64{"redis publish in ": 3, "redis publish taken _OTHER": 1, "redis publish l ": 1, "redis publish  ": 2})
		m.want("messaging.client.operation.duration", []string{"messaging.operation.type", "messaging.destination.name", "error.type"},
			map[string]float64{"send  _OTHER": 1, "send in ": 1})
	})
}
