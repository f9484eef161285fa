package brokertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/outcome"
)

// Delays shows that a delay in a delay set is never early and hardly late (contract §6). The time that it measures is
// the machine's as well, so that nothing else runs on the server meanwhile and one target of the process is measured at
// a time. It needs nothing but streams.
func Delays(t *testing.T, target Target) { delaysArea.run(t, target) }

var delaysArea = area{name: "Delays", bodies: []body{
	{name: "DelaysAreKeptToTheMoment", run: keptToTheMoment, paused: true, alone: true},
}}

// The delays that are measured, and how many messages ask for each.
var measuredDelays = []time.Duration{900 * time.Millisecond, 1500 * time.Millisecond}

const messagesPerDelay = 100

// measuring is held by the target that is measured.
var measuring = make(chan struct{}, 1)

// keptToTheMoment: nothing else wakes the subscription, its reads block for much longer than the delays.
//
// What else the machine does can only make a message later. So the bound is on the best of a few rounds, while none may
// be early in any. The paused clock does nothing else.
func keptToTheMoment(t *testing.T, target Target) {
	if target.bubble != nil {
		late := lateness(t, target)
		if worst := late[len(late)-1]; worst > time.Millisecond {
			t.Errorf("late by %s, want 1 ms at most", worst)
		}
		return
	}
	const rounds, bound = 3, 100 * time.Millisecond
	measuring <- struct{}{}
	defer func() { <-measuring }()
	for round := range rounds {
		late := lateness(t, target)
		p99 := late[len(late)*99/100-1]
		t.Logf("late by %s at the median, %s at p99, %s at most", late[len(late)/2], p99, late[len(late)-1])
		if p99 <= bound || underRace {
			return
		}
		if round == rounds-1 {
			t.Errorf("late by %s at p99 in each of %d rounds, want %s at most", p99, rounds, bound)
		}
	}
}

// lateness delays all messages once and returns how much later than asked each came back, in order. The time is taken
// on the monotonic clock from the end of one run to the begin of the next.
func lateness(t *testing.T, target Target) []time.Duration {
	k := uniqueKeys()
	asked := map[string]time.Duration{}
	for _, d := range measuredDelays {
		for i := range messagesPerDelay {
			asked[fmt.Sprintf("%s %d", d, i)] = d
		}
	}
	r := &recorder{}
	r.answer = func(_ context.Context, n int, c call) outcome.HandlerOutcome {
		if n == 1 {
			return outcome.RetryAfter(asked[c.payload])
		}
		return outcome.Ack()
	}
	spec := mode{set: true}.spec(k)
	spec.Block = 5 * time.Second
	s := newService(target)
	s.mount(spec, r)
	s.start(t)
	for _, text := range sortedKeys(asked) {
		s.publish(t, k.stream, []byte(text))
	}
	awaitRest(t, target, k)
	s.stop(t)

	var late []time.Duration
	for id, calls := range r.byMessage() {
		sawAttempts(t, "message "+id, calls, 2)
		if len(calls) != 2 {
			continue
		}
		d := asked[calls[0].payload]
		over := calls[1].began.Sub(calls[0].ended) - d
		if over < 0 {
			t.Errorf("a message that asked for %s came back %s early", d, -over)
		}
		late = append(late, over)
	}
	if len(late) != len(asked) {
		t.Fatalf("%d messages came back, want %d", len(late), len(asked))
	}
	slices.Sort(late)
	return late
}
