package main

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
)

//go:generate go run github.com/millrace-go/millrace/cmd/streamgen .

// Event is what other services publish on their channels, such as events.login.
type Event struct {
	Kind string `json:"kind"`
	Who  string `json:"who"`
}

// cut:handler

// Trail is where events are written down.
type Trail interface {
	Write(ctx context.Context, channel string, e Event) error
}

// ErrDiskBusy says that an event can be written down in a moment.
var ErrDiskBusy = errors.New("the disk is busy")

// Record hears every channel whose name begins with "events.". The message says which one it was; for a retry that is
// the channel of the mount's OutRetry, so that an event has to say itself what it is.
//
//stream:subscriber pattern=events.*
func Record(ctx context.Context, trail app.State[Trail], e Event) outcome.HandlerOutcome {
	err := trail.Value.Write(ctx, app.MessageFrom(ctx).Source, e)
	if errors.Is(err, ErrDiskBusy) {
		return outcome.RetryAfter(time.Second).WithError(err)
	}
	return outcome.Of(err)
}

// cut:end
