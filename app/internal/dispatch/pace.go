package dispatch

import "time"

// Adaptive as [Config.Prefetch] reads ahead what the slots finish within aheadFor.
const Adaptive = -1

const (
	// aheadFor is how long the slots are to be kept busy by what was read ahead, and maxAhead how much that is at most.
	aheadFor = 5 * time.Millisecond
	maxAhead = 1000
)

// pace tells how much work the slots get done, from how long their last deliveries took and how long those that run have
// been running: slots that are suddenly slow are not read ahead for.
type pace struct{ slots []slot }

// ahead is how many entries the slots finish within aheadFor; none until each slot that works has finished one.
func (p *pace) ahead() int64 {
	const part = 1 << 10 // of an entry, because many slow slots finish one together
	now, ahead := elapsed(), int64(0)
	for i := range p.slots {
		s := &p.slots[i]
		took, began := s.took.Load(), s.began.Load()
		switch {
		case took == 0 && began == 0:
			continue // it has had nothing to do yet
		case took == 0:
			return 0
		case began != 0:
			took = max(took, now-began)
		}
		// Each at its own pace: one that has just lost its processor, or is slow, takes nothing from what the others finish.
		ahead += (int64(aheadFor)*part + took - 1) / took
	}
	return min(ahead/part, maxAhead)
}

// measure notes how long a delivery took. The newest counts for an eighth, so that one that is slow now and then does not
// change everything. Less than a nanosecond, which a paused clock shows, is one.
func (s *slot) measure(took int64) {
	took = max(took, 1)
	if before := s.took.Load(); before > 0 {
		took = max(before+(took-before)/8, 1)
	}
	s.took.Store(took)
}

// start is when the process began to count, elapsed how many nanoseconds that is ago, and never 0.
var start = time.Now()

func elapsed() int64 { return int64(time.Since(start)) + 1 }
