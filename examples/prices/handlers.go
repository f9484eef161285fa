package main

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
)

//go:generate go run github.com/millrace-go/millrace/cmd/streamgen .

// Quote is what something costs from now on.
type Quote struct {
	Symbol string `json:"symbol"`
	Cents  int    `json:"cents"`
	// Seq rises with each quote of a symbol.
	Seq int `json:"seq"`
}

// cut:handler

// Show puts a quote on the board. Every process that is subscribed gets every quote, once at most: what is published
// while it is not is gone. That suits a price, since the next one is on its way.
//
//stream:subscriber channel=prices
func Show(ctx context.Context, board app.State[*Board], q Quote) outcome.HandlerOutcome {
	if board.Value.Seq(q.Symbol) >= q.Seq {
		return outcome.Drop() // a retry that a newer quote has overtaken
	}
	if err := board.Value.Put(ctx, q); err != nil {
		return outcome.RetryAfter(Pause).WithError(err)
	}
	return outcome.Ack()
}

// cut:end

// Pause is how long a board that flickers is left alone.
const Pause = 500 * time.Millisecond

// Board shows the latest quote of each symbol. Each process has its own.
type Board struct {
	// Light shows a quote, and may fail.
	Light func(ctx context.Context, q Quote) error

	mu     sync.Mutex
	latest map[string]Quote
}

// Put lights a quote up and remembers it.
func (b *Board) Put(ctx context.Context, q Quote) error {
	if err := b.Light(ctx, q); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.latest == nil {
		b.latest = map[string]Quote{}
	}
	if b.latest[q.Symbol].Seq < q.Seq {
		b.latest[q.Symbol] = q
	}
	return nil
}

// Seq is that of the quote on the board, 0 for none.
func (b *Board) Seq(symbol string) int { return b.Quote(symbol).Seq }

// Quote is what the board shows.
func (b *Board) Quote(symbol string) Quote {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.latest[symbol]
}
