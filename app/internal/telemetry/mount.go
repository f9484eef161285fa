package telemetry

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-go/millrace/broker"
)

// Outcome is one way in which a run of a handler ends.
type Outcome struct {
	Name string
	// IsError: whoever looks at errors looks at it.
	IsError bool
}

// Mount counts what happens to the messages of one subscription. Every attribute set that can occur while messages flow
// is made once. Safe for concurrent use.
type Mount struct {
	t *Telemetry

	subscription attribute.KeyValue
	// alone are the options of what has no other attribute.
	add    []metric.AddOption
	record []metric.RecordOption
	// buried are by reason and discarded by why.
	buried, discarded map[string][]metric.AddOption
	// ended and processed are by outcome.
	ended     [][]metric.AddOption
	processed [][]metric.RecordOption

	spanName string
	span     []trace.SpanStartOption
	outcomes []Outcome

	received        []metric.AddOption
	settled, failed []metric.RecordOption
}

// Mount returns the telemetry of the named subscription. outcomes are all that its runs can have; they are referred to by
// their index.
func (t *Telemetry) Mount(subscription string, source broker.Source, outcomes []Outcome) *Mount {
	name := attribute.String(subscriptionKey, subscription)
	alone := metric.WithAttributeSet(attribute.NewSet(name))
	m := &Mount{t: t, subscription: name, add: []metric.AddOption{alone}, record: []metric.RecordOption{alone}}
	m.buried, m.discarded = m.by("reason", reasons), m.by("why", whys)

	m.spanName, m.span, m.outcomes = "process "+source.Key, spanOptions(name, &source), outcomes

	from := append(sourceAttributes(&source), system)
	with := func(attributes ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(slices.Concat(from, attributes)...))
	}
	for _, o := range outcomes {
		outcome := attribute.String("outcome", o.Name)
		m.ended = append(m.ended, []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(name, outcome))})
		process := []attribute.KeyValue{name, outcome, semconv.MessagingOperationName("process")}
		if o.IsError {
			process = append(process, semconv.ErrorTypeKey.String(o.Name))
		}
		m.processed = append(m.processed, []metric.RecordOption{with(process...)})
	}
	m.received = []metric.AddOption{with(semconv.MessagingOperationName("receive"))}
	settle := []attribute.KeyValue{semconv.MessagingOperationName("settle"), semconv.MessagingOperationTypeSettle}
	m.settled = []metric.RecordOption{with(settle...)}
	m.failed = []metric.RecordOption{with(append(settle, semconv.ErrorTypeOther)...)}
	return m
}

// Received counts messages that were handed out to this process.
func (m *Mount) Received(n int) { m.t.consumed.Add(context.Background(), int64(n), m.received...) }

// Ran records one run of the handler: how it ended, how long it took, and which attempt it was.
func (m *Mount) Ran(outcome int, took time.Duration, attempt int64) {
	ctx := context.Background()
	m.t.processed.Record(ctx, took.Seconds(), m.processed[outcome]...)
	m.t.attempts.Record(ctx, attempt, m.record...)
}

// Ended counts n runs that ended alike.
func (m *Mount) Ended(outcome int, n int64) {
	m.t.deliveries.Add(context.Background(), n, m.ended[outcome]...)
}

// The reasons of dead letters, and why messages are gone: the contract's lists.
var (
	reasons = []string{
		broker.ReasonMaxAttempts, broker.ReasonMaxDeliveries, broker.ReasonUnknownTask, broker.ReasonMalformed, broker.ReasonRejected,
	}
	whys = []string{whyDropped, "cap", "rejected", "malformed", "vanished", "lost", "stopped"}
)

const whyDropped = "dropped"

// by makes the options of a counter for each value of its attribute.
func (m *Mount) by(key string, values []string) map[string][]metric.AddOption {
	options := make(map[string][]metric.AddOption, len(values))
	for _, v := range values {
		set := attribute.NewSet(m.subscription, attribute.String(key, v))
		options[v] = []metric.AddOption{metric.WithAttributeSet(set)}
	}
	return options
}

// Buried counts one dead letter. The reason is one of the broker package's.
func (m *Mount) Buried(reason string) {
	m.t.deadLetters.Add(context.Background(), 1, m.buried[reason]...)
}

// Discarded counts one message that is gone. why is one of the contract's.
func (m *Mount) Discarded(why string) {
	m.t.discarded.Add(context.Background(), 1, m.discarded[why]...)
}

// Trimmed returns what counts the entries that retention removes from any of the keys.
func (m *Mount) Trimmed(keys ...string) func(key string, n int64) {
	options := make(map[string][]metric.AddOption, len(keys))
	for _, key := range keys {
		set := attribute.NewSet(m.subscription, semconv.MessagingDestinationName(key))
		options[key] = []metric.AddOption{metric.WithAttributeSet(set)}
	}
	return func(key string, n int64) { m.t.trimmed.Add(context.Background(), n, options[key]...) }
}

// Outlived counts the owners that vanished with a message that is done with.
func (m *Mount) Outlived(owners int64) { m.t.losses.Add(context.Background(), owners, m.add...) }

// Unsettled counts a settlement that has to be tried again.
func (m *Mount) Unsettled() { m.t.settleRetries.Add(context.Background(), 1, m.add...) }

// Settled records how long the server took for a batch of settlements; failed: some of them were not carried out.
func (m *Mount) Settled(took time.Duration, failed bool) {
	options := m.settled
	if failed {
		options = m.failed
	}
	m.t.operation.Record(context.Background(), took.Seconds(), options...)
}
