package snippets

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// cut:body

// chargeIsRetried is one test body for the paused clock and for a real server.
func chargeIsRetried(h *apptest.H) {
	const wait = 300 * time.Millisecond
	calls := 0
	billing := &Billing{Bank: func(context.Context, Charge) error {
		if calls++; calls == 1 {
			return &BusyError{Wait: wait}
		}
		return nil
	}}
	a := app.New("billing", "test", quiet)
	m := a.Broker(h.Broker())
	m.Mount(BillingTakeMoneySubscription.With(billing), app.Concurrency(1))
	h.Start(a)

	ctx := h.T().Context()
	if err := m.Publish(ctx, broker.Stream("charges"), Charge{ID: 7, Cents: 1999}); err != nil {
		h.T().Fatal(err)
	}
	h.Advance(wait)
	h.Eventually("the charge is settled", func(ctx context.Context) bool {
		pending, err := h.Client().XPending(ctx, "charges", "billing").Result()
		return err == nil && pending.Count == 0 && calls == 2
	})
}

// cut:end

// cut:both

func TestChargeIsRetried(t *testing.T) { apptest.Paused(t, chargeIsRetried) }

func TestChargeIsRetriedLive(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		apptest.Live(t, server.URL(), chargeIsRetried)
	})
}

// TestMain keeps the servers from one test to the next.
func TestMain(m *testing.M) { redistest.Main(m) }

// cut:end
