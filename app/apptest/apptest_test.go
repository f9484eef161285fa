package apptest_test

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

type refund struct{ ID int }

const backoff = 30 * time.Second

// busyOnce answers RetryAfter to the first attempt of every message, and notes when it was called.
type busyOnce struct{ calls []time.Time }

func (b *busyOnce) handle(ctx context.Context, _ refund) outcome.HandlerOutcome {
	b.calls = append(b.calls, time.Now())
	if app.MessageFrom(ctx).Attempt == 1 {
		return outcome.RetryAfter(backoff)
	}
	return outcome.Ack()
}

func (b *busyOnce) subscription(spec streamrt.Spec) streamrt.Subscription {
	return streamrt.SubscribeMethod(spec, streamrt.JSON, (*busyOnce).handle).With(b)
}

func thirtySecondsPassAtOnce(t *testing.T, spec streamrt.Spec) {
	began := time.Now()
	apptest.Paused(t, func(h *apptest.H) {
		handler := new(busyOnce)
		a := app.New("refunds", "test")
		m := a.Broker(h.Broker())
		m.Mount(handler.subscription(spec))
		h.Start(a)
		if err := m.Publish(h.T().Context(), broker.Stream(spec.Stream), refund{1}); err != nil {
			h.T().Fatal(err)
		}
		h.Advance(0)
		if len(handler.calls) != 1 {
			h.T().Fatalf("%d calls before the delay", len(handler.calls))
		}
		h.Advance(backoff - time.Second)
		if len(handler.calls) != 1 {
			h.T().Fatalf("%d calls a second before the delay is over", len(handler.calls))
		}
		h.Advance(time.Second)
		h.Advance(time.Millisecond)
		if len(handler.calls) != 2 {
			h.T().Fatalf("%d calls when the delay is over", len(handler.calls))
		}
		if late := handler.calls[1].Sub(handler.calls[0]) - backoff; late < 0 || late > time.Millisecond {
			h.T().Errorf("the second call came %s after it was due", late)
		}
	})
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestThirtySecondsPassAtOnceForADelaySet(t *testing.T) {
	thirtySecondsPassAtOnce(t, streamrt.Spec{Name: "t.Set", Stream: "refunds", Group: "refunds", DelaySet: "refunds.delayed"})
}

func TestThirtySecondsPassAtOnceForAClaim(t *testing.T) {
	thirtySecondsPassAtOnce(t, streamrt.Spec{Name: "t.Claim", Stream: "refunds", Group: "refunds", Claim: backoff})
}

func TestThirtySecondsPassAtOnceInMemory(t *testing.T) {
	thirtySecondsPassAtOnce(t, streamrt.Spec{Name: "t.Memory", Stream: "refunds", Group: "refunds"})
}
