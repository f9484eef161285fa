package dispatch

import (
	"sync"

	"github.com/millrace-go/millrace/broker"
)

// hands knows what a claiming source has in hand. Its reads take back whatever has been idle for long, the entries of
// slow handlers in this very process included: those must not run twice, and their settlement must carry the delivery
// count that the take gave them. Safe for concurrent use.
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
}

func newHands(holdings *Holdings) *hands {
	return &hands{items: make(map[string]*item), holdings: holdings}
}

// take reports whether the delivery is new. One that is in hand is not: its item goes on with the new count.
func (h *hands) take(it *item) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	held, known := h.items[it.delivery.ID]
	if !known {
		h.items[it.delivery.ID] = it
		return true
	}
	if held != nil {
		held.fence = it.delivery.Count
		h.holdings.recount(&held.holding, it.delivery.Count)
	}
	return false
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

// part forgets items that are known to be somebody else's: should their entries come back they are new deliveries, and
// what the items' handlers answer is not settled with the count of those.
func (h *hands) part(ids map[string]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := range ids {
		if it := h.items[id]; it != nil {
			it.parted = true
			delete(h.items, id)
		}
	}
}

// forget takes the item out, but not another one with the same entry.
func (h *hands) forget(it *item) {
	if h.items[it.delivery.ID] == it {
		delete(h.items, it.delivery.ID)
	}
}

// settled forgets the item.
func (h *hands) settled(it *item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if it.settlement.Action != broker.Ack || h.closed || it.parted {
		h.forget(it)
		return
	}
	h.items[it.delivery.ID] = nil
	h.acked = append(h.acked, it.delivery.ID)
}

// lose decides about an item whose settlement found another delivery count. again: the count is known by now, settle
// once more. final: somebody else has the entry. Neither: the end of the read under way will tell.
func (h *hands) lose(it *item) (again, final bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case it.fence > it.settlement.Delivery.Count:
		return true, false
	case h.closed || it.parted:
		h.forget(it)
		return false, true
	}
	h.lost = append(h.lost, it)
	return false, false
}

// readEnded is called when everything that a read brought has gone through take. It returns the items that were lost
// during the read: those to settle again and those that really are somebody else's.
func (h *hands) readEnded(last bool) (again, final []*item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = h.closed || last
	for _, id := range h.acked {
		if held, known := h.items[id]; known && held == nil {
			delete(h.items, id)
		}
	}
	h.acked = h.acked[:0]
	for _, it := range h.lost {
		if it.fence > it.settlement.Delivery.Count {
			again = append(again, it)
			continue
		}
		h.forget(it)
		final = append(final, it)
	}
	clear(h.lost)
	h.lost = h.lost[:0]
	return again, final
}
