package snippets

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
)

func TestWhatIsDoneIsRemoved(t *testing.T) {
	for want, mount := range []func(*app.Mounts, *Billing){mountDeleted, mountKept} {
		apptest.Paused(t, func(h *apptest.H) {
			a := app.New("test", "1", quiet)
			m := a.Broker(h.Broker())
			mount(m, &Billing{Bank: func(context.Context, Charge) error { return nil }})
			h.Start(a)
			if err := m.Publish(h.T().Context(), broker.Stream("charges"), Charge{ID: 7}); err != nil {
				h.T().Fatal(err)
			}
			h.Advance(2 * time.Minute)
			if n := h.Client().XLen(h.T().Context(), "charges").Val(); n != int64(want) {
				h.T().Errorf("XLEN %d, want %d", n, want)
			}
		})
	}
}
