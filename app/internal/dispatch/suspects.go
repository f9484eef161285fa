package dispatch

import "sync"

// suspects are the entries in handler slots that outlived an owner. One of them may be what kills the processes; the
// others were only near it. An entry on its last permitted run therefore starts only when no other suspect runs: if the
// process dies, it was this one, and its neighbours are not charged. Safe for concurrent use.
type suspects struct {
	mu      sync.Mutex
	running int
	// waiting are entries on their last run, in order; each is let in by closing its channel.
	waiting []chan struct{}
}

// enter notes that a suspect starts. On its last run it waits until no other one runs; false says that stopping came
// first and it may not start.
func (s *suspects) enter(lastRun bool, stopping <-chan struct{}) bool {
	s.mu.Lock()
	if !lastRun || (s.running == 0 && len(s.waiting) == 0) {
		s.running++
		s.mu.Unlock()
		return true
	}
	turn := make(chan struct{})
	s.waiting = append(s.waiting, turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-stopping:
	}
	s.mu.Lock()
	for i, w := range s.waiting {
		if w == turn {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			s.mu.Unlock()
			return false
		}
	}
	s.mu.Unlock()
	s.leave() // The turn came all the same.
	return false
}

// leave notes that a suspect has returned, and lets the next one in.
func (s *suspects) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	if s.running == 0 && len(s.waiting) > 0 {
		s.running++
		close(s.waiting[0])
		s.waiting = s.waiting[1:]
	}
}
