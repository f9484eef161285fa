package brokertest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
)

// call is one run of a handler.
type call struct {
	message app.Message
	payload string
	// began and ended enclose the run; what became of it is settled after ended.
	began, ended time.Time
}

// recorder is the handler of a subscription under test. It is safe for concurrent use.
type recorder struct {
	// answer is what the handler does with its n-th run, n from 1, of the message that c tells of.
	answer func(ctx context.Context, n int, c call) outcome.HandlerOutcome

	mu    sync.Mutex
	runs  map[string]int // by message id
	calls []*call
}

// handle notes the run, however it ends. The number of runs is counted here, so that a wrong attempt number cannot
// change what the handler does.
func (r *recorder) handle(ctx context.Context, payload []byte) outcome.HandlerOutcome {
	c := &call{message: app.MessageFrom(ctx), payload: string(payload), began: time.Now()}
	// The handler owns its bytes: what it does to them must not reach the copy or the dead letter.
	clear(payload)
	r.mu.Lock()
	if r.runs == nil {
		r.runs = map[string]int{}
	}
	r.runs[c.message.ID]++
	n := r.runs[c.message.ID]
	r.calls = append(r.calls, c)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		c.ended = time.Now()
		r.mu.Unlock()
	}()
	return r.answer(ctx, n, *c)
}

// seen returns the calls so far, in the order they began.
func (r *recorder) seen() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := make([]call, len(r.calls))
	for i, c := range r.calls {
		seen[i] = *c
	}
	return seen
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls)
}

// byMessage returns the calls of each message, in the order they began.
func (r *recorder) byMessage() map[string][]call {
	calls := map[string][]call{}
	for _, c := range r.seen() {
		calls[c.message.ID] = append(calls[c.message.ID], c)
	}
	return calls
}

// bodies counts the runs of each payload.
func (r *recorder) bodies() map[string]int {
	n := map[string]int{}
	for _, c := range r.seen() {
		n[c.payload]++
	}
	return n
}

// of returns the calls with one payload, in the order they began.
func (r *recorder) of(body string) []call {
	var calls []call
	for _, c := range r.seen() {
		if c.payload == body {
			calls = append(calls, c)
		}
	}
	return calls
}

// attemptsOf lists the attempt numbers that the handler saw.
func attemptsOf(calls []call) []int {
	var seen []int
	for _, c := range calls {
		seen = append(seen, c.message.Attempt)
	}
	return seen
}

// upTo is 1, 2, … n.
func upTo(n int) []int {
	var all []int
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

// sortedKeys makes reports read alike from run to run.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// acks answers Ack to everything.
func acks(context.Context, int, call) outcome.HandlerOutcome { return outcome.Ack() }

// acksAfter takes its time and answers Ack to everything.
func acksAfter(d time.Duration) func(context.Context, int, call) outcome.HandlerOutcome {
	return func(context.Context, int, call) outcome.HandlerOutcome {
		time.Sleep(d)
		return outcome.Ack()
	}
}

// failsUntil answers o to every run before the n-th, and Ack to that.
func failsUntil(n int, o outcome.HandlerOutcome) func(context.Context, int, call) outcome.HandlerOutcome {
	return func(_ context.Context, run int, _ call) outcome.HandlerOutcome {
		if run < n {
			return o
		}
		return outcome.Ack()
	}
}

// always answers o to every run.
func always(o outcome.HandlerOutcome) func(context.Context, int, call) outcome.HandlerOutcome {
	return func(context.Context, int, call) outcome.HandlerOutcome { return o }
}
