// Command prices shows the latest prices on two boards, each in a process of its own, that listen to one channel.
//
//	go run ./examples/prices                           on a server inside the process
//	go run ./examples/prices -redis redis://localhost  on a real one
//
// The server keeps nothing of a channel: who is not listening misses what is published. A quote that one board could not
// show comes back to that board alone.
package main

import (
	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/examples/internal/stage"
)

func main() { stage.Main("prices", demo) }

// cut:app

// Service shows prices on one board, one after the other as they were published. A quote that the board could not show
// three times is published on another channel, for whoever wants to know.
func Service(b broker.Broker, board *Board, options ...app.Option) (*app.App, *app.Mounts) {
	a := app.New("prices", "0.1.0", options...)
	m := a.Broker(b)
	m.Mount(ShowSubscription.With(board), app.Concurrency(1), app.MaxAttempts(3), app.DeadLetter("prices.failed"))
	return a, m
}

// cut:end
