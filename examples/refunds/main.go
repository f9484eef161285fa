// Command refunds sends refunds through a card processor that is sometimes busy, sometimes silent, and sometimes says no.
//
//	go run ./examples/refunds                           on a server inside the process
//	go run ./examples/refunds -redis redis://localhost  on a real one
//
// It publishes a dozen refunds, shows what becomes of each, and ends with a table.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
)

func main() {
	url := flag.String("redis", "", "address of a Redis or Valkey server, as redis://host:port/db; a server inside the process if empty")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := demo(ctx, *url, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "refunds:", err)
		os.Exit(1)
	}
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
