package brokertest

import (
	"math"
	"strconv"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// expectation is what has to come of a case.
type expectation struct {
	// calls is how often the handler runs; it sees the attempts 1, 2, … calls.
	calls int
	// copied: each failed attempt but the last one leaves a copy on the source stream.
	copied bool
	// retryCounts is the header on each entry of the source, "" for none.
	retryCounts []string
	// reason is that of the dead letter, "" where there is none; buried is its retry-count, 0 for none.
	reason string
	buried int
	// discarded is the why of a message that is gone.
	discarded string
	counted   counted
	// gaps are the least times from the end of each run to the begin of the next.
	gaps []time.Duration
}

func (s scenario) expect() expectation {
	e := expectation{calls: 1, counted: counted{}, retryCounts: []string{""}}
	if s.ending.fails {
		e.calls = min(s.caps.limit(), maxAttempts)
	}
	// A claiming subscription without a set for the delay leaves the entry where it is.
	stays := s.claims && s.ending.kept != inSet
	e.copied = !stays
	for i := 1; i < e.calls; i++ {
		wait := s.ending.wait(i)
		if stays {
			wait = max(wait, claimTime)
		} else {
			e.retryCounts = append(e.retryCounts, strconv.Itoa(i))
		}
		e.gaps = append(e.gaps, wait)
	}
	e.counted["deliveries "+s.ending.label] = int64(e.calls)
	switch {
	case s.ending.fails && s.caps.limit() == math.MaxInt:
		e.counted["deliveries "+s.ending.label]--
		e.counted["deliveries ack"]++
	case s.ending.fails && s.caps.letters:
		e.reason, e.buried = broker.ReasonMaxAttempts, e.calls
	case s.ending.fails:
		e.discarded = "cap"
	case s.ending.label == "dead_letter" && s.caps.letters:
		e.reason = broker.ReasonRejected
	case s.ending.label == "dead_letter":
		e.discarded = "rejected"
	case s.ending.label == "drop":
		e.discarded = "dropped"
	}
	if e.reason != "" {
		e.counted["dead_letters "+e.reason] = 1
	}
	if e.discarded != "" {
		e.counted["discarded "+e.discarded] = 1
	}
	return e
}
