package apptest_test

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redistest"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// delayed is one test body for the paused clock and for a real server.
func delayed(spec streamrt.Spec) func(h *apptest.H) {
	const delay = 300 * time.Millisecond
	return func(h *apptest.H) {
		var calls []time.Time
		a := app.New("refunds", "test")
		m := a.Broker(h.Broker())
		m.Mount(streamrt.Subscribe(spec, streamrt.JSON, func(ctx context.Context, _ refund) outcome.HandlerOutcome {
			calls = append(calls, time.Now())
			if app.MessageFrom(ctx).Attempt == 1 {
				return outcome.RetryAfter(delay)
			}
			return outcome.Ack()
		}), app.Concurrency(1))
		h.Start(a)
		if err := m.Publish(h.T().Context(), broker.Stream(spec.Stream), refund{1}); err != nil {
			h.T().Fatal(err)
		}
		h.Advance(delay)
		h.Eventually("the second call", func(context.Context) bool { return len(calls) == 2 })
		if early := delay - calls[1].Sub(calls[0]); early > 0 {
			h.T().Errorf("the second call came %s early", early)
		}
		h.Eventually("nothing pending", func(ctx context.Context) bool {
			p, err := h.Client().XPending(ctx, spec.Stream, spec.Group).Result()
			return err == nil && p.Count == 0
		})
		h.Stop()
		if n := h.Client().XLen(h.T().Context(), spec.Stream).Val(); n != 2 {
			h.T().Errorf("the stream holds %d entries after the app has stopped", n)
		}
	}
}

func TestOneBodyPausedAndLive(t *testing.T) {
	for name, spec := range map[string]streamrt.Spec{
		"memory": {Name: "t.Memory", Stream: "refunds", Group: "refunds"},
		"set":    {Name: "t.Set", Stream: "refunds", Group: "refunds", DelaySet: "refunds.delayed"},
	} {
		t.Run(name+"/paused", func(t *testing.T) { apptest.Paused(t, delayed(spec)) })
		t.Run(name+"/live", func(t *testing.T) {
			apptest.Live(t, redistest.Start(t).URL(), delayed(spec))
		})
	}
}
