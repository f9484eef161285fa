package dispatch

import (
	"sync"

	"github.com/millrace-go/millrace/broker"
)

// hands knows what a claiming source has in hand. Its reads take back whatever has been idle for long, the entries of
// slow handlers in this very process included: those must not run twice, and their settlement must carry the delivery
// count that the take gave them.
//
// An entry that others had in between is another matter: its old run has lost it. What comes back then is a hand-out of
// its own, which waits until the old run has returned. Safe for concurrent use.
type hands struct {
	mu sync.Mutex
	// items are the entries in hand. One that was acknowledged while a read was under way stays as nil until that read
	// has ended: the read may have taken it just before.
	items map[string]*item
	acked []string
	// lost are items whose settlement found another delivery count. If the read under way was what raised it, they are
	// settled again.
	lost   []*item
	closed bool
	// holdings has to know the new counts, too.
	holdings *Holdings
	// turn is told of an item whose old run has returned, or which is done with that. It is called without the lock.
	turn func(it *item, done bool)
}

func newHands(holdings *Holdings, turn func(it *item, done bool)) *hands {
	return &hands{items: make(map[string]*item), holdings: holdings, turn: turn}
}

// handOut is what a delivery is to what is in hand.
type handOut uint8

const (
	// fresh: nothing of the kind is in hand.
	fresh handOut = iota
	// again: the entry is in hand, and goes on with the new count.
	again
	// behind: the run that has it in hand lost it in between. It waits for the end of that run.
	behind
)

// take tells what the delivery is.
func (h *hands) take(it *item) handOut {
	h.mu.Lock()
	defer h.mu.Unlock()
	held, known := h.items[it.delivery.ID]
	switch {
	case !known:
		h.items[it.delivery.ID] = it
		return fresh
	case held == nil:
		return again
	case held.next != nil: // It has not begun, so that it may as well be this one.
		held.next.delivery = it.delivery
		h.holdings.recount(&held.next.holding, it.delivery.Count)
		return again
	case !held.parted && h.holdings.follows(&held.holding, it.delivery.Count):
		held.fence = it.delivery.Count
		h.holdings.recount(&held.holding, it.delivery.Count)
		return again
	}
	h.partFrom(held)
	held.next = it
	return behind
}

// partFrom notes that the item's entry is somebody else's.
func (h *hands) partFrom(it *item) {
	it.parted = true
	h.holdings.remove(&it.holding)
}

// refresh gives the settlement the newest known delivery count.
func (h *hands) refresh(it *item) {
	h.mu.Lock()
	fence := it.fence
	h.mu.Unlock()
	if fence > it.settlement.Delivery.Count {
		renewed := *it.settlement.Delivery
		renewed.Count = fence
		it.settlement.Delivery = &renewed
	}
}

// part notes items that are known to be somebody else's: should their entries come back they are new deliveries, and
// what the items' handlers answer is not settled with the count of those.
func (h *hands) part(ids map[string]bool) {
	h.mu.Lock()
	var over []*item
	for id := range ids {
		it := h.items[id]
		if it == nil {
			continue
		}
		h.partFrom(it)
		if it.next != nil {
			over = append(over, it.next)
			it.next = nil
		}
	}
	h.mu.Unlock()
	for _, it := range over {
		h.turn(it, true)
	}
}

// isParted reports whether the item's entry is known to be somebody else's.
func (h *hands) isParted(it *item) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return it.parted
}

// forget takes the item out, but not another one with the same entry, and returns the one that waited for it.
func (h *hands) forget(it *item) (next *item) {
	if h.items[it.delivery.ID] != it {
		return nil
	}
	delete(h.items, it.delivery.ID)
	if next = it.next; next != nil {
		it.next = nil
		h.items[it.delivery.ID] = next
	}
	return next
}

// settled forgets the item. What waited for it is done where the entry was acknowledged: nobody asks whose it was.
func (h *hands) settled(it *item) {
	done := it.settlement.Action == broker.Ack
	h.mu.Lock()
	next := h.forget(it)
	if done && next != nil {
		delete(h.items, it.delivery.ID)
	}
	if _, known := h.items[it.delivery.ID]; done && !known && !h.closed {
		h.items[it.delivery.ID] = nil
		h.acked = append(h.acked, it.delivery.ID)
	}
	h.mu.Unlock()
	if next != nil {
		h.turn(next, done)
	}
}

// lose decides about an item whose settlement found another delivery count. again: the count is known by now, settle
// once more. final: somebody else has the entry. Neither: the end of the read under way will tell.
func (h *hands) lose(it *item) (again, final bool) {
	h.mu.Lock()
	var next *item
	switch {
	case it.fence > it.settlement.Delivery.Count:
		again = true
	case h.closed || it.parted:
		final = true
		next = h.forget(it)
	default:
		h.lost = append(h.lost, it)
	}
	h.mu.Unlock()
	if next != nil {
		h.turn(next, false)
	}
	return again, final
}

// readEnded is called when everything that a read brought has gone through take. It returns the items that were lost
// during the read: those to settle again and those that really are somebody else's.
func (h *hands) readEnded(last bool) (again, final []*item) {
	h.mu.Lock()
	h.closed = h.closed || last
	for _, id := range h.acked {
		if held, known := h.items[id]; known && held == nil {
			delete(h.items, id)
		}
	}
	h.acked = h.acked[:0]
	var turns []*item
	for _, it := range h.lost {
		if it.fence > it.settlement.Delivery.Count {
			again = append(again, it)
			continue
		}
		if next := h.forget(it); next != nil {
			turns = append(turns, next)
		}
		final = append(final, it)
	}
	clear(h.lost)
	h.lost = h.lost[:0]
	h.mu.Unlock()
	for _, it := range turns {
		h.turn(it, false)
	}
	return again, final
}

// drain takes out all that wait for an old run.
func (h *hands) drain() []*item {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*item
	for _, it := range h.items {
		if it != nil && it.next != nil {
			all = append(all, it.next)
			it.next = nil
		}
	}
	return all
}
