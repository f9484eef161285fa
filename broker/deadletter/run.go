package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// run is one call of Replay or Purge: it takes what the filter lets through page by page, and does step with it.
type run struct {
	queue  *Queue
	plan   *plan
	filter Filter
	step   func(ctx context.Context, walk broker.LetterWalk, letters []*broker.Letter) error
	pace   pace
	report Report
}

// stepTime is how long a step may go on after the end of its context: it is not broken off, so that the report knows how
// it ended.
const stepTime = 30 * time.Second

func (r *run) do(ctx context.Context, filter Filter) (Report, error) {
	if err := r.plan.problem(); err != nil {
		return Report{}, fmt.Errorf("dead letter %q: %w: %w", r.queue.key, ErrInvalid, err)
	}
	r.filter = filter
	r.report.Cursor = r.plan.cursor
	if !r.plan.dryRun {
		r.pace.rate = r.plan.rate
	}
	for p, err := range r.queue.pages(ctx, filter, r.plan.cursor) {
		if err != nil {
			return r.stopped(ctx, err)
		}
		more, err := r.page(ctx, p)
		if err != nil {
			return r.stopped(ctx, err)
		}
		if !more {
			return r.report, nil
		}
	}
	r.report.Cursor = ""
	return r.report, nil
}

// stopped prefers what ended the call over what it led to.
func (r *run) stopped(ctx context.Context, err error) (Report, error) {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return r.report, err
}

// page does one page in steps, and reports whether there is more to do.
func (r *run) page(ctx context.Context, p *page) (bool, error) {
	letters := p.letters
	for len(letters) > 0 {
		n, matching := r.take(p, letters)
		if err := r.pace.wait(ctx, len(matching)); err != nil {
			return false, err
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if len(matching) > 0 {
			if err := r.walkStep(ctx, p.walk, matching); err != nil {
				return false, err
			}
		}
		r.report.Examined += n
		r.report.Matched += len(matching)
		r.report.Cursor = p.walk.Cursor(letters[n-1])
		if r.plan.progress != nil {
			r.plan.progress(r.report)
		}
		letters = letters[n:]
		if r.plan.max > 0 && r.report.Done >= r.plan.max {
			return false, nil
		}
	}
	return true, nil
}

// take takes records off the page until there are enough for one step, and returns how many it took and those that match.
func (r *run) take(p *page, letters []*broker.Letter) (n int, matching []*broker.Letter) {
	most := r.pace.step()
	if r.plan.max > 0 {
		most = min(most, r.plan.max-r.report.Done)
	}
	for n < len(letters) && len(matching) < most {
		if p.matches(newRecord(letters[n])) {
			matching = append(matching, letters[n])
		}
		n++
	}
	return n, matching
}

// walkStep does one step to its end.
func (r *run) walkStep(ctx context.Context, walk broker.LetterWalk, letters []*broker.Letter) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTime)
	defer cancel()
	return r.step(ctx, walk, letters)
}

// pace spreads records evenly over time.
type pace struct {
	rate float64
	// next is when the next record may go.
	next time.Time
}

// longestStep is how many records one step takes at most, and stepsPerSecond how smooth a rate is.
const (
	longestStep    = 256
	stepsPerSecond = 50
	// credit is how much of a delay may be made up for: a server that stood still is not flooded afterwards.
	credit = 200 * time.Millisecond
)

// step is how many records one step may take.
func (p *pace) step() int {
	if p.rate <= 0 {
		return longestStep
	}
	return int(min(max(p.rate/stepsPerSecond, 1), longestStep))
}

// wait waits until the next n records may go.
func (p *pace) wait(ctx context.Context, n int) error {
	if p.rate <= 0 || n == 0 {
		return nil
	}
	now := time.Now()
	switch earliest := now.Add(-credit); {
	case p.next.IsZero():
		p.next = now
	case p.next.Before(earliest):
		p.next = earliest
	}
	if d := p.next.Sub(now); d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.next = p.next.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	return nil
}
