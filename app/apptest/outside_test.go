package apptest_test

import (
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// The test that a body closes over lives outside of the bubble. Using its context in the bubble is natural, and works.
func TestTheContextOfTheTestOutsideMayBeUsed(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		handler := new(busyOnce)
		a := app.New("refunds", "test")
		m := a.Broker(h.Broker())
		m.Mount(handler.subscription(streamrt.Spec{Name: "t.Outside", Stream: "refunds", Group: "refunds"}))
		h.Start(a)
		if err := m.Publish(t.Context(), broker.Stream("refunds"), refund{1}); err != nil {
			t.Fatal(err)
		}
		h.Advance(time.Minute)
		if n := h.Client().XLen(t.Context(), "refunds").Val(); n != 2 || len(handler.calls) != 2 {
			t.Errorf("%d entries, %d calls", n, len(handler.calls))
		}
	})
}

// A test of a publisher needs no app.
func TestABodyMayPublishWithoutAnApp(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		m := app.New("publisher", "test").Broker(h.Broker())
		if err := m.Publish(h.T().Context(), broker.Stream("refunds"), refund{1}); err != nil {
			h.T().Fatal(err)
		}
		if n := h.Client().XLen(h.T().Context(), "refunds").Val(); n != 1 {
			h.T().Errorf("XLEN %d", n)
		}
	})
}
