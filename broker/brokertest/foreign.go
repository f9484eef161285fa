package brokertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// Foreign shows that nothing is ever written to a stream that belongs to others: its entries are retried in place, with
// their attempts and losses kept in the group's own count (contract §2, §5).
func Foreign(t *testing.T, target Target) { foreignArea.run(t, target) }

var foreignArea = area{name: "Foreign", bodies: []body{
	{name: "EntriesAreRetriedInPlace", run: foreignRetries, paused: true},
	{name: "AttemptsAndLossesOutliveTheProcess", run: foreignLosses, paused: true},
	{name: "AnEntryAtTheCapIsBuriedElsewhere", run: foreignCap, paused: true},
}}

// foreignModes are the ways in which a foreign stream is read.
var foreignModes = []mode{{name: "memory"}, {name: "claiming", claims: true}}

// addForeign writes an entry as its owner would, without any field of ours.
func addForeign(t testing.TB, target Target, key string, n int) string {
	t.Helper()
	id, err := target.Client.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: []any{"page", fmt.Sprint("/", n), "n", n}}).Result()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// readForeign starts a process that reads the stream.
func readForeign(t testing.TB, target Target, k keys, m mode, r *recorder, options ...app.MountOption) *service {
	t.Helper()
	s := newService(target)
	spec := m.spec(k)
	spec.Foreign = true
	s.Mount(streamrt.SubscribeMethod(spec, streamrt.Raw, (*recorder).handle).With(r), options...)
	s.start(t)
	return s
}

// untouched checks that the stream holds what its owner wrote, byte for byte.
func untouched(t testing.TB, target Target, k keys, ids []string) {
	t.Helper()
	all := mustEntries(t, target, k.stream)
	if len(all) != len(ids) {
		t.Errorf("the foreign stream has %d entries, its owner wrote %d", len(all), len(ids))
		return
	}
	for i, e := range all {
		if want := fmt.Sprintf("[{page /%d} {n %d}]", i, i); e.id != ids[i] || fmt.Sprint(e.fields) != want {
			t.Errorf("entry %s is %v, want %s %s", e.id, e.fields, ids[i], want)
		}
	}
	st, err := look(t.Context(), target.Client, k.stream, k.group, k.delaySet)
	if err != nil || !st.atRest() {
		t.Errorf("%+v, %v", st, err)
	}
}

func foreignRetries(t *testing.T, target Target) {
	const entries = 20
	for _, m := range foreignModes {
		for how, answer := range map[string]outcome.HandlerOutcome{
			"Retry": outcome.Retry(), "RetryAfter": outcome.RetryAfter(200 * time.Millisecond), "error": outcome.Of(fmt.Errorf("no")),
		} {
			k, r := uniqueKeys(), &recorder{answer: failsUntil(3, answer)}
			s := readForeign(t, target, k, m, r, app.MaxAttempts(5), app.MaxDeliveries(9), app.Concurrency(3),
				app.Backoff(app.Exponential{Initial: 100 * time.Millisecond, NoJitter: true}))
			var ids []string
			for i := range entries {
				ids = append(ids, addForeign(t, target, k.stream, i))
			}
			await(t, m.name+", "+how+": all are handled", func(context.Context) bool { return r.count() >= 3*entries })
			awaitRest(t, target, k)
			s.stop(t)
			if n := r.count(); n != 3*entries {
				t.Errorf("%s, %s: %d runs of %d entries, want 3 each", m.name, how, n, entries)
			}
			for id, calls := range r.byMessage() {
				sawAttempts(t, m.name+", "+how+": entry "+id, calls, 3)
			}
			untouched(t, target, k, ids)
		}
	}
}

// foreignLosses: a process dies with an entry that has failed twice in its hands.
func foreignLosses(t *testing.T, target Target) {
	target = target.mortal()
	for _, m := range foreignModes {
		k, r := uniqueKeys(), &recorder{answer: acks}
		newGroup(t, target, k)
		ids := []string{addForeign(t, target, k.stream, 0)}
		readAs(t, target, k, "dead", 1)
		seize(t, target, k, ids[0], "dead", 2*1000+1)
		s := readForeign(t, target, k, m, r, app.MaxAttempts(9), app.MaxDeliveries(9))
		await(t, m.name+": the entry is taken", func(context.Context) bool { return r.count() == 1 })
		awaitRest(t, target, k)
		s.stop(t)
		if c := r.seen()[0].message; c.Attempt != 3 || c.Losses != 1 {
			t.Errorf("%s: attempt %d, losses %d, want 3 and 1", m.name, c.Attempt, c.Losses)
		}
		untouched(t, target, k, ids)
	}
}

func foreignCap(t *testing.T, target Target) {
	for _, m := range foreignModes {
		k, r := uniqueKeys(), &recorder{answer: always(outcome.Retry())}
		s := readForeign(t, target, k, m, r, app.MaxAttempts(3), app.DeadLetter(k.deadLetter))
		ids := []string{addForeign(t, target, k.stream, 0)}
		await(t, m.name+": the entry is buried", func(ctx context.Context) bool {
			return target.Client.XLen(ctx, k.deadLetter).Val() == 1
		})
		awaitRest(t, target, k)
		s.stop(t)
		letter := mustEntries(t, target, k.deadLetter)[0]
		if r.count() != 3 || letter.last("dlq_reason") != "max_attempts" || letter.last("dlq_attempts") != "3" || letter.last("page") != "/0" {
			t.Errorf("%s: %d runs, dead letter %v", m.name, r.count(), letter.fields)
		}
		untouched(t, target, k, ids)
	}
}
