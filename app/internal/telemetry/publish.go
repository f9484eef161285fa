package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-go/millrace/broker"
)

// publish is the name of the operation.
var publish = semconv.MessagingOperationName("publish")

// Publish is b.Publish under one span, which is the publisher's for the readers of all the messages, and counted.
func (t *Telemetry) Publish(ctx context.Context, b broker.Broker, messages []broker.Outgoing) []error {
	began := time.Now()
	var span trace.Span
	if t.tracing.on() {
		ctx, span = t.startPublish(ctx, b, messages)
	}
	inject(traced(ctx), messages)
	errs := b.Publish(ctx, messages)
	if t.sent.Enabled(ctx) || t.operation.Enabled(ctx) {
		t.published(ctx, b, messages, errs, time.Since(began))
	}
	if span != nil {
		endPublish(span, errs)
	}
	return errs
}

func (t *Telemetry) startPublish(ctx context.Context, b broker.Broker, messages []broker.Outgoing) (context.Context, trace.Span) {
	attributes := []attribute.KeyValue{system, publish, semconv.MessagingOperationTypeSend}
	name := "publish"
	if to, same := destination(messages); same {
		key := b.ResolveKey(to.Key())
		attributes = append(attributes, semconv.MessagingDestinationName(key))
		if isNamed(to) {
			name += " " + key
		}
	}
	if len(messages) == 1 {
		attributes = append(attributes, semconv.MessagingMessageBodySize(len(messages[0].Body)))
		for _, h := range messages[0].Headers {
			if h.Name == broker.HeaderMessageID {
				attributes = append(attributes, semconv.MessagingMessageID(h.Value))
			}
		}
	} else {
		attributes = append(attributes, semconv.MessagingBatchMessageCount(len(messages)))
	}
	return t.tracing.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attributes...))
}

func endPublish(span trace.Span, errs []error) {
	if err := errors.Join(errs...); err != nil {
		span.SetAttributes(errorType(err))
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// published counts the messages of one publish, those to one place that ended alike together.
func (t *Telemetry) published(ctx context.Context, b broker.Broker, messages []broker.Outgoing, errs []error, took time.Duration) {
	type kind struct {
		to      broker.Destination
		failure string
	}
	counts := make(map[kind]int64, 1)
	for i := range messages {
		k := kind{to: broker.Destination{}}
		if isNamed(messages[i].To) {
			k.to = messages[i].To
		}
		if errs[i] != nil {
			k.failure = errorType(errs[i]).Value.AsString()
		}
		counts[k]++
	}
	with := func(to broker.Destination, failure string, more ...attribute.KeyValue) metric.MeasurementOption {
		attributes := append(more, system, publish)
		if to != (broker.Destination{}) {
			attributes = append(attributes, semconv.MessagingDestinationName(b.ResolveKey(to.Key())))
		}
		if failure != "" {
			attributes = append(attributes, semconv.ErrorTypeKey.String(failure))
		}
		return metric.WithAttributeSet(attribute.NewSet(attributes...))
	}
	for k, n := range counts {
		t.sent.Add(ctx, n, with(k.to, k.failure))
	}
	failure := ""
	if err := errors.Join(errs...); err != nil {
		failure = errorType(err).Value.AsString()
	}
	to, same := destination(messages)
	if !same || !isNamed(to) {
		to = broker.Destination{}
	}
	t.operation.Record(ctx, took.Seconds(), with(to, failure, semconv.MessagingOperationTypeSend))
}

// destination is where all the messages go, if that is one place.
func destination(messages []broker.Outgoing) (to broker.Destination, same bool) {
	to = messages[0].To
	for i := range messages {
		if messages[i].To != to {
			return to, false
		}
	}
	return to, true
}

// isNamed reports whether the destination is one of few, and may be an attribute of a metric. A channel may be made for
// every customer and every connection.
func isNamed(to broker.Destination) bool {
	return to.Structure() == broker.StructureStream || to.Structure() == broker.StructureList
}

// errorType says in one of few words what went wrong.
func errorType(err error) attribute.KeyValue {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return semconv.ErrorTypeKey.String("timeout")
	case errors.Is(err, context.Canceled):
		return semconv.ErrorTypeKey.String("canceled")
	}
	return semconv.ErrorTypeOther
}
