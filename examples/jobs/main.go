// Command jobs gives the named tasks of one stream to handlers in two packages, and is deployed while it works: workers of
// the first version meet a task that only the second one knows.
//
//	go run ./examples/jobs                           on a server inside the process
//	go run ./examples/jobs -redis redis://localhost  on a real one
//
// What a worker does not know it puts off, for whoever knows it: nothing is lost, and nothing counts as a failure.
package main

import (
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/examples/internal/stage"
	"github.com/millrace-go/millrace/examples/jobs/images"
	"github.com/millrace-go/millrace/examples/jobs/mail"
)

func main() { stage.Main("jobs", demo) }

// cut:app

// Version1 knows two tasks. Both are read together, as one consumer of the group, and each mount has options of its own,
// such as how many of its messages are handled at a time.
func Version1(b broker.Broker, sender *mail.Sender, lab *images.Lab, options ...app.Option) (*app.App, *app.Mounts) {
	return workers("1", b, sender, lab, options)
}

// Version2 is the next release, and knows one more.
func Version2(b broker.Broker, sender *mail.Sender, lab *images.Lab, options ...app.Option) (*app.App, *app.Mounts) {
	a, m := workers("2", b, sender, lab, options)
	m.Mount(mail.SenderSendInvoiceSubscription.With(sender))
	return a, m
}

func workers(version string, b broker.Broker, sender *mail.Sender, lab *images.Lab, options []app.Option) (*app.App, *app.Mounts) {
	a := app.New("jobs", version, options...)
	m := a.Broker(b, app.MaxAttempts(5), app.DeadLetter("jobs.dlq"),
		// A deploy of these workers takes seconds: what one of them does not know is tried again soon, and what none of them
		// has known for an hour is a mistake of the publisher's.
		app.UnknownTaskDelay(2*time.Second), app.UnknownTaskTimeout(time.Hour))
	m.Mount(mail.SenderSendWelcomeSubscription.With(sender))
	m.Mount(images.ShrinkSubscription.With(lab), app.Concurrency(2))
	return a, m
}

// cut:end

// cut:publish

// Task is the header by which a message finds its handler.
func Task(name string) broker.PublishOption { return broker.Header(broker.HeaderTask, name) }

// cut:end
