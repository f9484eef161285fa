package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

var errNoAnswer = errors.New("no answer from the bank")

// refunds is a service whose every message dies.
func (s *stage) refunds() {
	s.worker(streamrt.Spec{Stream: "refunds", Group: "refunds"}, func(_ context.Context, body string) outcome.HandlerOutcome {
		if body == "stop it" {
			return outcome.DeadLetter(errors.New("not a refund"))
		}
		return outcome.Retry().WithError(errNoAnswer)
	}, soon, app.MaxAttempts(2), app.DeadLetter("refunds.dlq"), app.Concurrency(1))
	for i, body := range []string{`{"id":7,"cents":1999}`, "stop it", "\x00\xff\x1b[31m"} {
		s.publish(broker.Stream("refunds"), body)
		s.buried("refunds.dlq", int64(i+1))
		if s.stands {
			s.Advance(20 * time.Minute)
		}
	}
}

func TestDeadLettersAsTheyArePrinted(t *testing.T) {
	paused(t, func(s *stage) {
		s.refunds()
		s.Stop()
		s.Advance(3 * time.Hour)
		ids := s.Client().XRange(t.Context(), "refunds.dlq", "-", "+").Val()
		s.does(0, "dlq", "ls")
		s.does(0, "dlq", "ls", "refunds.dlq")
		s.does(0, "dlq", "ls", "refunds.dlq", "--reason", "rejected", "--json")
		s.does(0, "dlq", "ls", "refunds.dlq", "--limit", "1")
		s.does(0, "dlq", "ls", "refunds.dlq", "--handler", "nobody")
		s.does(1, "dlq", "ls", "nothing.here")
		s.does(0, "dlq", "show", "refunds.dlq", ids[0].ID)
		s.does(0, "dlq", "show", "refunds.dlq", ids[2].ID, "--json")
		s.does(1, "dlq", "show", "refunds.dlq", "1-1")
		s.does(0, "dlq", "stats", "refunds.dlq")
		s.does(0, "dlq", "stats", "refunds.dlq", "--json")
		s.does(2, "dlq", "replay", "refunds.dlq")
		s.does(2, "dlq", "replay", "refunds.dlq", "--all")
		s.does(2, "dlq", "purge", "refunds.dlq", ids[0].ID)
		s.does(0, "dlq", "replay", "refunds.dlq", "--all", "--dry-run", "--max", "2")
		s.answers = "n\n"
		s.does(1, "dlq", "purge", "refunds.dlq", "--all")
		s.answers = "y\n"
		s.does(0, "dlq", "replay", "refunds.dlq", "--reason", "rejected")
		s.answers = ""
		s.does(0, "dlq", "replay", "refunds.dlq", ids[0].ID, "--to", "elsewhere", "--yes", "--json")
		s.does(0, "dlq", "purge", "refunds.dlq", "--all", "--yes")
		s.does(0, "dlq", "stats", "refunds.dlq")
		s.golden("dlq")
	})
}
