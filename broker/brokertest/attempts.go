package brokertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
)

// Attempts shows that MaxAttempts(n) is n calls of the handler wherever the delay between them is kept, and that the
// dead letter says so (contract §5). It needs nothing but streams.
func Attempts(t *testing.T, target Target) { attemptsArea.run(t, target) }

var attemptsArea = area{name: "Attempts", bodies: []body{
	{name: "MaxAttemptsIsTheNumberOfCalls", run: callsUpToTheCap, paused: true},
}}

// callsUpToTheCap: not one call more for the first delivery, and not one less because a server counts from one.
func callsUpToTheCap(t *testing.T, target Target) {
	s := newService(target)
	all := inEveryMode(s, []int{1, 2, 5}, func(c variant[int]) {
		c.answer = always(outcome.RetryAfter(50 * time.Millisecond))
		c.mount(app.MaxAttempts(c.is), app.DeadLetter(c.deadLetter))
	})
	s.playOut(t, payload)
	for _, c := range all {
		sawAttempts(t, c.name, c.seen(), c.is)
		want := 1
		if c.copies() {
			want = c.is
		}
		if n := len(c.source(t)); n != want {
			t.Errorf("%s: XLEN of the source is %d, want %d", c.name, n, want)
		}
		letters := c.letters(t)
		if len(letters) != 1 {
			t.Errorf("%s: %d dead letters", c.name, len(letters))
			continue
		}
		failures := fmt.Sprint(c.is)
		if got := letters[0]; got.header(broker.HeaderRetryCount) != failures || got.last(broker.FieldAttempts) != failures {
			t.Errorf("%s: the dead letter has retry-count %q and dlq_attempts %q", c.name,
				got.header(broker.HeaderRetryCount), got.last(broker.FieldAttempts))
		}
	}
}
