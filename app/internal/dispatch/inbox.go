package dispatch

import "sync"

// inbox is where deliveries wait for a handler slot, first come, first served. It never blocks whoever puts one in: how many
// there are is bounded by room. Safe for concurrent use.
//
// Few slots are kept busy rather than many woken: one at a time is called out of its rest, the one that rested last, and calls
// the next itself while anything is left. Handlers that return at once are so served by a few slots that never rest, and
// those that block by as many slots as there are.
type inbox struct {
	mu sync.Mutex
	// items from head on wait.
	items []*item
	head  int
	// resting are slots that found nothing, the last one last; called: one of them is on its way.
	resting []*slot
	called  bool
	closed  bool
}

// put adds a delivery.
func (b *inbox) put(it *item) {
	b.mu.Lock()
	b.items = append(b.items, it)
	s := b.call()
	b.mu.Unlock()
	if s != nil {
		s.wake <- struct{}{}
	}
}

// call returns the slot to be woken, nil for none.
func (b *inbox) call() *slot {
	if b.called || len(b.resting) == 0 || b.head == len(b.items) {
		return nil
	}
	last := len(b.resting) - 1
	s := b.resting[last]
	b.resting = b.resting[:last]
	b.called = true
	return s
}

// take returns the delivery that has waited longest, and waits for one. ok is false when the inbox is closed and empty.
func (b *inbox) take(s *slot) (it *item, ok bool) {
	b.mu.Lock()
	for b.head == len(b.items) {
		if b.closed {
			b.mu.Unlock()
			return nil, false
		}
		b.resting = append(b.resting, s)
		b.mu.Unlock()
		<-s.wake
		b.mu.Lock()
		b.called = false
	}
	it = b.pop()
	next := b.call()
	b.mu.Unlock()
	if next != nil {
		next.wake <- struct{}{}
	}
	return it, true
}

func (b *inbox) pop() *item {
	it := b.items[b.head]
	b.items[b.head] = nil
	b.head++
	if b.head == len(b.items) {
		b.items, b.head = b.items[:0], 0
	} else if b.head > 64 && b.head > len(b.items)/2 { // or it would grow for ever while it is never empty
		n := copy(b.items, b.items[b.head:])
		clear(b.items[n:])
		b.items, b.head = b.items[:n], 0
	}
	return it
}

// close sends every slot home that finds nothing. What is put in later waits for drain.
func (b *inbox) close() {
	b.mu.Lock()
	resting := b.resting
	b.resting, b.closed = nil, true
	b.mu.Unlock()
	for _, s := range resting {
		s.wake <- struct{}{}
	}
}

// drain takes out all that wait.
func (b *inbox) drain() []*item {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.items[b.head:]
	b.items, b.head = nil, 0
	return all
}
