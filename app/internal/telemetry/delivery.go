package telemetry

import (
	"context"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-go/millrace/broker"
)

// The attributes of spans that the conventions have no name for.
const (
	entryKey      = attribute.Key("millrace.entry.id")
	attemptKey    = attribute.Key("millrace.attempt")
	lossesKey     = attribute.Key("millrace.losses")
	outcomeKey    = attribute.Key("millrace.outcome")
	settlementKey = attribute.Key("millrace.settlement")
	reasonKey     = attribute.Key("millrace.dead_letter.reason")
	whyKey        = attribute.Key("millrace.discarded.why")
)

// spanOptions are what all spans of the mount begin with, so that samplers know it.
func spanOptions(subscription attribute.KeyValue, source *broker.Source) []trace.SpanStartOption {
	return []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithNewRoot(),
		trace.WithAttributes(append(sourceAttributes(source), system, subscription,
			semconv.MessagingOperationName("process"), semconv.MessagingOperationTypeProcess)...),
	}
}

// Delivery is what a span says of a delivery.
type Delivery struct {
	*broker.Delivery
	Attempt, Losses int64
}

// Start begins the span of a delivery. It is the root of a trace of its own and links to the publisher's span: a message may
// be read by many groups, and again and again over days. The context is the handler's. The span is nil where nobody takes it.
func (m *Mount) Start(ctx context.Context, d Delivery) (context.Context, trace.Span) {
	if !m.t.tracing.on() {
		return ctx, nil
	}
	options := m.span
	if link, ok := publisher(d.Delivery); ok {
		options = append(slices.Clip(options), trace.WithLinks(link))
	}
	ctx, span := m.t.tracing.tracer.Start(ctx, m.spanName, options...)
	if !span.IsRecording() {
		return ctx, nil
	}
	span.SetAttributes(
		semconv.MessagingMessageID(d.MessageID()), entryKey.String(d.ID), semconv.MessagingMessageBodySize(len(d.Body)),
		attemptKey.Int64(d.Attempt), lossesKey.Int64(d.Losses),
	)
	if d.Channel != "" {
		span.SetAttributes(semconv.MessagingDestinationName(d.Channel))
	}
	return ctx, span
}

// Ending is what a span says of how a delivery ended.
type Ending struct {
	// Ran: a handler was called, and Outcome is its.
	Ran     bool
	Outcome int
	// Err is the cause, whose text Text is, Stack that of a panic. Both may be empty.
	Err         error
	Text, Stack string
	// Action is how it is settled, Reason that of a dead letter, Why that of a message that is gone.
	Action      broker.Action
	Reason, Why string
}

// End ends the span of a delivery. It is an error where the run failed with one, or where the message is given up.
func (m *Mount) End(span trace.Span, e Ending) {
	attributes := make([]attribute.KeyValue, 0, 4)
	failure := e.Reason
	if failure == "" && e.Why != whyDropped {
		failure = e.Why
	}
	if e.Ran {
		o := m.outcomes[e.Outcome]
		attributes = append(attributes, outcomeKey.String(o.Name))
		if o.IsError || failure == "" && e.Text != "" {
			failure = o.Name
		}
	}
	if e.Action != 0 {
		attributes = append(attributes, settlementKey.String(e.Action.String()))
	}
	if e.Reason != "" {
		attributes = append(attributes, reasonKey.String(e.Reason))
	}
	if e.Why != "" {
		attributes = append(attributes, whyKey.String(e.Why))
	}
	if failure != "" {
		attributes = append(attributes, semconv.ErrorTypeKey.String(failure))
		span.SetStatus(codes.Error, e.Text)
		if e.Text != "" {
			span.AddEvent(semconv.ExceptionEventName, trace.WithAttributes(exception(e)...))
		}
	}
	span.SetAttributes(attributes...)
	span.End()
}

// exception does not ask the error for its text: a method of it that panics has been asked before.
func exception(e Ending) []attribute.KeyValue {
	attributes := []attribute.KeyValue{semconv.ExceptionMessage(e.Text)}
	if e.Err != nil {
		attributes = append(attributes, semconv.ExceptionType(fmt.Sprintf("%T", e.Err)))
	}
	if e.Stack != "" {
		attributes = append(attributes, semconv.ExceptionStacktrace(e.Stack))
	}
	return attributes
}
