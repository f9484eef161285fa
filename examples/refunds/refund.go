package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// cut:refund

// Backoff is how long a busy card processor asks its callers to wait. The claim= of ProcessPriorityRefund says the same.
const Backoff = 2 * time.Second

// Refund is one refund to be sent to the card processor.
type Refund struct {
	ID    int    `json:"id"`
	Card  string `json:"card"`
	Cents int    `json:"cents"`
}

// The processor refuses a refund in three ways.
var (
	ErrBusy        = errors.New("rate limit used up")
	ErrUnavailable = errors.New("no answer")
	ErrDeclined    = errors.New("card account closed")
)

// cut:end

// Processor stands in for the card processor: each card has its own way of answering.
type Processor struct {
	// Outage: it answers nobody.
	Outage bool
	// Note is told what the processor answered.
	Note func(ctx context.Context, r Refund, answer error)

	mu    sync.Mutex
	calls map[int]int
}

// Refund sends one refund to the processor.
func (p *Processor) Refund(ctx context.Context, r Refund) error {
	answer := p.answer(r)
	if p.Note != nil {
		p.Note(ctx, r, answer)
	}
	return answer
}

func (p *Processor) answer(r Refund) error {
	if p.Outage {
		return ErrUnavailable
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == nil {
		p.calls = map[int]int{}
	}
	p.calls[r.ID]++
	first := p.calls[r.ID] == 1
	switch r.Card {
	case "busy-once":
		if first {
			return ErrBusy
		}
	case "silent-once":
		if first {
			return ErrUnavailable
		}
	case "silent":
		return ErrUnavailable
	case "closed":
		return ErrDeclined
	}
	return nil
}

// Calls returns how often the processor was asked for the refund.
func (p *Processor) Calls(id int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[id]
}
