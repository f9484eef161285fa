package snippets

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
)

// Order is what a shop sells.
type Order struct {
	ID     int    `json:"id"`
	Tenant string `json:"tenant"`
}

// cut:one

// Shop publishes what it sells. It is given the broker's *app.Mounts, or, in a test, whatever else publishes.
type Shop struct{ Publisher app.Publisher }

// Sell publishes one order.
func (s *Shop) Sell(ctx context.Context, o Order) error {
	return s.Publisher.Publish(ctx, broker.Stream("orders"), o, broker.Header("tenant", o.Tenant))
}

// cut:end

// Everywhere publishes to each kind of destination.
func Everywhere(ctx context.Context, p app.Publisher, o Order) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return errors.Join(
		// cut:where
		p.Publish(ctx, broker.Stream("orders"), o),            // XADD
		p.Publish(ctx, broker.List("thumbnails"), raw),        // LPUSH
		p.Publish(ctx, broker.Channel("prices"), o),           // PUBLISH
		p.Publish(ctx, broker.ShardedChannel("prices.eu"), o), // SPUBLISH
		// cut:end
	)
}

// Later publishes what is to be read in half an hour.
func Later(ctx context.Context, p app.Publisher, o Order) error {
	// cut:later
	return p.Publish(ctx, broker.Stream("reminders.set"), o, broker.After("reminders.delayed", 30*time.Minute))
	// cut:end
}

// Trimmed publishes to a stream that keeps about a million entries.
func Trimmed(ctx context.Context, p app.Publisher, o Order) error {
	// cut:trimmed
	return p.Publish(ctx, broker.Stream("clicks"), o, broker.MaxLen(1_000_000))
	// cut:end
}

// cut:batch

// Import publishes orders in as few round trips as it can, and returns those that were not written.
func Import(ctx context.Context, m *app.Mounts, orders []Order) (failed []Order, err error) {
	batch := make([]app.Outgoing, len(orders))
	for i, o := range orders {
		batch[i] = app.Outgoing{To: broker.Stream("orders"), Value: o}
	}
	err = m.PublishBatch(ctx, batch...)
	for _, one := range unwrap(err) {
		var refused *app.PublishError
		if errors.As(one, &refused) {
			failed = append(failed, orders[refused.Index])
		}
	}
	return failed, err
}

// unwrap takes joined errors apart.
func unwrap(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return nil
}

// cut:end

// cut:program

// PublishOnly is a program that only publishes: it never calls Run, and closes what it has used.
func PublishOnly(ctx context.Context, b broker.Broker) error {
	m := app.New("importer", "1.0.0").Broker(b)
	err := m.Publish(ctx, broker.Stream("orders"), Order{ID: 1})
	return errors.Join(err, m.Close(ctx))
}

// cut:end
