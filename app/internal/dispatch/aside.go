package dispatch

import (
	"sync/atomic"

	"github.com/millrace-go/millrace/broker"
)

// standAside takes a suspect out of its slot until its turn comes. The server gets the delivery count back that it had
// before the hand-out: should this process die meanwhile, the entry has not been part of it.
func (e *Engine) standAside(it *item) {
	e.room.aside.Add(1)
	e.room.left(&e.room.running)
	e.recount(it, it.delivery.Count, max(it.delivery.Count-1, 0))
}

// recall begins to take suspects back whose turn has come.
func (e *Engine) recall(turns []*item) {
	for _, it := range turns {
		e.recount(it, e.holdings.count(&it.holding), it.delivery.Count)
	}
}

// recount has the server keep the entry with another delivery count.
func (e *Engine) recount(it *item, from, to int64) {
	e.holdings.move(&it.holding, to)
	d := *it.delivery
	d.Count = from
	it.settlement = broker.Settlement{Delivery: &d, Action: broker.Keep, Count: to}
	it.tries = 0
	e.settler.submit(it)
}

// recounted follows up what the server answered.
func (e *Engine) recounted(it *item) {
	switch it.settlement.Result {
	case broker.Done:
		e.holdings.kept(&it.holding, it.settlement.Count)
	case broker.Vanished:
		// It was trimmed, and stays pending as it is. Its body is still here.
		e.holdings.kept(&it.holding, it.settlement.Delivery.Count)
	default:
		e.log.Debug("an entry belongs to another consumer before its turn came", "id", it.delivery.ID)
		e.letGoFrom(it, e.where(it))
		e.giveUp(it)
		return
	}
	switch {
	case it.place == returning:
		e.takeTurn(it, e.where(it))
	case !it.forRoute:
		e.recall(e.suspects.left(it))
	case it.route.left(it):
		e.recall([]*item{it})
	}
}

// where is the counter of what waits as the item does.
func (e *Engine) where(it *item) *atomic.Int64 {
	if it.forRoute {
		return &e.room.waiting
	}
	return &e.room.aside
}

// standBehind has a hand-out wait for the end of the run that lost its entry before, and tells that run.
func (e *Engine) standBehind(it *item) {
	e.room.aside.Add(1)
	e.endRuns(func(running *item) bool { return running.delivery.ID == it.delivery.ID })
}

// turn gives what stood behind a run its slot. Where it is done there is nothing left to run: the entry was acknowledged,
// or belongs to others.
func (e *Engine) turn(it *item, done bool) {
	if done {
		e.holdings.remove(&it.holding)
		e.room.left(&e.room.aside)
		return
	}
	e.takeTurn(it, &e.room.aside)
}

// takeTurn gives the item to the next free slot. counter is the one of what waited as it did; the item is not to be looked at
// after it was sent.
func (e *Engine) takeTurn(it *item, counter *atomic.Int64) {
	e.room.running.Add(1)
	counter.Add(-1)
	e.inbox.put(it)
}

// letGo drops an item that is in a slot, has not begun, and belongs to others by now.
func (e *Engine) letGo(it *item) { e.letGoFrom(it, &e.room.running) }

func (e *Engine) letGoFrom(it *item, counter *atomic.Int64) {
	e.holdings.remove(&it.holding)
	if e.hands != nil {
		e.hands.settled(it)
	}
	e.recall(e.suspects.forget(it))
	e.room.left(counter)
}

// handBackAside hands back what waits for its turn. Nothing else runs any more. It comes after whatever was lost before.
func (e *Engine) handBackAside() {
	if e.hands != nil {
		for _, it := range e.hands.drain() {
			e.handBack(it.delivery, false)
		}
	}
	for _, it := range e.suspects.drain() {
		e.handBack(it.delivery, false)
	}
	for _, rt := range e.routes {
		for _, it := range rt.drain() {
			e.handBack(it.delivery, false)
		}
	}
	for _, it := range e.inbox.drain() {
		if it.taken != nil {
			e.handBackUntaken(it)
			continue
		}
		e.handBack(it.delivery, false)
	}
}
