package brokertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
)

// Handover shows that a process that is told to stop hands back what it has in hand, running and waiting for a delay;
// the next one takes it with the attempts as they were, and nothing is lost (contract §10). It needs nothing but
// streams.
func Handover(t *testing.T, target Target) { handoverArea.run(t, target) }

var handoverArea = area{name: "Handover", bodies: []body{
	{name: "AStoppedProcessHandsItsWorkOver", run: stoppedBefore, paused: true},
	{name: "AStoppedProcessHandsItsWorkToAnotherThatRuns", run: rolling, paused: true},
}}

func stoppedBefore(t *testing.T, target Target) { handover(t, target, false) }

// rolling: in a rolling deployment the next process is there already.
func rolling(t *testing.T, target Target) { handover(t, target, true) }

const (
	// handoverDelay is long enough that nothing is due before the first process has stopped, handoverClaim that nothing
	// is taken from it while it runs.
	handoverDelay = 3 * time.Second
	handoverClaim = 3 * time.Second

	parkedMessages, runningMessages, waitingMessages = 10, 3, 20

	// freeConsumer owns what a stopping process hands back.
	freeConsumer = "~free"
)

// relay is one mode with the handlers of both processes.
type relay struct {
	mode
	keys
	first, second *recorder
}

func handover(t *testing.T, target Target, rolling bool) {
	var relays []*relay
	first, second := newService(target, app.Grace(50*time.Millisecond)), newService(target)
	for _, m := range modes {
		r := &relay{m, uniqueKeys(), &recorder{answer: untilStopped}, &recorder{answer: acks}}
		spec := m.spec(r.keys)
		if m.claims {
			spec.Claim = handoverClaim
		}
		first.mount(spec, r.first, app.Concurrency(runningMessages), app.Prefetch(0))
		second.mount(spec, r.second)
		relays = append(relays, r)
	}
	first.start(t)
	for _, r := range relays {
		r.publish(t, first, "parked", parkedMessages)
	}
	for _, r := range relays {
		await(t, r.name+": the messages wait for their delay", func(ctx context.Context) bool { return r.kept(ctx, target) == parkedMessages })
		r.publish(t, first, "running", runningMessages)
	}
	for _, r := range relays {
		await(t, r.name+": all handlers run", func(context.Context) bool { return r.first.count() == parkedMessages+runningMessages })
		r.publish(t, first, "waiting", waitingMessages)
	}
	if rolling {
		second.start(t)
		first.stop(t)
	} else {
		first.stop(t)
		for _, r := range relays {
			r.checkFree(t, target)
		}
		second.start(t)
	}
	since := time.Now()
	for _, r := range relays {
		awaitRest(t, target, r.keys)
	}
	second.stop(t)
	for _, r := range relays {
		r.check(t, target, since)
	}
}

// untilStopped asks for a delay where the message is one of those, and runs until the grace time is over otherwise.
func untilStopped(ctx context.Context, _ int, c call) outcome.HandlerOutcome {
	if strings.HasPrefix(c.payload, "parked") {
		return outcome.RetryAfter(handoverDelay)
	}
	<-ctx.Done()
	return outcome.Of(context.Cause(ctx))
}

func (r *relay) publish(t testing.TB, s *service, kind string, n int) {
	t.Helper()
	for i := range n {
		s.publish(t, r.stream, fmt.Appendf(nil, "%s %d", kind, i))
	}
}

// kept counts the messages that wait for their delay, wherever this mode keeps them.
func (r *relay) kept(ctx context.Context, target Target) int {
	if r.set {
		return int(target.Client.ZCard(ctx, r.delaySet).Val())
	}
	p, err := pending(ctx, target, r.keys)
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range p {
		// Claiming leaves Redis's own count of one hand-out; what tells a kept entry from a running one is that its
		// handler has returned.
		if e.RetryCount == 1000 || r.claims && r.returned() == parkedMessages {
			n++
		}
	}
	return n
}

func (r *relay) returned() int {
	n := 0
	for _, c := range r.first.seen() {
		if !c.ended.IsZero() {
			n++
		}
	}
	return n
}

// checkFree looks at the group between the two processes: nobody owns anything but the consumer from which anyone takes,
// no run that was cut off is counted, and each failure is.
func (r *relay) checkFree(t testing.TB, target Target) {
	t.Helper()
	p, err := pending(t.Context(), target, r.keys)
	if err != nil {
		t.Fatal(err)
	}
	consumers, err := target.Client.XInfoConsumers(t.Context(), r.stream, r.group).Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(consumers) != 1 || consumers[0].Name != freeConsumer {
		t.Errorf("%s: the consumers are %+v, want only %s", r.name, consumers, freeConsumer)
	}
	counts, kept := map[int64]int{}, map[int64]int{}
	for _, e := range p {
		counts[e.RetryCount]++
		if e.Consumer != freeConsumer {
			t.Errorf("%s: entry %s belongs to %s", r.name, e.ID, e.Consumer)
		}
	}
	switch {
	case r.set:
		if n := target.Client.ZCard(t.Context(), r.delaySet).Val(); n != parkedMessages {
			t.Errorf("%s: ZCARD of the delay set is %d, want %d", r.name, n, parkedMessages)
		}
	case r.claims:
		kept[1] = parkedMessages
	default:
		kept[1000] = parkedMessages
	}
	kept[0] = runningMessages // nothing is read once the stop has begun
	if fmt.Sprint(counts) != fmt.Sprint(kept) {
		t.Errorf("%s: the delivery counts are %v, want %v", r.name, counts, kept)
	}
}

// check compares what the two processes saw, once nothing is left.
func (r *relay) check(t testing.TB, target Target, since time.Time) {
	t.Helper()
	firsts := r.first.byMessage()
	seen := map[string]int{}
	for id, calls := range r.second.byMessage() {
		c := calls[0]
		kind, _, _ := strings.Cut(c.payload, " ")
		seen[kind]++
		if len(calls) != 1 {
			t.Errorf("%s: %q was handled %d times by the second process", r.name, c.payload, len(calls))
		}
		attempt := 1
		if kind == "parked" {
			attempt = 2
		}
		if c.message.Attempt != attempt || c.message.Losses != 0 {
			t.Errorf("%s: %q came with attempt %d and losses %d, want %d and 0", r.name, c.payload, c.message.Attempt, c.message.Losses, attempt)
		}
		switch {
		case kind == "parked":
			// Idle time is counted in whole milliseconds.
			if gap := c.began.Sub(firsts[id][0].ended); gap < handoverDelay-time.Millisecond {
				t.Errorf("%s: %q came back after %s, want %s", r.name, c.payload, gap, handoverDelay)
			}
		case kind == "running" && !underRace:
			if late := c.began.Sub(since); late > 3*time.Second {
				t.Errorf("%s: %q was taken %s after it was free", r.name, c.payload, late)
			}
		}
	}
	want := map[string]int{"parked": parkedMessages, "running": runningMessages, "waiting": waitingMessages}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("%s: the second process was given %v, want %v", r.name, seen, want)
	}
	if n := r.first.count(); n != parkedMessages+runningMessages {
		t.Errorf("%s: the first process ran %d handlers, want %d", r.name, n, parkedMessages+runningMessages)
	}
	copies := 0
	if r.set {
		copies = parkedMessages
	}
	all := parkedMessages + runningMessages + waitingMessages + copies
	if n := len(mustEntries(t, target, r.stream)); n != all {
		t.Errorf("%s: XLEN of the source is %d, want %d", r.name, n, all)
	}
}
