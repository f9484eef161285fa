package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// slot is one handler slot. Its deliveries run one after the other under one context, which is replaced when it has
// ended for the loss of a delivery: a context for each would cost several allocations a message.
type slot struct {
	// took is how long the deliveries of this slot have taken lately, in nanoseconds, 0 for none so far; began is when the
	// one that runs did, 0 for none.
	took, began atomic.Int64
	// wake ends the slot's rest.
	wake chan struct{}

	mu      sync.Mutex // guards what follows; not held while a handler runs
	current *item
	ctx     context.Context
	end     context.CancelCauseFunc
}

func newSlots(n int) []slot {
	slots := make([]slot, n)
	for i := range slots {
		slots[i].wake = make(chan struct{}, 1)
	}
	return slots
}

// begin puts the delivery into the slot and returns the context that it runs under.
func (s *slot) begin(base context.Context, it *item) context.Context {
	s.began.Store(elapsed())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = it
	if s.ctx == nil || s.ctx.Err() != nil {
		s.ctx, s.end = context.WithCancelCause(base)
	}
	return s.ctx
}

// finish takes the delivery out. It returns how long that was in the slot and whether it still was there: a shutdown may
// have given it up.
func (s *slot) finish(it *item) (took time.Duration, ok bool) {
	nanoseconds := elapsed() - s.began.Swap(0)
	s.measure(nanoseconds)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != it {
		return 0, false
	}
	s.current = nil
	return time.Duration(nanoseconds), true
}

// abandon takes out whatever runs, nil for nothing.
func (s *slot) abandon() *item {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.current
	s.current = nil
	return it
}

// lose ends the context of the delivery if its entry is among the ids.
func (s *slot) lose(such func(*item) bool, cause error) *item {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil || !such(s.current) {
		return nil
	}
	s.end(cause)
	return s.current
}

// runs reports whether a delivery of the route is in the slot.
func (s *slot) runs(rt *route) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current != nil && s.current.route == rt
}

// close lets go of the context.
func (s *slot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		s.end(context.Canceled)
	}
}
