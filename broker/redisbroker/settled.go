package redisbroker

import (
	"maps"
	"slices"
)

// settled numbers the settlements, so that one that is sent again, or comes late, is carried out once: it names its item
// by value, and there may be an equal one. It belongs to the goroutine that settles.
type settled struct {
	last uint64
	// doubts are the numbers of those whose answer was lost.
	doubts map[*flown]uint64
}

// number returns the number of a settlement. One whose answer was lost keeps it.
func (s *settled) number(x *flown) uint64 {
	if n, ok := s.doubts[x]; ok {
		return n
	}
	s.last++
	return s.last
}

// floor is up to which number every settlement has been answered.
func (s *settled) floor() uint64 {
	if len(s.doubts) == 0 {
		return s.last
	}
	return slices.Min(slices.Collect(maps.Values(s.doubts))) - 1
}

// answered notes that the fate of a settlement is known, and doubted that it is not.
func (s *settled) answered(x *flown) { delete(s.doubts, x) }

func (s *settled) doubted(x *flown, number uint64) {
	if s.doubts == nil {
		s.doubts = make(map[*flown]uint64)
	}
	s.doubts[x] = number
}
