package brokertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
)

// MaxAttempts(n) is n calls, wherever the delay between them is kept: not one more for the first delivery, and not one
// less because a server counts from one.
func TestMaxAttemptsIsTheNumberOfCalls(t *testing.T) {
	each(t, callsUpToTheCap)
}

func TestMaxAttemptsIsTheNumberOfCallsOnThePausedClock(t *testing.T) {
	paused(t, callsUpToTheCap)
}

func callsUpToTheCap(t *testing.T, target Target) {
	type one struct {
		mode
		keys
		n int
		r *recorder
	}
	s := newService(target)
	var all []one
	for _, m := range modes {
		for _, n := range []int{1, 2, 5} {
			c := one{m, uniqueKeys(), n, &recorder{answer: always(outcome.RetryAfter(50 * time.Millisecond))}}
			s.mount(m.spec(c.keys), c.r, app.MaxAttempts(n), app.DeadLetter(c.deadLetter))
			all = append(all, c)
		}
	}
	s.start(t)
	for _, c := range all {
		s.publish(t, c.stream, payload)
	}
	for _, c := range all {
		awaitRest(t, target, c.keys)
	}
	s.stop(t)
	for _, c := range all {
		what := fmt.Sprintf("%s, MaxAttempts(%d)", c.name, c.n)
		sawAttempts(t, what, c.r.seen(), c.n)
		want := 1
		if c.copies() {
			want = c.n
		}
		if n := len(mustEntries(t, target, c.stream)); n != want {
			t.Errorf("%s: XLEN of the source is %d, want %d", what, n, want)
		}
		letters := mustEntries(t, target, c.deadLetter)
		if len(letters) != 1 {
			t.Errorf("%s: %d dead letters", what, len(letters))
			continue
		}
		failures := fmt.Sprint(c.n)
		if got := letters[0]; got.header(broker.HeaderRetryCount) != failures || got.last(broker.FieldAttempts) != failures {
			t.Errorf("%s: the dead letter has retry-count %q and dlq_attempts %q", what,
				got.header(broker.HeaderRetryCount), got.last(broker.FieldAttempts))
		}
	}
}
