// Command clickstream reads a stream that belongs to somebody else: a web shop writes plain flat fields into it, and other
// programs read them, too.
//
//	go run ./examples/clickstream                           on a server inside the process
//	go run ./examples/clickstream -redis redis://localhost  on a real one
//
// What fails is retried in place and what cannot be read is buried in a stream of our own, so that the shop's stream stays
// exactly as the shop wrote it.
package main

import (
	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/examples/internal/stage"
)

func main() { stage.Main("clickstream", demo) }

// cut:app

// Service counts views, and tells the desk of what could not be counted.
func Service(b broker.Broker, views Views, desk *Desk, options ...app.Option) *app.App {
	a := app.New("clickstream", "0.1.0", options...)
	m := a.Broker(b)
	m.Mount(CountViewSubscription.With(views), app.MaxAttempts(4), app.DeadLetter("views.dlq"))
	m.Mount(DeskLookSubscription.With(desk))
	return a
}

// cut:end
