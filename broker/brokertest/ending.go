package brokertest

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-go/millrace/outcome"
)

// Durations of the matrix. Delays are short, because every case waits for its own; claim has the least value that a
// subscription may have.
const (
	claimTime    = time.Second
	retryDelay   = 150 * time.Millisecond
	firstBackoff = 50 * time.Millisecond
	deadline     = 20 * time.Millisecond
)

var (
	errDeclined = errors.New("declined by the card processor")
	errBroken   = errors.New("no answer from the card processor")
)

// keeping is where a delay is kept.
type keeping string

const (
	inMemory keeping = "memory"
	inSet    keeping = "delay-set"
	byClaim  keeping = "claiming"
)

// ending is one way in which a handler ends.
type ending struct {
	name string
	// label is what the counter of deliveries calls it.
	label string
	// fails: the ending asks for another attempt.
	fails bool
	// kept is where the delay is kept that the ending asks for.
	kept keeping
	// timeout is the deadline of the handler's context.
	timeout time.Duration
	// text is in the error of the dead letter, detail in its detail.
	text, detail string
	answer       func(ctx context.Context) outcome.HandlerOutcome
	// wait is how long the message may not come back after the failure of the attempt, where it is not claimed.
	wait func(attempt int) time.Duration
}

func atOnce(int) time.Duration { return 0 }

func asAsked(int) time.Duration { return retryDelay }

// asBackedOff is what the matrix gives its mounts as their backoff: the first wait, doubling.
func asBackedOff(attempt int) time.Duration { return firstBackoff << (attempt - 1) }

func retryAfter(context.Context) outcome.HandlerOutcome { return outcome.RetryAfter(retryDelay) }

// endings are all the ways.
var endings = []ending{
	{name: "ack", label: "ack", answer: func(context.Context) outcome.HandlerOutcome { return outcome.Ack() }},
	{name: "drop", label: "drop", answer: func(context.Context) outcome.HandlerOutcome { return outcome.Drop() }},
	{
		name: "retry", label: "retry", fails: true, wait: atOnce, text: errBroken.Error(), detail: errBroken.Error(),
		answer: func(context.Context) outcome.HandlerOutcome { return outcome.Retry().WithError(errBroken) },
	},
	{name: "retry-after in memory", label: "retry_after", fails: true, kept: inMemory, wait: asAsked, answer: retryAfter},
	{name: "retry-after in a delay-set", label: "retry_after", fails: true, kept: inSet, wait: asAsked, answer: retryAfter},
	{name: "retry-after by claiming", label: "retry_after", fails: true, kept: byClaim, wait: asAsked, answer: retryAfter},
	{
		name: "dead-letter", label: "dead_letter", text: errDeclined.Error(), detail: errDeclined.Error(),
		answer: func(context.Context) outcome.HandlerOutcome { return outcome.DeadLetter(errDeclined) },
	},
	{
		name: "error", label: "fail", fails: true, wait: asBackedOff, text: errBroken.Error(), detail: errBroken.Error(),
		answer: func(context.Context) outcome.HandlerOutcome { return outcome.Of(errBroken) },
	},
	{
		name: "panic", label: "panic", fails: true, wait: asBackedOff, text: errBroken.Error(), detail: "ending.go",
		answer: func(context.Context) outcome.HandlerOutcome { panic(errBroken) },
	},
	{
		name: "timeout", label: "timeout", fails: true, wait: asBackedOff, timeout: deadline,
		text: context.DeadlineExceeded.Error(), detail: context.DeadlineExceeded.Error(),
		answer: func(ctx context.Context) outcome.HandlerOutcome {
			<-ctx.Done()
			return outcome.Of(ctx.Err())
		},
	},
	{
		name: "zero outcome", label: "none", fails: true, wait: asBackedOff,
		text: "handler returned the zero outcome", detail: "handler returned the zero outcome",
		answer: func(context.Context) outcome.HandlerOutcome { return outcome.HandlerOutcome{} },
	},
}
