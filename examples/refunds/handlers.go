package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
)

//go:generate go run github.com/millrace-go/millrace/cmd/streamgen .

// cut:handler

// ProcessRefund sends a refund to the card processor. A delay that it asks for is kept in the sorted set
// refunds.delayed, so that it survives a restart.
//
//stream:subscriber stream=refunds group=refunds delay-set=refunds.delayed
func ProcessRefund(ctx context.Context, p app.State[*Processor], r Refund) outcome.HandlerOutcome {
	return settle(ctx, p.Value, r)
}

// ProcessPriorityRefund does the same for refunds that should not wait behind the others. What it asks to retry stays
// pending and comes back once it has been idle for two seconds; nothing is copied.
//
//stream:subscriber stream=refunds.priority group=refunds claim=2s
func ProcessPriorityRefund(ctx context.Context, p app.State[*Processor], r Refund) outcome.HandlerOutcome {
	return settle(ctx, p.Value, r)
}

func settle(ctx context.Context, p *Processor, r Refund) outcome.HandlerOutcome {
	err := p.Refund(ctx, r)
	switch {
	case err == nil:
		return outcome.Ack()
	case errors.Is(err, ErrBusy):
		// Past the rate limit: asking again at once would be refused again.
		return outcome.RetryAfter(Backoff).WithError(err)
	case errors.Is(err, ErrDeclined):
		// The next attempt would get the same answer, and nobody needs to look at it.
		return outcome.Drop().WithError(err)
	default:
		// No answer: try again at once, up to the cap of the mount.
		return outcome.Retry().WithError(err)
	}
}

// cut:end

// cut:review

// Reviewer shows dead letters to a person.
type Reviewer struct {
	// Show is told of each dead letter.
	Show func(letter []byte, m app.Message)
}

// Review reads the dead letters through a group of its own. It takes the bytes as they are, because a dead letter may be
// one that nobody could decode.
//
//stream:subscriber stream=refunds.dlq group=refunds-review codec=raw
func (v *Reviewer) Review(ctx context.Context, letter []byte) error {
	m := app.MessageFrom(ctx)
	if m.DeadLetter == nil {
		slog.Warn("not a dead letter", "entry", m.EntryID)
		return nil
	}
	v.Show(letter, m)
	return nil
}

// cut:end
