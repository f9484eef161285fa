package brokertest

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/outcome"
)

// Durations shows that RetryAfter takes any duration: what is no delay is an immediate retry that counts, and the largest
// one is a date far in the future (contract §6). It needs nothing but streams.
func Durations(t *testing.T, target Target) { durationsArea.run(t, target) }

var durationsArea = area{name: "Durations", bodies: []body{
	{name: "DurationsThatAreNoDelayRetryAtOnce", run: retriedAtOnce, paused: true},
	{name: "TheLargestDurationWaits", run: waitsForEver, paused: true},
}}

// retriedAtOnce: what is no delay is an immediate retry that counts.
func retriedAtOnce(t *testing.T, target Target) {
	s := newService(target)
	all := inEveryMode(s, []time.Duration{-5 * time.Second, math.MinInt64, 0, 1}, func(c variant[time.Duration]) {
		c.answer = failsUntil(2, outcome.RetryAfter(c.is))
		c.mount()
	})
	s.playOut(t, payload)
	for _, c := range all {
		calls := c.seen()
		sawAttempts(t, c.name, calls, 2)
		// A claimed entry stays where it is, unless there is a set and a delay to keep in it.
		want := []string{"", "1"}
		if c.claims && !(c.set && c.is > 0) {
			want = want[:1]
		}
		if got := retryCounts(c.source(t)); !slices.Equal(got, want) {
			t.Errorf("%s: the source has the retry-counts %q, want %q", c.name, got, want)
		}
		if len(calls) != 2 || underRace {
			continue
		}
		gap, longest := calls[1].began.Sub(calls[0].ended), 500*time.Millisecond
		if len(want) == 1 {
			longest += claimTime
		}
		if gap > longest {
			t.Errorf("%s: it came back after %s, want %s at most", c.name, gap, longest)
		}
	}
}

// waitsForEver: the largest duration overflows nothing. The message is not handled again, but where a delay is cut down
// to the claim time; that it does not come back shows in a later message, which does.
func waitsForEver(t *testing.T, target Target) {
	for _, m := range modes {
		k := uniqueKeys()
		r := &recorder{answer: func(_ context.Context, n int, c call) outcome.HandlerOutcome {
			if c.payload == "later" || n > 1 {
				return outcome.Ack()
			}
			return outcome.RetryAfter(math.MaxInt64)
		}}
		s := newService(target)
		s.mount(m.spec(k), r)
		s.start(t)
		s.publish(t, k.stream, []byte("first"))
		calls := 1
		switch {
		case m.set:
			await(t, m.name+": the message is in the delay set", func(ctx context.Context) bool {
				n, err := target.Client.ZCard(ctx, k.delaySet).Result()
				return err == nil && n == 1
			})
		case m.claims:
			awaitRest(t, target, k)
			calls = 2
		default:
			await(t, m.name+": the message is parked, its failure counted", func(ctx context.Context) bool {
				p, err := pending(ctx, target, k)
				return err == nil && len(p) == 1 && p[0].RetryCount == 1000
			})
		}
		s.publish(t, k.stream, []byte("later"))
		await(t, m.name+": the later message is handled", func(context.Context) bool { return r.count() == calls+1 })
		s.stop(t)

		sawAttempts(t, m.name, r.of("first"), calls)
		if n := len(mustEntries(t, target, k.stream)); n != 2 {
			t.Errorf("%s: XLEN of the source is %d, want 2", m.name, n)
		}
		left, err := pending(t.Context(), target, k)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case m.set:
			farInTheFuture(t, target, m.name, k)
			fallthrough
		case m.claims:
			if len(left) != 0 {
				t.Errorf("%s: pending %+v, want nothing", m.name, left)
			}
		default:
			// Handed back by the stop with its attempt, to rest for as long as an entry can: the next process to find it
			// idle takes it.
			if len(left) != 1 || left[0].RetryCount != 1000 || left[0].Idle > 20*time.Second {
				t.Errorf("memory: pending after the stop %+v, want one entry with count 1000 that is not idle", left)
			}
		}
	}
}

// farInTheFuture: the due time is a date, not what is left of one after an overflow.
func farInTheFuture(t testing.TB, target Target, what string, k keys) {
	t.Helper()
	ctx := t.Context()
	members, err := target.Client.ZRangeWithScores(ctx, k.delaySet, 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	now, err := serverTime(ctx, target)
	if err != nil {
		t.Fatal(err)
	}
	const decade = 10 * 365 * 24 * time.Hour
	if len(members) != 1 || members[0].Score < float64(now+decade.Milliseconds()) || members[0].Score > 1<<53 {
		t.Errorf("%s: the delay set holds %d members, due at %v, and it is %d", what, len(members), members, now)
	}
}
