package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// settleTime is how long after its handler has returned a delivery may still be in hand: its settlement is on the wire.
// On a machine that is busy with several workers that may take a while.
const settleTime = time.Second

// verdict compares what the messages of a mount asked for with what was called and with what stands on the server.
type verdict struct {
	mount mount
	jobs  []job
	// calls are those of this mount.
	calls  []*call
	ledger *ledger
	// inHand tells whether a delivery was in hand when its process came to harm.
	inHand func(*call) bool

	faults []string
	// What was seen, for the report.
	reruns, copies, letters int
}

// shownFaults is how many faults a report spells out.
const shownFaults = 20

func (v *verdict) fault(format string, args ...any) {
	v.faults = append(v.faults, fmt.Sprintf(format, args...))
}

// judge fills in what is wrong.
func (v *verdict) judge() {
	byKey := map[string]map[int][]*call{}
	for _, c := range v.calls {
		if byKey[c.key] == nil {
			byKey[c.key] = map[int][]*call{}
		}
		byKey[c.key][c.attempt] = append(byKey[c.key][c.attempt], c)
	}
	for _, attempts := range byKey {
		for _, calls := range attempts {
			// Each owner saw one loss more than the one before. When their handlers began says less: a process that stood
			// still may begin with what it was given long ago.
			slices.SortFunc(calls, func(a, b *call) int {
				return cmp.Or(cmp.Compare(a.losses, b.losses), a.began.Compare(b.began))
			})
		}
	}
	for _, j := range v.jobs {
		v.judgeJob(j, byKey[j.Key])
	}
	if n := v.ledger.pending; n != 0 {
		v.fault("XPENDING %s: %d entries in the end", v.mount.Stream, n)
	}
	if n := v.ledger.delayed; n != 0 {
		v.fault("ZCARD %s: %d members in the end", v.mount.DelaySet, n)
	}
}

func (v *verdict) judgeJob(j job, calls map[int][]*call) {
	attempts, buried := j.course(v.mount.MaxAttempts)
	for attempt := range calls {
		if attempt > attempts || attempt < 1 {
			v.fault("%s: called at attempt %d of %d: %v", j.Key, attempt, attempts, calls[attempt][0])
		}
	}
	for attempt := 1; attempt <= attempts; attempt++ {
		if len(calls[attempt]) == 0 {
			v.fault("%s: lost: attempt %d of %d was never made", j.Key, attempt, attempts)
			continue
		}
		v.judgeReruns(calls[attempt])
		v.judgeDelay(j.at(attempt), calls[attempt], calls[attempt+1])
	}
	copies := v.ledger.copies[j.Key]
	for count, authors := range copies {
		if count >= attempts {
			v.fault("%s: %d copies with retry-count %d, and it asked for %d attempts", j.Key, len(authors), count, attempts)
		}
	}
	for count := range attempts {
		v.judgeCopies(j, count, copies[count], calls[count])
	}
	v.judgeLetters(j, attempts, buried, calls[attempts])
}

// judgeReruns: a delivery that is run again was in hand when its process came to harm, and has one more loss to show.
func (v *verdict) judgeReruns(calls []*call) {
	for i, c := range calls[:len(calls)-1] {
		next := calls[i+1]
		v.reruns++
		if !v.inHand(c) {
			v.fault("run again without a reason: %v, then %v", c, next)
		}
		if next.losses <= c.losses {
			v.fault("run again without a loss: %v, then %v", c, next)
		}
	}
}

// judgeDelay: a durable delay is never cut short.
func (v *verdict) judgeDelay(s step, calls, next []*call) {
	if v.mount.DelaySet == "" || s.Do != endRetryAfter || len(next) == 0 {
		return
	}
	last := calls[len(calls)-1]
	// The server knows milliseconds.
	if gap := next[0].began.Sub(last.ended); gap < s.After-time.Millisecond {
		v.fault("a delay of %s took %s: %v, then %v", s.After, gap, last, next[0])
	}
}

// judgeCopies: there is one copy for each attempt that asked for one, and the last owner of that attempt is who asked.
func (v *verdict) judgeCopies(j job, count int, authors []string, calls []*call) {
	least := 1
	if count > 0 {
		v.copies += len(authors)
		kept := v.mount.Claim > 0
		// What waited in the memory of a killed process is taken up from the original entry.
		parked := v.mount.DelaySet == "" && j.at(count).Do != endRetry
		if kept || parked {
			least = 0
		}
	}
	if len(authors) < least || len(authors) > 1 {
		v.fault("%s: %d copies with retry-count %d: %q", j.Key, len(authors), count, authors)
	}
	if count > 0 && len(authors) == 1 && len(calls) > 0 {
		if last := calls[len(calls)-1]; last.signature() != authors[0] {
			v.fault("%s: the copy with retry-count %d was written %s, and the entry belonged to %v", j.Key, count, authors[0], last)
		}
	}
}

func (v *verdict) judgeLetters(j job, attempts int, buried bool, calls []*call) {
	letters := v.ledger.letters[j.Key]
	v.letters += len(letters)
	if !buried {
		if len(letters) > 0 {
			v.fault("%s: a dead letter that nobody asked for: %+v", j.Key, letters)
		}
		return
	}
	if len(letters) != 1 {
		v.fault("%s: %d dead letters: %+v", j.Key, len(letters), letters)
		return
	}
	l := letters[0]
	if l.reason != broker.ReasonMaxAttempts || l.attempts != strconv.Itoa(attempts) || l.messageID != j.Key {
		v.fault("%s: the dead letter is %+v", j.Key, l)
	}
	if len(calls) > 0 && calls[len(calls)-1].signature() != l.by {
		v.fault("%s: buried %s, and the entry belonged to %v", j.Key, l.by, calls[len(calls)-1])
	}
}

// callsOf returns the calls of one mount, in the order they began.
func callsOf(calls []*call, m mount) []*call {
	var own []*call
	for _, c := range calls {
		if c.mount == m.Stream {
			own = append(own, c)
		}
	}
	slices.SortFunc(own, func(a, b *call) int {
		return cmp.Or(a.began.Compare(b.began), cmp.Compare(a.worker, b.worker), cmp.Compare(a.n, b.n))
	})
	return own
}
