package brokertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
)

// LostGroups shows that a stream or group which somebody deletes costs nothing that is published after, and runs nothing
// again that this process has settled (contract §9). It needs nothing but streams.
func LostGroups(t *testing.T, target Target) { lostGroupsArea.run(t, target) }

var lostGroupsArea = area{name: "LostGroups", bodies: []body{
	{name: "ALostStreamIsReadFromItsStart", run: lostStream},
	{name: "ALostGroupGoesOnWhereItWas", run: lostGroup},
	{name: "ALostGroupDoesNotBringBackWhatWasRecovered", run: lostGroupAfterRecovery},
}}

// lostStream: a stream that is deleted, or replaced in one step, costs nothing that is published after. The group is
// made again and reads from the stream's start.
func lostStream(t *testing.T, target Target) {
	target = target.mortal()
	for _, m := range ownRecords {
		k, r := uniqueKeys(), &recorder{answer: acks}
		svc := newService(target)
		svc.mount(m.spec(k), r)
		svc.start(t)
		svc.publish(t, k.stream, []byte("before"))
		awaitRest(t, target, k)
		target.Client.Del(t.Context(), k.stream)
		time.Sleep(time.Second)
		for i := range 3 {
			add(t, target, k.stream, fmt.Sprint("deleted ", i))
		}
		await(t, m.name+": what came after the deletion is handled", func(context.Context) bool { return r.count() == 4 })
		_, err := target.Client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Del(t.Context(), k.stream)
			for i := range 2 {
				p.XAdd(t.Context(), &redis.XAddArgs{Stream: k.stream, Values: []any{fieldPayload, fmt.Sprint("replaced ", i)}})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		await(t, m.name+": what replaced the stream is handled", func(context.Context) bool { return r.count() >= 6 })
		awaitRest(t, target, k)
		svc.stop(t)
		for body, n := range r.bodies() {
			if n != 1 {
				t.Errorf("%s: %q was handled %d times", m.name, body, n)
			}
		}
	}
}

// lostGroup: a group that is destroyed over an intact stream goes on where it was. What this process has settled is not
// run again, what it has in hand is settled, by the handler that has it, in whatever way, and what comes is handled.
func lostGroup(t *testing.T, target Target) {
	target = target.mortal()
	answers := []outcome.HandlerOutcome{
		outcome.Ack(), outcome.Ack(), outcome.Retry(), outcome.RetryAfter(50 * time.Millisecond), outcome.RetryAfter(time.Millisecond),
		outcome.DeadLetter(errors.New("no")), outcome.Drop(),
	}
	// Somebody else may have made the group again before this process notices, at the stream's end.
	for _, again := range []bool{false, true} {
		for _, m := range modes {
			k, r, release := uniqueKeys(), &recorder{}, make(chan struct{})
			r.answer = func(_ context.Context, n int, c call) outcome.HandlerOutcome {
				for i, answer := range answers {
					if c.payload == fmt.Sprint("in hand ", i) && n == 1 {
						<-release
						return answer
					}
				}
				return outcome.Ack()
			}
			what := fmt.Sprintf("%s, made again by others %v", m.name, again)
			spec := m.spec(k)
			svc := newService(target)
			svc.mount(spec, r, app.MaxAttempts(3), app.MaxDeliveries(9), app.DeadLetter(k.deadLetter))
			svc.start(t)
			for i := range 3 {
				svc.publish(t, k.stream, fmt.Append(nil, "settled ", i))
			}
			awaitRest(t, target, k)
			for i := range answers {
				svc.publish(t, k.stream, fmt.Append(nil, "in hand ", i))
			}
			await(t, what+": seven are in hand", func(context.Context) bool { return r.count() == 3+len(answers) })
			if err := target.Client.XGroupDestroy(t.Context(), k.stream, k.group).Err(); err != nil {
				t.Fatal(err)
			}
			if again {
				target.Client.XGroupCreate(t.Context(), k.stream, k.group, "$")
			}
			svc.publish(t, k.stream, []byte("after"))
			await(t, what+": what came after is handled", func(context.Context) bool { return len(r.of("after")) > 0 })
			close(release)
			retried := 3
			await(t, what+": all are settled", func(ctx context.Context) bool {
				st, err := look(ctx, target.Client, k.stream, k.group, k.delaySet)
				return err == nil && st.atRest() && r.count() >= 4+len(answers)+retried
			})
			svc.stop(t)
			for body, n := range r.bodies() {
				want := 1
				for i, answer := range answers {
					if body == fmt.Sprint("in hand ", i) && (answer.Kind() == outcome.KindRetry || answer.Kind() == outcome.KindRetryAfter) {
						want = 2
					}
				}
				if n != want {
					t.Errorf("%s: %q was handled %d times, want %d", what, body, n, want)
				}
			}
			if n := len(mustEntries(t, target, k.deadLetter)); n != 1 {
				t.Errorf("%s: %d dead letters", what, n)
			}
		}
	}
}

// lostGroupAfterRecovery: what was recovered from a dead process long ago does not come back when the group is lost.
func lostGroupAfterRecovery(t *testing.T, target Target) {
	target = target.mortal()
	k, r := uniqueKeys(), &recorder{answer: acks}
	newGroup(t, target, k)
	for i := range 3 {
		abandon(t, target, k, fmt.Sprint(i), 1)
	}
	svc := newService(target)
	svc.mount(mode{}.spec(k), r)
	svc.start(t)
	awaitRest(t, target, k)
	time.Sleep(2500 * time.Millisecond) // a few looks at the group
	target.Client.XGroupDestroy(t.Context(), k.stream, k.group)
	svc.publish(t, k.stream, []byte("after"))
	await(t, "what came after is handled", func(context.Context) bool { return len(r.of("after")) > 0 })
	time.Sleep(3 * livenessTTL)
	svc.stop(t)
	for body, n := range r.bodies() {
		if n != 1 {
			t.Errorf("%q was handled %d times", body, n)
		}
	}
}
