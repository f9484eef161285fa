package main

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
)

//go:generate go run github.com/millrace-go/millrace/cmd/streamgen .

// cut:click

// Click is an entry of the stream clicks as the web shop writes it, without this library:
//
//	XADD clicks * page /shoes user 17 at 1700000000123
type Click struct {
	Page string    `stream:"page"`
	User int64     `stream:"user"`
	At   time.Time `stream:"at,unixms"`
	// Referrer is nil where the entry has no such field.
	Referrer *string `stream:"referrer"`
}

// cut:end

// cut:handler

// CountView counts how often a page is looked at. The stream is not ours: what is to be retried stays pending in it and
// runs again, and nothing is ever appended to it.
//
//stream:subscriber stream=clicks group=views codec=fields
func CountView(ctx context.Context, views app.State[Views], c Click) outcome.HandlerOutcome {
	err := views.Value.Count(ctx, c)
	if errors.Is(err, ErrLocked) {
		return outcome.RetryAfter(time.Second).WithError(err)
	}
	return outcome.Of(err)
}

// cut:end

// Views is where views are counted.
type Views interface {
	Count(ctx context.Context, c Click) error
}

// ErrLocked says that somebody else works on the numbers of the page.
var ErrLocked = errors.New("the page's numbers are locked")

// cut:letters

// Desk is told of each click that could not be counted.
type Desk struct {
	Tell func(m app.Message)
}

// Look reads the dead letters, which are ours and not the shop's. Their fields are those of the click, and come with the
// message; a body they have none.
//
//stream:subscriber stream=views.dlq group=desk codec=raw
func (d *Desk) Look(ctx context.Context, _ []byte) error {
	d.Tell(app.MessageFrom(ctx))
	return nil
}

// cut:end
