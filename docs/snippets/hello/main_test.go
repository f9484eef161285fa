package main

import (
	"testing"
	"time"

	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
)

// cut:test

func TestAWelcomeThatFailsIsSentAgain(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		a, m := service(h.Broker())
		h.Start(a)
		if err := m.Publish(h.T().Context(), broker.Stream("signups"), Signup{Email: "ada@example.com"}); err != nil {
			h.T().Fatal(err)
		}
		h.Advance(time.Second) // the longest that the backoff waits after a first failure
		pending := h.Client().XPending(h.T().Context(), "signups", "welcome").Val().Count
		if letters := h.Client().XLen(h.T().Context(), "signups.dlq").Val(); pending != 0 || letters != 0 {
			h.T().Errorf("%d pending, %d dead letters", pending, letters)
		}
	})
}

// cut:end
