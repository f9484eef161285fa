package snippets

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
)

// Reminder is sent when its time comes.
type Reminder struct {
	Text string `json:"text"`
}

// cut:ways

// InMemory names nothing: its delays are kept by the process.
//
//stream:subscriber stream=reminders.memory group=reminders
func InMemory(ctx context.Context, r Reminder) outcome.HandlerOutcome { return later(ctx, r) }

// InSet keeps its delays in a sorted set on the server.
//
//stream:subscriber stream=reminders.set group=reminders delay-set=reminders.delayed
func InSet(ctx context.Context, r Reminder) outcome.HandlerOutcome { return later(ctx, r) }

// ByClaim leaves the entry pending; whatever delay it asks for, it comes back after ten seconds.
//
//stream:subscriber stream=reminders.claim group=reminders claim=10s
func ByClaim(ctx context.Context, r Reminder) outcome.HandlerOutcome { return later(ctx, r) }

// cut:end

// cut:both

// ClaimAndSet keeps each delay as it was asked for, in the set; what is retried at once still comes back after ten
// seconds.
//
//stream:subscriber stream=reminders.both group=reminders claim=10s delay-set=reminders.both.delayed
func ClaimAndSet(ctx context.Context, r Reminder) outcome.HandlerOutcome { return later(ctx, r) }

// cut:end

// cut:later

// later asks for three seconds, once.
func later(ctx context.Context, _ Reminder) outcome.HandlerOutcome {
	if app.MessageFrom(ctx).Attempt == 1 {
		return outcome.RetryAfter(3 * time.Second)
	}
	return outcome.Ack()
}

// cut:end

// cut:ttl

// Digest keeps its delays in a set that goes a week after the last of them was due, should nobody read it any more.
//
//stream:subscriber stream=digests group=digests delay-set=digests.delayed delay-ttl=168h
func Digest(ctx context.Context, r Reminder) outcome.HandlerOutcome { return later(ctx, r) }

// cut:end
