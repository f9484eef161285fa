package snippets

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/embedded"
)

// cut:example

func Example_deadLetter() {
	ctx, stop := context.WithCancel(context.Background())
	a := app.New("billing", "0.1.0", quiet)
	m := a.Broker(embedded.New())

	bank := func(context.Context, Charge) error { return ErrNoAnswer }
	m.Mount(BillingTakeMoneySubscription.With(&Billing{Bank: bank}), app.MaxAttempts(3), app.DeadLetter("charges.dlq"))

	desk := &Desk{Open: func(ticket string) error {
		fmt.Println(ticket)
		stop()
		return nil
	}}
	m.Mount(DeskLookSubscription.With(desk))

	a.AfterStartup(func(ctx context.Context) error {
		return m.Publish(ctx, broker.Stream("charges"), Charge{ID: 7, Cents: 1999}, broker.Header("message-id", "charge-7"))
	})
	fmt.Println(a.Run(ctx))
	// Output:
	// charge-7 from charges: max_attempts after 3 failures: no answer (charge 7)
	// <nil>
}

// cut:end

func TestADeadLetterDiesAgain(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		a := app.New("test", "1", quiet)
		m := a.Broker(h.Broker())
		m.Mount(BillingTakeMoneySubscription.With(&Billing{Bank: func(context.Context, Charge) error { return ErrNoAnswer }}),
			app.MaxAttempts(5), app.DeadLetter("charges.dlq"))
		mountDesk(m, &Desk{Open: func(string) error { return errors.New("no desk") }})
		h.Start(a)
		if err := m.Publish(h.T().Context(), broker.Stream("charges"), Charge{ID: 7}); err != nil {
			h.T().Fatal(err)
		}
		h.Advance(time.Minute)
		lost := h.Client().XRange(h.T().Context(), "charges.lost", "-", "+").Val()
		if len(lost) != 1 {
			h.T().Fatalf("%d records", len(lost))
		}
		v := lost[0].Values
		if v["dlq_source"] != "charges.dlq" || v["dlq_attempts"] != "7" || v["dlq_deliveries"] != "2" || v["h:retry-count"] != "7" {
			h.T().Errorf("%v", v)
		}
	})
}
