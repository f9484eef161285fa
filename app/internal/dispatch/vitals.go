package dispatch

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// boundMargin is what a round may take above two blocks of a read.
const boundMargin = 5 * time.Second

// Vitals are what the health of one subscription is told from: when each of its loops last had its way with the server.
// It is bookkeeping alone and asks the server nothing. Safe for concurrent use.
type Vitals struct {
	bound time.Duration

	mu     sync.Mutex // guards pulses; not held over I/O
	pulses []*pulse
}

// NewVitals returns the vitals of a subscription whose reads wait for so long at most.
func NewVitals(block time.Duration) *Vitals {
	return &Vitals{bound: 2*min(block, maxDelay/4) + boundMargin}
}

// Bound is how long a round may be overdue.
func (v *Vitals) Bound() time.Duration { return v.bound }

// Pulse is a [broker.Pulses].
func (v *Vitals) Pulse(check broker.Check, every time.Duration) broker.Pulse {
	return v.pulse(check, every).round
}

func (v *Vitals) pulse(check broker.Check, every time.Duration) *pulse {
	p := &pulse{check: check, every: every, origin: time.Now()}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pulses = append(v.pulses, p)
	return p
}

// begin counts from now: until the loops run nothing is overdue.
func (v *Vitals) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range v.pulses {
		p.round(nil)
	}
}

// Overdue is a check that is bad.
type Overdue struct {
	Check broker.Check
	// Since is when it last succeeded; of outcomes, when the first one failed that has not been written since.
	Since time.Time
	// Err is what the last round ended in, nil where none has ended.
	Err error
}

// Overdue returns what no longer succeeds, the longest first.
func (v *Vitals) Overdue() []Overdue {
	v.mu.Lock()
	pulses := slices.Clone(v.pulses)
	v.mu.Unlock()
	var all []Overdue
	for _, p := range pulses {
		if o, overdue := p.overdue(v.bound); overdue {
			all = append(all, o)
		}
	}
	slices.SortStableFunc(all, func(a, b Overdue) int { return a.Since.Compare(b.Since) })
	return all
}

// pulse is when one loop last succeeded.
type pulse struct {
	check  broker.Check
	every  time.Duration
	origin time.Time
	// last is when a round last succeeded, in nanoseconds since origin.
	last atomic.Int64
	// resting: nothing is to be done, so that nothing can be overdue.
	resting atomic.Bool
	// failing: err is set.
	failing atomic.Bool

	mu  sync.Mutex // guards err
	err error
}

// round takes how a round went.
func (p *pulse) round(err error) {
	if err == nil {
		p.last.Store(int64(time.Since(p.origin)))
		if !p.failing.Load() {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	p.failing.Store(err != nil)
}

// rest says that the loop has nothing to do, through no fault of the server.
func (p *pulse) rest() { p.resting.Store(true) }

// resume says that the loop goes on.
func (p *pulse) resume() {
	if p.resting.Load() {
		p.last.Store(int64(time.Since(p.origin)))
		p.resting.Store(false)
	}
}

func (p *pulse) overdue(bound time.Duration) (o Overdue, overdue bool) {
	last := time.Duration(p.last.Load())
	if p.resting.Load() || time.Since(p.origin)-last < p.every+bound {
		return o, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return Overdue{Check: p.check, Since: p.origin.Add(last), Err: p.err}, true
}
