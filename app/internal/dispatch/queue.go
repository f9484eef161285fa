package dispatch

import (
	"slices"
	"sync"

	"github.com/millrace-go/millrace/broker"
)

// maxWaiting is how many messages may wait for a slot of their task before reading pauses: a group has one order, and what
// is behind them in the stream is read after them.
const maxWaiting = 1000

// queue is where the messages of a task wait in the order in which they were read, where several tasks share a group and
// each has slots of its own. Safe for concurrent use.
type queue struct {
	mu      sync.Mutex
	running int
	waiting []*item
}

// shared is the route where several of them share the slots, and nil where one has them all.
func (e *Engine) shared(rt *route) *route {
	if e.byTask == nil {
		return nil
	}
	return rt
}

// find notes whose message it is. One whose task nobody here knows is put off, and settled under the policy of the first
// mount that has a dead letter; so is one whose task cannot be read.
func (e *Engine) find(it *item) {
	d := it.delivery
	it.route, it.unknown = e.routes[0], d.Newer
	if e.byTask != nil {
		task, _ := d.Header(broker.HeaderTask)
		if it.route = e.byTask[task]; it.route == nil {
			it.route, it.unknown = e.fallback, true
		}
	}
	it.counters = count(d, e.caps.PacksFailures)
}

// admit reports whether a message may go on to a worker: it has a slot of its route, or needs none. Otherwise it waits, and
// one that an owner has been charged with before waits uncharged: the server gets the delivery count back that it had
// before the hand-out. Only new ones are charged with an owner that dies while they wait, which is once.
func (e *Engine) admit(it *item) bool {
	if it.unknown || it.delivery.Fault != nil {
		return true
	}
	charged := it.counters.losses > 0 || !e.caps.PacksFailures && it.delivery.Count > 1
	if it.route.enter(it, charged) {
		return true
	}
	e.room.waiting.Add(1)
	if charged {
		e.recount(it, it.delivery.Count, max(it.delivery.Count-1, 0))
	}
	return false
}

// next is what a slot goes on with when it is done with a delivery of the route: the one that has waited longest for that,
// or nil. One that waits uncharged is charged first, and comes back by itself.
func (e *Engine) next(left *route) *item {
	if left == nil {
		return nil
	}
	it, recalled := left.leave()
	switch {
	case recalled:
		e.recall([]*item{it})
		return nil
	case it != nil:
		e.room.running.Add(1)
		e.room.waiting.Add(-1)
	}
	return it
}

// giveUp passes on the slot that a message had, or was to have, which is somebody else's by now.
func (e *Engine) giveUp(it *item) {
	rt := e.shared(it.route)
	if rt == nil || rt.forget(it) {
		return
	}
	if next := e.next(rt); next != nil {
		e.inbox.put(next)
	}
}

// enter reports whether the message has a slot now. Otherwise it waits for leave to return it.
func (q *queue) enter(it *item, charged bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	// Nothing overtakes those that wait.
	if q.running < it.route.Concurrency {
		q.running++
		it.entered = true
		return true
	}
	it.forRoute = true
	if charged {
		it.place = leaving
	}
	q.waiting = append(q.waiting, it)
	return false
}

// leave gives the slot of a message that is over to the one that has waited longest. recalled: it has to be charged before
// it starts.
func (q *queue) leave() (it *item, recalled bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.running--
		return nil, false
	}
	it = q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	it.entered = true
	switch it.place {
	case aside:
		it.place = returning
		return it, true
	case leaving:
		return nil, false // It comes back as soon as it is aside.
	}
	return it, false
}

// left notes that the message is aside, and reports whether a slot waits for it already.
func (q *queue) left(it *item) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	it.place = aside
	if it.entered {
		it.place = returning
	}
	return it.entered
}

// forget takes a message out that waits, and reports whether it was without a slot.
func (q *queue) forget(it *item) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, it); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return !it.entered
}

// drain takes out all that wait.
func (q *queue) drain() []*item {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.waiting
	q.waiting = nil
	return all
}
