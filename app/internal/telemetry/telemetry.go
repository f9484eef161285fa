// Package telemetry tells OpenTelemetry what happens to messages: counters and histograms of what an app does, gauges of
// what waits on its servers, and a span for each delivery and each publish. Names and attributes are those of the
// semantic conventions for messaging where these have one, and millrace.* where they do not; docs/operations.md lists all.
//
// The values of attributes of metrics are known when the app starts: names of subscriptions, keys, groups, outcomes and
// reasons. No id, no consumer's name and nothing of a message is among them, so that the number of series is the same
// after any number of messages and restarts.
package telemetry

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-go/millrace/broker"
)

// scope is the instrumentation's name.
const scope = "github.com/millrace-go/millrace"

// system is what the conventions call the kind of server. They have no name for it yet.
var system = semconv.MessagingSystemKey.String("redis")

// subscriptionKey is the attribute with the name of the subscription.
const subscriptionKey = "subscription"

// Telemetry are the instruments of one app. Safe for concurrent use.
type Telemetry struct {
	deliveries, deadLetters, discarded, trimmed, losses, settleRetries metric.Int64Counter
	attempts                                                           metric.Int64Histogram

	consumed  metric.Int64Counter
	sent      metric.Int64Counter
	processed metric.Float64Histogram
	operation metric.Float64Histogram

	meter   metric.Meter
	gauges  gauges
	tracing tracing
}

// seconds are the buckets that the conventions advise for durations.
var seconds = metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)

// New makes the instruments. A provider that is nil is the global one: what it is, or comes to be.
func New(meters metric.MeterProvider, tracers trace.TracerProvider) *Telemetry {
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	m := meters.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
	t := &Telemetry{
		deliveries:  counter(m, "millrace.deliveries", "Runs of handlers, by outcome."),
		deadLetters: counter(m, "millrace.dead_letters", "Messages written to a dead letter, by reason."),
		discarded:   counter(m, "millrace.discarded", "Messages that are gone without success or dead letter, by why."),
		trimmed:     counter(m, "millrace.trimmed", "Messages and dead letters that retention removed, by the key that they stood at."),
		losses: made(m.Int64Counter("millrace.losses", metric.WithUnit("{owner}"),
			metric.WithDescription("Owners that vanished with a message in hand, counted when the message is done with."))),
		settleRetries: made(m.Int64Counter("millrace.settle.retries", metric.WithUnit("{settlement}"),
			metric.WithDescription("Settlements that the server did not carry out and that are tried again."))),
		attempts: made(m.Int64Histogram("millrace.attempts", metric.WithUnit("{attempt}"),
			metric.WithDescription("Which attempt at its message each run was, 1 for the first."),
			metric.WithExplicitBucketBoundaries(1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 50, 100))),
	}
	consumed, err := messagingconv.NewClientConsumedMessages(m)
	t.consumed = made(consumed.Inst(), err)
	sent, err := messagingconv.NewClientSentMessages(m)
	t.sent = made(sent.Inst(), err)
	processed, err := messagingconv.NewProcessDuration(m, seconds)
	t.processed = made(processed.Inst(), err)
	operation, err := messagingconv.NewClientOperationDuration(m, seconds)
	t.operation = made(operation.Inst(), err)
	t.meter, t.gauges, t.tracing = m, newGauges(m), newTracing(tracers)
	return t
}

func counter(m metric.Meter, name, description string) metric.Int64Counter {
	return made(m.Int64Counter(name, metric.WithDescription(description), metric.WithUnit("{message}")))
}

// made reports an instrument that cannot be made, which works all the same: it does nothing.
func made[T any](instrument T, err error) T {
	if err != nil {
		otel.Handle(err)
	}
	return instrument
}

// sourceAttributes name what a mount reads. A pattern is the template of the names that it matches.
func sourceAttributes(source *broker.Source) []attribute.KeyValue {
	attributes := []attribute.KeyValue{semconv.MessagingDestinationName(source.Key)}
	if source.Structure == broker.StructurePattern {
		attributes[0] = semconv.MessagingDestinationTemplate(source.Key)
	}
	if source.Group != "" {
		attributes = append(attributes, semconv.MessagingConsumerGroupName(source.Group))
	}
	return attributes
}
