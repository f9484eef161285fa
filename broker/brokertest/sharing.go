package brokertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/outcome"
)

// Sharing shows that the processes of a group share its messages: each is handled by one of them, and a retry may be the
// other's, wherever it waits (contract §6, §7). It needs nothing but streams.
func Sharing(t *testing.T, target Target) { sharingArea.run(t, target) }

var sharingArea = area{name: "Sharing", bodies: []body{
	{name: "TwoProcessesShareAGroup", run: shared},
	{name: "TwoProcessesShareRetries", run: sharedRetries},
}}

// shared: each message is handled by one of the processes, once.
func shared(t *testing.T, target Target) {
	const messages = 500
	for _, m := range ownRecords {
		k := uniqueKeys()
		var services [2]*service
		var handlers [2]*recorder
		for i := range services {
			handlers[i] = &recorder{answer: acks}
			services[i] = newService(target)
			services[i].mount(m.spec(k), handlers[i])
			services[i].start(t)
		}
		for i := range messages {
			services[i%2].publish(t, k.stream, fmt.Append(nil, i))
		}
		st := awaitRest(t, target, k)
		for _, s := range services {
			s.stop(t)
		}
		if st.length != messages {
			t.Errorf("%s: XLEN of the source is %d, want %d", m.name, st.length, messages)
		}
		calls := map[string]int{}
		for _, r := range handlers {
			for _, c := range r.seen() {
				calls[c.payload]++
				if c.message.Attempt != 1 || c.message.Losses != 0 {
					t.Errorf("%s: message %s came with attempt %d and losses %d", m.name, c.payload, c.message.Attempt, c.message.Losses)
				}
			}
		}
		for i := range messages {
			if n := calls[fmt.Sprint(i)]; n != 1 {
				t.Errorf("%s: message %d was handled %d times", m.name, i, n)
			}
		}
		t.Logf("%s: shared as %d and %d", m.name, handlers[0].count(), handlers[1].count())
	}
}

// sharedRetries: the attempts of each message still are 1, 2, 3, and no two processes have the same one.
func sharedRetries(t *testing.T, target Target) {
	const messages = 50
	answer := func(_ context.Context, _ int, c call) outcome.HandlerOutcome {
		if c.message.Attempt < 3 {
			return outcome.RetryAfter(20 * time.Millisecond)
		}
		return outcome.Ack()
	}
	for _, m := range modes {
		k := uniqueKeys()
		var services [2]*service
		both := &recorder{answer: answer}
		for i := range services {
			services[i] = newService(target)
			services[i].mount(m.spec(k), both)
			services[i].start(t)
		}
		for i := range messages {
			services[0].publish(t, k.stream, fmt.Append(nil, i))
		}
		awaitRest(t, target, k)
		for _, s := range services {
			s.stop(t)
		}
		if n := len(both.byMessage()); n != messages {
			t.Errorf("%s: %d messages were handled, want %d", m.name, n, messages)
		}
		for id, calls := range both.byMessage() {
			sawAttempts(t, m.name+": message "+id, calls, 3)
		}
	}
}
