package dispatch

import "github.com/millrace-go/millrace/broker"

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
		e.holdings.recount(&it.holding, it.settlement.Count)
	case broker.Vanished:
		// It was trimmed, and stays pending as it is. Its body is still here.
	default:
		e.log.Debug("an entry belongs to another consumer before its turn came", "id", it.delivery.ID)
		e.holdings.remove(&it.holding)
		if e.hands != nil {
			e.hands.settled(it)
		}
		e.recall(e.suspects.forget(it))
		e.room.left(&e.room.aside)
		return
	}
	if it.place == leaving {
		e.recall(e.suspects.left(it))
		return
	}
	e.room.running.Add(1)
	e.room.aside.Add(-1)
	e.recalled <- it
}

// handBackAside hands back what waits for its turn. Nothing else runs any more.
func (e *Engine) handBackAside() {
	for _, it := range e.suspects.drain() {
		e.handBack(it.delivery, false)
	}
	for _, rt := range e.routes {
		for _, it := range rt.drain() {
			e.handBack(it.delivery, false)
		}
	}
	for {
		select {
		case it := <-e.recalled:
			e.handBack(it.delivery, false)
		default:
			return
		}
	}
}
