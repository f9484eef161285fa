package dispatch

import (
	"sync/atomic"

	"github.com/millrace-go/millrace/broker"
)

// backlog is how many deliveries, above the handler slots and what is read ahead of them, may have ended and still wait for
// their settlement. It keeps the slots busy while acks are on the wire, and stops reading where the server takes no writes.
const backlog = 128

// maxAside is how many suspects may wait for their turn, above as many as there are slots, before reading pauses.
const maxAside = 100

// room counts what is in hand, so that the reader never takes more than has a place. Its methods are safe for
// concurrent use.
type room struct {
	slots, maxParked int64
	// ahead is how many new entries may wait for a slot. It belongs to the reader where pace sets it.
	ahead int64
	// parks: delays are kept in memory, so whatever is in hand may come to be parked.
	parks bool

	// running were handed to a worker, settling ended and wait for their settlement, parked wait for their time or for
	// the copy that ends it, aside are suspects that wait for their turn.
	running, settling, parked, aside atomic.Int64
	// waiting wait for a slot of their task.
	waiting atomic.Int64

	// troubled: the server takes no settlements, so that nothing is read ahead.
	troubled atomic.Bool

	// wake tells the reader that there may be room again. One token is enough: the reader counts anew.
	wake chan struct{}
}

func newRoom(slots, ahead, maxParked int, parks bool) *room {
	return &room{
		slots: int64(slots), ahead: int64(ahead), maxParked: int64(maxParked), parks: parks, wake: make(chan struct{}, 1),
	}
}

// free is how many more deliveries have a place: new ones may wait for a slot where reading ahead is on, others may not.
func (r *room) free() broker.Want {
	running, settling, aside, waiting := r.running.Load(), r.settling.Load(), r.aside.Load(), r.waiting.Load()
	ahead := r.ahead
	if r.troubled.Load() {
		ahead = 0
	}
	n := min(r.slots+ahead-running, r.slots+2*ahead+backlog-running-settling, maxWaiting-waiting)
	if aside >= r.slots+maxAside {
		n = 0 // Fewer do not bound a read: hardly anything that is new is a suspect.
	}
	if r.parks {
		n = min(n, r.maxParked-r.parked.Load()-running-aside-waiting)
	}
	// What waits aside runs before more of its kind is taken: a peer may have a slot for that.
	return broker.Want{New: int(max(n, 0)), Back: int(max(min(n, r.slots-running-aside), 0)), Freed: r.wake}
}

// readsAhead reports whether every slot is taken and more may be read all the same.
func (r *room) readsAhead() bool { return r.ahead > 0 && r.running.Load() >= r.slots }

// crowded reports whether messages that wait for a slot of their task are what leaves no room.
func (r *room) crowded() bool { return r.waiting.Load() >= maxWaiting }

// full reports whether parked messages are what leaves no room.
func (r *room) full() bool { return r.parks && r.parked.Load() >= r.maxParked }

// left takes one delivery off a counter and tells the reader.
func (r *room) left(counter *atomic.Int64) {
	counter.Add(-1)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
