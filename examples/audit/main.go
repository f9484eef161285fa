// Command audit writes down what every other service publishes: it listens to a pattern, and so to channels that do not
// exist yet.
//
//	go run ./examples/audit                           on a server inside the process
//	go run ./examples/audit -redis redis://localhost  on a real one
//
// A pattern is no channel that a retry could be published on, so the mount names one.
package main

import (
	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/examples/internal/stage"
)

func main() { stage.Main("audit", demo) }

// cut:app

// Service writes events down. Its retries are published on events.again, which the pattern matches: they come back to the
// process that failed, with their attempts counted, and to nobody else.
func Service(b broker.Broker, trail Trail, options ...app.Option) (*app.App, *app.Mounts) {
	a := app.New("audit", "0.1.0", options...)
	m := a.Broker(b)
	m.Mount(RecordSubscription.With(trail), app.OutRetry("events.again"), app.MaxAttempts(3), app.DeadLetter("audit.lost"))
	return a, m
}

// cut:end
