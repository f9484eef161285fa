package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-go/millrace/broker"
)

// The trace context travels as W3C says, in headers whose names are fixed, whatever propagator the process uses elsewhere.
var w3c propagation.TraceContext

// delivered reads the headers of a delivery for a propagator.
type delivered struct{ *broker.Delivery }

// Get is that of a [propagation.TextMapCarrier]; nothing is set.
func (d delivered) Get(key string) string { value, _ := d.Header(key); return value }
func (delivered) Set(string, string)      {}
func (delivered) Keys() []string          { return nil }

// publisher returns the link to the span that published the message, if it says which that is.
func publisher(d *broker.Delivery) (trace.Link, bool) {
	if _, ok := d.Header(broker.HeaderTraceParent); !ok {
		return trace.Link{}, false
	}
	span := trace.SpanContextFromContext(w3c.Extract(context.Background(), delivered{d}))
	return trace.Link{SpanContext: span}, span.IsValid()
}

// traced returns the headers that name the span of the context, none where there is no span.
func traced(ctx context.Context) []broker.HeaderLine {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	headers := []broker.HeaderLine{{Name: broker.HeaderTraceParent, Value: carrier[broker.HeaderTraceParent]}}
	if state := carrier[broker.HeaderTraceState]; state != "" {
		headers = append(headers, broker.HeaderLine{Name: broker.HeaderTraceState, Value: state})
	}
	return headers
}

// inject gives the headers to messages that name no span of their own. A message of a list or a channel that has no headers
// stays as it is: it is the bare body there, which every other program can read.
func inject(headers []broker.HeaderLine, messages []broker.Outgoing) {
	if len(headers) == 0 {
		return
	}
	for i := range messages {
		m := &messages[i]
		if m.To.Structure() != broker.StructureStream && len(m.Headers) == 0 || names(m.Headers, broker.HeaderTraceParent) {
			continue
		}
		m.Headers = append(m.Headers, headers...)
	}
}

func names(headers []broker.HeaderLine, name string) bool {
	for _, h := range headers {
		if h.Name == name {
			return true
		}
	}
	return false
}
