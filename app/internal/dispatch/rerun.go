package dispatch

import "github.com/millrace-go/millrace/broker"

// runAgain gives a parked message that is due to the next free slot. Where no copy may be made it runs again in the
// process that has it.
func (e *Engine) runAgain(p *parkedEntry) {
	d := *p.delivery
	d.Count = p.kept + 1
	it := &item{delivery: &d, taken: make(chan struct{})}
	it.settlement = broker.Settlement{
		Delivery: &broker.Delivery{ID: d.ID, Count: p.holding.count, HandedOut: p.handedOut},
		Action:   broker.Keep, Count: d.Count,
	}
	it.route = p.route
	e.holdings.replace(&p.holding, &it.holding, d.ID, p.holding.count)
	e.inbox.put(it)
}

// handBackUntaken notes what was to run again and has not been taken up.
func (e *Engine) handBackUntaken(it *item) {
	e.hold(broker.Held{ID: it.delivery.ID, Count: it.settlement.Delivery.Count, Delivery: it.delivery, Started: true})
}

// takeUp has the server note that the entry is in a handler again, as the hand-out of a read does by itself: if the
// process dies in this run, that is a loss. It reports whether the entry is still ours to run.
func (e *Engine) takeUp(it *item) bool {
	if e.isStopping() {
		e.handBackUntaken(it)
		return false
	}
	e.room.running.Add(1)
	e.unparked(it.route)
	e.settler.submit(it)
	<-it.taken
	it.taken = nil
	switch it.settlement.Result {
	case broker.Done:
		e.find(it)
		e.holdings.kept(&it.holding, it.delivery.Count)
		return true
	case broker.Vanished:
		// It was trimmed, and stays pending as it is: its body is still here, and so is what it has behind it.
		e.find(it)
		it.delivery.Count = it.settlement.Delivery.Count
		e.holdings.kept(&it.holding, it.delivery.Count)
		return true
	}
	e.room.left(&e.room.running)
	return false
}
