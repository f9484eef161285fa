package telemetry

import (
	"testing"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/millrace-go/millrace/broker"
)

var delivery = Delivery{Delivery: &broker.Delivery{
	ID: "1-1", Headers: []broker.HeaderLine{{Name: broker.HeaderTraceParent, Value: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
}, Attempt: 1}

// It is one test because OpenTelemetry hands its default provider's tracers over once a process.
func TestSpansAreMadeWhereSomebodyTakesThem(t *testing.T) {
	mount := func(tele *Telemetry) *Mount {
		return tele.Mount("s", broker.Source{Key: "in"}, []Outcome{{Name: "ack"}})
	}
	early := New(nil, nil)
	given := New(nil, otel.GetTracerProvider()) // the placeholder, given by name
	for name, tele := range map[string]*Telemetry{
		"nothing is set": early, "the placeholder is given": given, "none is wanted": New(nil, noop.NewTracerProvider()),
	} {
		m := mount(tele)
		if tele.tracing.on() {
			t.Errorf("%s, and spans are made", name)
		}
		costs := testing.AllocsPerRun(100, func() {
			if ctx, span := m.Start(t.Context(), delivery); span != nil || ctx != t.Context() {
				t.Errorf("%s, and there is a span", name)
			}
		})
		if costs > 0 {
			t.Errorf("%s, and a delivery costs %v allocations", name, costs)
		}
	}

	recorder := tracetest.NewSpanRecorder()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	for _, tele := range []*Telemetry{early, given, New(nil, nil)} {
		m := mount(tele)
		_, span := m.Start(t.Context(), delivery)
		if span == nil {
			t.Fatal("a provider is set, and there is no span")
		}
		m.End(span, Ending{Ran: true})
	}
	if n := len(recorder.Ended()); n != 3 {
		t.Errorf("%d spans", n)
	}

	off := mount(New(nil, sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))))
	if ctx, span := off.Start(t.Context(), delivery); span != nil || ctx == t.Context() {
		t.Error("a delivery that is not sampled says so to those whom it publishes to, and costs no more")
	}
}
