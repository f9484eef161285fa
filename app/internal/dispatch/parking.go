package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// parkedEntry is what is kept of a message that waits in memory: enough to have the server copy it from the stream.
// Its body is not among it.
type parkedEntry struct {
	route     *route
	holding   holding
	handedOut time.Time
	edits     broker.Edits
	// kept is the delivery count that says what the message has behind it. The server does not have it where the entry was
	// trimmed.
	kept int64
	// delivery is nil where the server can copy the entry from the stream. The only copy of its body is this one where the
	// source keeps none, where the entry was trimmed while it was in hand, and where it runs again in place.
	delivery *broker.Delivery
}

// parking is where messages wait whose delay is kept in memory. They stay pending on the server and take no handler
// slot. Safe for concurrent use.
type parking struct {
	mu      sync.Mutex
	entries dueQueue[*parkedEntry]
	// earlier tells run that an entry is due before the one that it sleeps for.
	earlier chan struct{}
}

func newParking() *parking { return &parking{earlier: make(chan struct{}, 1)} }

func (p *parking) add(at time.Time, e *parkedEntry) {
	p.mu.Lock()
	first, any := p.entries.next()
	p.entries.add(at, e)
	p.mu.Unlock()
	if any && !at.Before(first) {
		return
	}
	select {
	case p.earlier <- struct{}{}:
	default:
	}
}

// run hands each entry to due when its time comes, until ctx ends.
func (p *parking) run(ctx context.Context, due func(*parkedEntry)) {
	timer := time.NewTimer(maxDelay)
	defer timer.Stop()
	for {
		for {
			e, ok := p.take(time.Now())
			if !ok {
				break
			}
			due(e)
		}
		timer.Reset(p.untilNext())
		select {
		case <-ctx.Done():
			return
		case <-p.earlier:
		case <-timer.C:
		}
	}
}

func (p *parking) take(now time.Time) (*parkedEntry, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.entries.take(now)
}

func (p *parking) untilNext() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	next, ok := p.entries.next()
	if !ok {
		return maxDelay
	}
	return max(time.Until(next), 0)
}

// empty takes everything out and says how each is to be handed back.
func (p *parking) empty() []broker.Held {
	p.mu.Lock()
	entries := p.entries.drain()
	p.mu.Unlock()
	held := make([]broker.Held, len(entries))
	now := time.Now()
	for i, e := range entries {
		held[i] = broker.Held{
			ID: e.value.holding.id, Count: e.value.holding.count, Due: max(e.at.Sub(now), 0),
			Delivery: e.value.delivery, Started: true,
		}
	}
	return held
}

// park counts a message as parked, and unparked as that no longer.
func (e *Engine) park(rt *route) {
	rt.parked.Add(1)
	e.room.parked.Add(1)
}

func (e *Engine) unparked(rt *route) {
	rt.parked.Add(-1)
	e.room.left(&e.room.parked)
}
