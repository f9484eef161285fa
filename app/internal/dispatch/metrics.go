package dispatch

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/millrace-go/millrace/outcome"
)

// label is how a delivery ended, as history lines and the counter millrace.deliveries say it.
type label uint8

const (
	labelNone label = iota
	labelAck
	labelDrop
	labelRetry
	labelRetryAfter
	labelDeadLetter
	labelFail
	labelPanic
	labelTimeout
	// labelReleased is a run that the shutdown cut off: the message is handed back as if it had not begun.
	labelReleased
	labels
)

var labelNames = [labels]string{
	"none", "ack", "drop", "retry", "retry_after", "dead_letter", "fail", "panic", "timeout", "released",
}

func (l label) String() string { return labelNames[l] }

// labelOf is the label of an answer. A kind that this version does not know is a failure like no answer.
func labelOf(k outcome.Kind) label {
	switch k {
	case outcome.KindAck:
		return labelAck
	case outcome.KindDrop:
		return labelDrop
	case outcome.KindRetry:
		return labelRetry
	case outcome.KindRetryAfter:
		return labelRetryAfter
	case outcome.KindDeadLetter:
		return labelDeadLetter
	case outcome.KindFail:
		return labelFail
	}
	return labelNone
}

// Meters counts what happens to the messages of one subscription, through the global OpenTelemetry meter provider.
// Every attribute set that can occur in the hot path is made once. Safe for concurrent use.
type Meters struct {
	deliveries  metric.Int64Counter
	deadLetters metric.Int64Counter
	discarded   metric.Int64Counter

	subscription attribute.KeyValue
	byLabel      [labels][]metric.AddOption
}

// NewMeters returns the counters of the named subscription.
func NewMeters(subscription string) *Meters {
	meter := otel.Meter("github.com/millrace-go/millrace")
	m := &Meters{
		deliveries:   counter(meter, "millrace.deliveries", "Runs of handlers, by outcome."),
		deadLetters:  counter(meter, "millrace.dead_letters", "Messages written to a dead letter, by reason."),
		discarded:    counter(meter, "millrace.discarded", "Messages that are gone without success or dead letter, by why."),
		subscription: attribute.String("subscription", subscription),
	}
	for l := range m.byLabel {
		m.byLabel[l] = m.with("outcome", label(l).String())
	}
	return m
}

func counter(meter metric.Meter, name, description string) metric.Int64Counter {
	c, err := meter.Int64Counter(name, metric.WithDescription(description), metric.WithUnit("{message}"))
	if err != nil {
		otel.Handle(err)
	}
	return c
}

func (m *Meters) with(key, value string) []metric.AddOption {
	set := attribute.NewSet(m.subscription, attribute.String(key, value))
	return []metric.AddOption{metric.WithAttributeSet(set)}
}

// ended counts n runs that ended alike.
func (m *Meters) ended(l label, n int64) { m.deliveries.Add(context.Background(), n, m.byLabel[l]...) }

// Buried counts one dead letter.
func (m *Meters) Buried(reason string) {
	m.deadLetters.Add(context.Background(), 1, m.with("reason", reason)...)
}

// Discarded counts one message that is gone.
func (m *Meters) Discarded(why string) {
	m.discarded.Add(context.Background(), 1, m.with("why", why)...)
}
