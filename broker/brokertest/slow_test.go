package brokertest

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
)

// A handler that takes longer than the claim time is not run a second time beside itself: its entry comes back to the
// process that has it in hand. Nor does that count as an attempt.
func TestAClaimedEntryInHandIsNotRunAgain(t *testing.T) {
	each(t, slowHandlers)
}

func TestAClaimedEntryInHandIsNotRunAgainOnThePausedClock(t *testing.T) {
	paused(t, slowHandlers)
}

func slowHandlers(t *testing.T, target Target) {
	answers := map[string]func(context.Context, int, call) outcome.HandlerOutcome{
		"fails":            always(outcome.Retry()),
		"succeeds":         acks,
		"succeeds at last": failsUntil(2, outcome.Retry()),
	}
	const slow = claimTime*2 + claimTime/2
	s := newService(target)
	used, handlers := map[string]keys{}, map[string]*recorder{}
	for _, name := range sortedKeys(answers) {
		k := uniqueKeys()
		r := &recorder{answer: func(ctx context.Context, n int, c call) outcome.HandlerOutcome {
			time.Sleep(slow) // what the handler does takes its time
			return answers[name](ctx, n, c)
		}}
		s.mount(mode{claims: true}.spec(k), r, app.MaxAttempts(2), app.DeadLetter(k.deadLetter))
		used[name], handlers[name] = k, r
	}
	s.start(t)
	for _, name := range sortedKeys(answers) {
		s.publish(t, used[name].stream, payload)
	}
	for _, k := range used {
		awaitRest(t, target, k)
	}
	s.stop(t)
	calls := map[string]int{"fails": 2, "succeeds": 1, "succeeds at last": 2}
	for name, k := range used {
		sawAttempts(t, name, handlers[name].seen(), calls[name])
		letters := mustEntries(t, target, k.deadLetter)
		switch {
		case name != "fails":
			if len(letters) != 0 {
				t.Errorf("%s: %d dead letters", name, len(letters))
			}
		case len(letters) != 1 || letters[0].last(broker.FieldAttempts) != "2" || letters[0].last(broker.FieldDeliveries) != "2" ||
			letters[0].header(broker.HeaderRetryCount) != "2":
			t.Errorf("%s: the dead letter is %q", name, letters)
		}
	}
}
