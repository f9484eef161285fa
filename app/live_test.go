package app_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker/redistest"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// A claiming read takes the entries of slow handlers back all the time, some of them in the moment in which they are
// settled. None may run twice, and none may stay behind.
func TestSlowClaimingHandlersRunOnceOnRealServers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds of real time")
	}
	const messages = 60
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		apptest.Live(t, server.URL(), func(h *apptest.H) {
			s := newService(h, h.Broker())
			s.mount(streamrt.Spec{Claim: time.Second}, func(_ context.Context, body string) outcome.HandlerOutcome {
				time.Sleep(time.Duration(900+rand.IntN(1600)) * time.Millisecond)
				if body == "bury" {
					return outcome.DeadLetter(errors.New("no"))
				}
				return outcome.Ack()
			}, app.Concurrency(25), app.DeadLetter("dlq"), app.MaxAttempts(50))
			s.start()
			for range messages / 2 {
				s.publish("ack", "bury")
			}
			h.Eventually("every message settled", func(context.Context) bool { return s.ran() >= messages && s.pending() == 0 })
			if s.ran() != messages {
				s.t.Errorf("%d runs of %d messages, attempts %v", s.ran(), messages, s.attempts())
			}
			s.wantServer(0, messages, messages/2)
		})
	})
}
