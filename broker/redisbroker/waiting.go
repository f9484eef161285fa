package redisbroker

import (
	"sync"
	"time"

	"github.com/millrace-go/millrace/broker"
)

const (
	// patience is how long an entry that should have come back is asked for. The server counts idle time in whole
	// milliseconds, so that an entry may seem due here before it is there.
	patience = 5 * time.Millisecond
	// forgetAfter is when an entry that has not come back counts as taken by a peer.
	forgetAfter = time.Minute
)

// waitingRoom knows the entries that this process left pending, and when they will have been idle for the claim time.
// Safe for concurrent use.
type waitingRoom struct {
	claim time.Duration

	mu sync.Mutex // guards what follows; not held over I/O
	// due holds what has not come back; soon and late are the same entries in order, those that are due later and those
	// that should have come back by now. Entries that have come back are still in them, and skipped.
	due        map[string]time.Time
	soon, late []waitingEntry
}

type waitingEntry struct {
	id  string
	due time.Time
}

func newWaitingRoom(claim time.Duration) *waitingRoom {
	return &waitingRoom{claim: claim, due: make(map[string]time.Time)}
}

// leave notes that entries were left pending now.
func (w *waitingRoom) leave(ids []string) {
	due := time.Now().Add(w.claim)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		w.due[id] = due
		w.soon = append(w.soon, waitingEntry{id, due})
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

// appendIDs appends the ids of what is waiting: pending under this consumer and neither in hand nor unseen.
func (w *waitingRoom) appendIDs(args []any) []any {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.due {
		args = append(args, id)
	}
	return args
}

// next returns how long a read may block until the next entry is due, and claimPoll at most.
func (w *waitingRoom) next(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.late) > 0 && now.Sub(w.late[0].due) > forgetAfter {
		if w.due[w.late[0].id].Equal(w.late[0].due) {
			delete(w.due, w.late[0].id)
		}
		w.late = w.late[1:]
	}
	for len(w.soon) > 0 {
		e := w.soon[0]
		waits := w.due[e.id].Equal(e.due)
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
