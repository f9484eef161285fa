package snippets

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
)

// Charge is one amount to be taken from a card.
type Charge struct {
	ID    int `json:"id"`
	Cents int `json:"cents"`
}

// BusyError says when the bank may be asked again.
type BusyError struct{ Wait time.Duration }

// Error says how long to wait.
func (e *BusyError) Error() string { return fmt.Sprintf("busy for %s", e.Wait) }

// What else the bank may say.
var (
	ErrNoAnswer    = errors.New("no answer")
	ErrAlreadyPaid = errors.New("charged already")
	ErrFraud       = errors.New("the card is reported stolen")
)

// Billing takes money.
type Billing struct {
	Bank func(context.Context, Charge) error
}

// cut:answers

// TakeMoney shows every answer that a handler can give.
//
//stream:subscriber stream=charges group=billing
func (b *Billing) TakeMoney(ctx context.Context, c Charge) outcome.HandlerOutcome {
	err := b.Bank(ctx, c)
	var busy *BusyError
	switch {
	case err == nil:
		return outcome.Ack()
	case errors.Is(err, ErrAlreadyPaid):
		return outcome.Drop() // nothing to do, and nobody has to look at it
	case errors.Is(err, ErrNoAnswer):
		return outcome.Retry().WithError(err)
	case errors.As(err, &busy):
		return outcome.RetryAfter(busy.Wait).WithError(err)
	case errors.Is(err, ErrFraud):
		return outcome.DeadLetter(err) // no attempt will help; a person has to look at it
	default:
		return outcome.Of(err) // a failure that waits as the mount's backoff says
	}
}

// cut:end

// mountCharges places the subscription.
func mountCharges(m *app.Mounts, b *Billing) {
	// cut:policy
	m.Mount(BillingTakeMoneySubscription.With(b),
		app.MaxAttempts(5),
		app.DeadLetter("charges.dlq"),
		app.Backoff(app.Exponential{Initial: 200 * time.Millisecond, Max: time.Minute}),
		app.Concurrency(4),
	)
	// cut:end
}

// cut:timeout

// Settle has ten seconds for each attempt. Passing ctx on is what ends the call when they are over.
//
//stream:subscriber stream=settlements group=billing timeout=10s
func (b *Billing) Settle(ctx context.Context, c Charge) error {
	return b.Bank(ctx, c)
}

// cut:end
