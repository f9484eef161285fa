// Command refunds sends refunds through a card processor that is sometimes busy, sometimes silent, and sometimes says no.
//
//	go run ./examples/refunds                           on a server inside the process
//	go run ./examples/refunds -redis redis://localhost  on a real one
//
// It publishes a dozen refunds, shows what becomes of each, and ends with a table. On a real server the guide to operations
// is tried with it: -keep leaves what was written, -outage has the card processor answer nobody, and -serve publishes
// nothing and works until it is interrupted.
package main

import (
	"context"
	"flag"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/examples/internal/stage"
)

func main() {
	outage := flag.Bool("outage", false, "the card processor answers nobody")
	serving := flag.Bool("serve", false, "publish nothing, and work until interrupted")
	stage.Main("refunds", func(ctx context.Context, s *stage.Stage) error {
		if *serving {
			return serve(ctx, s, *outage)
		}
		return demo(ctx, s, *outage)
	})
}

// cut:app

// Service mounts the three subscriptions on the broker.
func Service(b broker.Broker, processor *Processor, reviewer *Reviewer, options ...app.Option) (*app.App, *app.Mounts) {
	a := app.New("refunds", "0.1.0", options...)
	m := a.Broker(b)
	// Five deliveries of one refund, the first included; then the dead letter.
	m.Mount(ProcessRefundSubscription.With(processor), app.MaxAttempts(5), app.DeadLetter("refunds.dlq"))
	m.Mount(ProcessPriorityRefundSubscription.With(processor), app.MaxAttempts(3), app.DeadLetter("refunds.dlq"))
	m.Mount(ReviewerReviewSubscription.With(reviewer))
	return a, m
}

// cut:end
