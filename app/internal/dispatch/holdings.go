package dispatch

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// Holdings knows everything that a mount has in hand, from the moment it was read until it is settled or handed back,
// so that the transport can keep it from looking idle. It is the engine's [broker.Holder]. Safe for concurrent use.
type Holdings struct {
	mu sync.Mutex
	// The list is in the order of at: what is handed out or refreshed goes to its end.
	first, last *holding
	n           int
	// lost is told of what belongs to others by now. It is set before the first read.
	lost func([]broker.Held)
}

// holding is one entry in hand; it is part of what holds it, so that noting it costs no allocation.
type holding struct {
	id    string
	count int64
	at    time.Time

	// settling: an outcome is being written, or has been.
	settling atomic.Bool
	// to is the count that the server is being told to give the entry, while moving. moves counts how often the count was
	// changed.
	to     int64
	moving bool
	moves  uint32

	prev, next *holding
	held       bool
}

// NewHoldings returns an empty list.
func NewHoldings() *Holdings { return &Holdings{} }

var _ broker.Holder = (*Holdings)(nil)

func (h *Holdings) add(x *holding, id string, count int64, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x.id, x.count, x.at = id, count, at
	h.append(x)
}

func (h *Holdings) append(x *holding) {
	x.prev, x.next, x.held = h.last, nil, true
	if h.last == nil {
		h.first = x
	} else {
		h.last.next = x
	}
	h.last = x
	h.n++
}

// replace puts another holder of the same entry into the list, without a moment in between.
func (h *Holdings) replace(old, x *holding, id string, count int64) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unlink(old)
	x.id, x.count, x.at = id, count, now
	h.append(x)
}

// remove may be called for what is not held (any more).
func (h *Holdings) remove(x *holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unlink(x)
}

func (h *Holdings) unlink(x *holding) {
	if !x.held {
		return
	}
	if x.prev == nil {
		h.first = x.next
	} else {
		x.prev.next = x.next
	}
	if x.next == nil {
		h.last = x.prev
	} else {
		x.next.prev = x.prev
	}
	x.prev, x.next, x.held = nil, nil, false
	h.n--
}

// kept notes that the server has been told to give the entry the delivery count, and that it stays in hand.
func (h *Holdings) kept(x *holding, count int64) {
	x.settling.Store(false)
	h.recount(x, count)
}

// recount notes the delivery count that the server gave the entry while it was in hand.
func (h *Holdings) recount(x *holding, count int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x.count, x.moving = count, false
	x.moves++
}

// move notes that the server is being told to give the entry another delivery count.
func (h *Holdings) move(x *holding, to int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x.to, x.moving = to, true
}

// follows tells whether a hand-out with this count is the next one after what is in hand, so that nobody else had the
// entry in between.
func (h *Holdings) follows(x *holding, count int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return count == x.count+1 || x.moving && count == x.to+1
}

func (h *Holdings) count(x *holding) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return x.count
}

// Held returns what has been in hand for so long without being returned by Held, and everything for 0.
func (h *Holdings) Held(since time.Duration) []broker.Held {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if since == 0 {
		all := make([]broker.Held, 0, h.n)
		for x := h.first; x != nil; x = x.next {
			all = append(all, x.facts())
		}
		return all
	}
	var late []broker.Held
	for range h.n {
		x := h.first
		if now.Sub(x.at) < since {
			break
		}
		late = append(late, x.facts())
		h.unlink(x)
		x.at = now
		h.append(x)
	}
	return late
}

// Lost ends the contexts of handlers that run with entries of others, and lets go of those entries: what was lost need not
// be found lost again. What is being settled will be told so by the answer.
func (h *Holdings) Lost(lost []broker.Held) {
	said := make(map[string]broker.Held, len(lost))
	for _, l := range lost {
		said[l.ID] = l
	}
	var gone []broker.Held
	h.mu.Lock()
	for x := h.first; x != nil; {
		next := x.next
		if l, ok := said[x.id]; ok && x.isStill(l) && !x.settling.Load() {
			h.unlink(x)
			gone = append(gone, l)
		}
		x = next
	}
	h.mu.Unlock()
	if len(gone) > 0 {
		h.lost(gone)
	}
}

// facts is what a transport learns of the holding.
func (x *holding) facts() broker.Held {
	return broker.Held{ID: x.id, Count: x.count, Moves: x.moves + 1, Settling: x.settling.Load()}
}

// isStill reports whether the holding is what it was when a transport learned of it.
func (x *holding) isStill(l broker.Held) bool {
	return x.count == l.Count && (l.Moves == 0 || l.Moves == x.moves+1)
}
