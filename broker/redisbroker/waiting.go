package redisbroker

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace-go/millrace/broker"
)

const (
	// patience is how long an entry that should have come back is asked for. The server counts idle time in whole
	// milliseconds, so that an entry may seem due here before it is there.
	patience = 5 * time.Millisecond
	// forgetAfter is when an entry that did not come back to a read with room for it counts as taken by a peer.
	forgetAfter = time.Minute
)

// waitingRoom knows the entries that this process left pending, and when they will have been idle for the claim time.
// Safe for concurrent use.
type waitingRoom struct {
	claim time.Duration

	mu sync.Mutex // guards what follows; not held over I/O
	// due holds what has not come back; soon and late are the same entries in order, those that are due later and those
	// that should have come back by now. Entries that have come back are still in them, and skipped.
	due        map[string]waitingEntry
	soon, late []waitingEntry
}

type waitingEntry struct {
	id  string
	due time.Time
	// count is the delivery count with which the entry was left. The server's being another one says that the entry came
	// back and the reply was lost.
	count int64
}

func newWaitingRoom(claim time.Duration) *waitingRoom {
	return &waitingRoom{claim: claim, due: make(map[string]waitingEntry)}
}

// leave notes that entries were left pending now.
func (w *waitingRoom) leave(kept []broker.Held) {
	due := time.Now().Add(w.claim)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range kept {
		e := waitingEntry{h.ID, due, h.Count}
		w.due[h.ID] = e
		w.soon = append(w.soon, e)
	}
}

// back forgets entries that this process was given again.
func (w *waitingRoom) back(deliveries []*broker.Delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.due) == 0 {
		return
	}
	for _, d := range deliveries {
		delete(w.due, d.ID)
	}
}

// entries returns what is waiting: pending under this consumer and neither in hand nor unseen.
func (w *waitingRoom) entries() []waitingEntry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.due))
}

// next returns how long a read may block until the next entry is due, and claimPoll at most.
func (w *waitingRoom) next(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.soon) > 0 {
		e := w.soon[0]
		waits := w.due[e.id] == e
		if waits && now.Sub(e.due) <= patience {
			return min(max(e.due.Sub(now), time.Millisecond), claimPoll)
		}
		if waits {
			w.late = append(w.late, e)
		}
		w.soon = w.soon[1:]
	}
	return claimPoll
}

// passed notes that a read which began then could have brought everything that was due. What was not among it is a peer's.
func (w *waitingRoom) passed(began time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.late) > 0 && began.Sub(w.late[0].due) > forgetAfter {
		if w.due[w.late[0].id] == w.late[0] {
			delete(w.due, w.late[0].id)
		}
		w.late = w.late[1:]
	}
}
