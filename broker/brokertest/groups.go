package brokertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
)

// Groups shows that a retry in one group is not a second message for the others (contract §7). It needs nothing but
// streams.
func Groups(t *testing.T, target Target) { groupsArea.run(t, target) }

var groupsArea = area{name: "Groups", bodies: []body{
	{name: "CopiesOfOneGroupAreNotHandledByAnother", run: copiesOfOneGroup, paused: true},
}}

// copiesOfOneGroup: each original is every group's once, and the copies, which they are given as well, are acknowledged
// unhandled.
func copiesOfOneGroup(t *testing.T, target Target) {
	const messages = 20
	answers := map[string]outcome.HandlerOutcome{
		"Retry":                       outcome.Retry(),
		"RetryAfter in memory":        outcome.RetryAfter(50 * time.Millisecond),
		"RetryAfter in the delay set": outcome.RetryAfter(50 * time.Millisecond),
	}
	for _, how := range sortedKeys(answers) {
		k := uniqueKeys()
		m := mode{set: how == "RetryAfter in the delay set"}
		failing := &recorder{answer: failsUntil(3, answers[how])}
		s := newService(target)
		s.mount(m.spec(k), failing, app.MaxAttempts(5))
		others := []struct {
			mode
			keys
			r *recorder
		}{
			{mode{name: "plain"}, k, &recorder{answer: acks}},
			{mode{name: "claiming", claims: true}, k, &recorder{answer: acks}},
		}
		for i := range others {
			o := &others[i]
			o.group = o.name
			spec := o.spec(o.keys)
			spec.Name += "." + o.name
			s.mount(spec, o.r)
		}
		s.start(t)
		for i := range messages {
			s.publish(t, k.stream, fmt.Append(nil, i))
		}
		awaitRest(t, target, k)
		for _, o := range others {
			awaitRest(t, target, o.keys)
		}
		s.stop(t)

		if n := len(failing.byMessage()); n != messages {
			t.Errorf("%s: the group that fails saw %d messages, want %d", how, n, messages)
		}
		for id, calls := range failing.byMessage() {
			sawAttempts(t, how+": message "+id, calls, 3)
		}
		if n := len(mustEntries(t, target, k.stream)); n != 3*messages {
			t.Errorf("%s: XLEN of the source is %d, want %d", how, n, 3*messages)
		}
		for _, o := range others {
			if n := o.r.count(); n != messages || len(o.r.byMessage()) != messages {
				t.Errorf("%s: the %s group saw %d messages in %d calls, want %d each once", how, o.name, len(o.r.byMessage()), n, messages)
			}
		}
	}
}
