package dispatch

import (
	"slices"
	"sync"
)

// suspects are the entries that outlived an owner. One of them may be what kills the processes; the others were only
// near it. An entry on its last permitted run therefore runs without any other suspect beside it: if the process dies, it
// was this one, and its neighbours are not charged.
//
// Whoever may not start yet stands aside: it gives its slot back, and the server gets the delivery count that the entry
// had before it was handed out, so that a death meanwhile is none of its losses. When its turn comes the count is raised
// again, and then it runs. Safe for concurrent use.
type suspects struct {
	mu      sync.Mutex
	running int
	// alone: the one that runs is on its last permitted run.
	alone bool
	// held: a read is being looked at, and nobody's turn comes before the last of what it brought stands aside, too.
	held  bool
	queue []*item
}

// place is where an item is on its way aside and back.
type place uint8

const (
	inLine place = iota
	// leaving: its count is being taken back on the server.
	leaving
	// aside: nobody is charged with it.
	aside
	// returning: its turn has come, and its count is being raised again.
	returning
)

// waits tells that the settlement of the item is a step of its way aside and back.
func (it *item) waits() bool { return it.place != inLine }

// enter reports whether the suspect may start now. Otherwise it is queued, and leaving. One on its last run never starts at
// once: what came with it may be on its last run, too, and would be charged with its death before it has stood aside.
func (s *suspects) enter(it *item, lastRun bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	it.lastRun = lastRun
	// Those that wait go first, or a stream of others would keep one on its last run out for ever.
	if !lastRun && len(s.queue) == 0 && s.admits(it) {
		s.admit(it)
		return true
	}
	it.place = leaving
	s.queue = append(s.queue, it)
	return false
}

func (s *suspects) admits(it *item) bool { return s.running == 0 || !s.alone && !it.lastRun }

func (s *suspects) admit(it *item) {
	it.suspect = true
	s.running++
	s.alone = it.lastRun
}

// guarded reports whether one on its last run runs, or any waits for its turn.
func (s *suspects) guarded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running > 0 && s.alone || len(s.queue) > 0
}

// hold keeps everybody's turn off until resume. It comes before what a read brought enters.
func (s *suspects) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = true
}

// resume returns what leave does.
func (s *suspects) resume() []*item {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	return s.next()
}

// left notes that the item is aside, and returns what leave does.
func (s *suspects) left(it *item) []*item {
	s.mu.Lock()
	defer s.mu.Unlock()
	it.place = aside
	return s.next()
}

// leave notes that a suspect has returned from its run, and returns those that are aside and whose turn it is now.
func (s *suspects) leave(it *item) []*item {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end(it)
}

// forget takes out an item that is somebody else's by now, and returns what leave does.
func (s *suspects) forget(it *item) []*item {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.queue, it); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
		return s.next()
	}
	return s.end(it)
}

func (s *suspects) end(it *item) []*item {
	if !it.suspect {
		return nil
	}
	it.suspect = false
	s.running--
	return s.next()
}

// next takes those out of the queue whose turn it is, and nobody before everyone in it is aside.
func (s *suspects) next() []*item {
	if s.held {
		return nil
	}
	for _, it := range s.queue {
		if it.place == leaving {
			return nil
		}
	}
	var turns []*item
	for len(s.queue) > 0 && s.admits(s.queue[0]) {
		it := s.queue[0]
		s.queue = s.queue[1:]
		s.admit(it)
		it.place = returning
		turns = append(turns, it)
	}
	return turns
}

// drain takes out all that wait.
func (s *suspects) drain() []*item {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.queue
	s.queue = nil
	return all
}
