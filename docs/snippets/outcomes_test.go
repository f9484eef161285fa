package snippets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/embedded"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// cut:comparing

func Example_comparing() {
	fmt.Println(outcome.RetryAfter(30*time.Second) == outcome.RetryAfter(30*time.Second))
	fmt.Println(outcome.Retry() == outcome.Retry().WithError(ErrNoAnswer)) // another cause is another outcome
	fmt.Println(outcome.RetryAfter(time.Minute).WithError(ErrNoAnswer))
	fmt.Println(outcome.Of(nil))
	fmt.Println(outcome.Of(ErrNoAnswer))
	fmt.Println(outcome.HandlerOutcome{})
	// Output:
	// true
	// false
	// retry_after(1m0s): no answer
	// ack
	// fail: no answer
	// none
}

// cut:end

func TestTakeMoneyAnswers(t *testing.T) {
	unexpected := errors.New("the bank has burned down")
	for _, c := range []struct {
		said error
		want outcome.HandlerOutcome
	}{
		{nil, outcome.Ack()},
		{ErrAlreadyPaid, outcome.Drop()},
		{ErrNoAnswer, outcome.Retry().WithError(ErrNoAnswer)},
		{ErrFraud, outcome.DeadLetter(ErrFraud)},
		{unexpected, outcome.Of(unexpected)},
	} {
		b := &Billing{Bank: func(context.Context, Charge) error { return c.said }}
		if got := b.TakeMoney(t.Context(), Charge{ID: 1}); got != c.want {
			t.Errorf("%v: got %v, want %v", c.said, got, c.want)
		}
	}
	busy := &Billing{Bank: func(context.Context, Charge) error { return &BusyError{time.Minute} }}
	if got := busy.TakeMoney(t.Context(), Charge{}); got.Kind() != outcome.KindRetryAfter || got.Delay() != time.Minute {
		t.Errorf("got %v", got)
	}
}

// What the guide says of a retry without a cap: ten attempts at once, and from then on the backoff between two.
func TestAnUncappedRetrySlowsDown(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		runs := 0
		a := app.New("test", "1", quiet)
		m := a.Broker(h.Broker())
		m.Mount(streamrt.Subscribe(streamrt.Spec{Name: "t", Stream: "in", Group: "g"}, streamrt.Raw,
			func(context.Context, []byte) outcome.HandlerOutcome { runs++; return outcome.Retry() }))
		h.Start(a)
		if err := m.Publish(h.T().Context(), broker.Stream("in"), []byte("x")); err != nil {
			h.T().Fatal(err)
		}
		h.Advance(149 * time.Second)
		if runs != 10 {
			h.T().Errorf("%d runs before half of the longest backoff", runs)
		}
		h.Advance(151 * time.Second)
		if runs != 11 {
			h.T().Errorf("%d runs after the longest backoff", runs)
		}
	})
}

// quiet keeps the log out of a test's output.
var quiet = app.Logger(slog.New(slog.DiscardHandler))

func TestEverythingMounts(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		a := app.New("test", "1", quiet)
		m := a.Broker(h.Broker())
		depot := &Depot{}
		mountCharges(m, &Billing{})
		mountDesk(m, &Desk{})
		mountParcels(m, depot)
		m.Mount(AuditParcelSubscription)
		m.Mount(AuditNewParcelSubscription)
		m.Mount(PrintLabelSubscription)
		m.Mount(DigestSubscription)
		m.Mount(BillingSettleSubscription.With(&Billing{}))
		m.Mount(DispatchLeaveSubscription.With(&Dispatch{Out: m}))
		h.Start(a)
		if err := m.Publish(h.T().Context(), broker.Stream("packed"), Parcel{"A1"}); err != nil {
			h.T().Fatal(err)
		}
		h.Advance(0)
		if len(depot.Seen) != 1 || depot.Seen[0] != "A1" {
			h.T().Errorf("seen %v", depot.Seen)
		}
	})
}

func Example_publishing() {
	// cut:publisher
	ctx := context.Background()
	m := app.New("importer", "0.1.0").Broker(embedded.New()) // redisbroker.Standalone("redis://localhost:6379") in a program
	if err := m.Publish(ctx, broker.Stream("charges"), Charge{ID: 7, Cents: 1999}); err != nil {
		fmt.Println(err)
	}
	if err := m.Close(ctx); err != nil {
		fmt.Println(err)
	}
	// cut:end
	// Output:
}
