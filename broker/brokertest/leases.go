package brokertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
)

// Leases shows that nothing is taken from a living process, however long its handler runs and whatever becomes of its
// liveness key, and that a handler whose entry was taken nevertheless learns of it and has no effect any more (contract
// §9). It needs nothing but streams, and takes about twelve seconds.
func Leases(t *testing.T, target Target) { leasesArea.run(t, target) }

var leasesArea = area{name: "Leases", bodies: []body{
	{name: "ALongHandlerKeepsItsMessage", run: longHandlerKeeps},
	{name: "ALostLeaseEndsTheHandler", run: lostLeaseEnds},
	{name: "NothingMakesALivingProcessLookDead", run: livingLooksAlive},
	{name: "AClaimedEntryInHandIsNotRunAgain", run: slowHandlers, paused: true},
}}

// longHandlerKeeps: nothing is taken from a living process, however long its handler runs. One call a message, and the
// delivery count stays as it is. Both with a claim time and a liveness far shorter than the handler.
func longHandlerKeeps(t *testing.T, target Target) {
	target = target.mortal()
	const long, messages = 6 * time.Second, 8
	first, second := newService(target), newService(target)
	for _, m := range ownRecords {
		c := first.subject("", m, &recorder{})
		c.answer = func(ctx context.Context, _ int, _ call) outcome.HandlerOutcome {
			select {
			case <-time.After(long):
				return outcome.Ack()
			case <-ctx.Done():
				return outcome.Of(context.Cause(ctx))
			}
		}
		options := []app.MountOption{app.Concurrency(4), app.MaxAttempts(5), app.DeadLetter(c.deadLetter)}
		c.mount(options...)
		second.mount(c.subscription, c.recorder, options...)
	}
	first.start(t)
	second.start(t)
	for _, c := range first.subjects {
		for i := range messages {
			first.publish(t, c.stream, fmt.Append(nil, i))
		}
	}
	for end := time.Now().Add(long - time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, c := range first.subjects {
			p, err := pending(t.Context(), target, c.keys)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range p {
				if e.RetryCount != 1 {
					t.Fatalf("%s: entry %s has the delivery count %d", c.name, e.ID, e.RetryCount)
				}
			}
		}
	}
	first.rest(t)
	second.stop(t)
	for _, c := range first.subjects {
		if c.count() != messages || len(c.byMessage()) != messages {
			t.Errorf("%s: %d calls of %d messages, want %d", c.name, c.count(), len(c.byMessage()), messages)
		}
	}
}

// lostLeaseEnds: a handler whose entry was taken from it learns of it by its context, and what it answers has no
// effect.
func lostLeaseEnds(t *testing.T, target Target) {
	target = target.mortal()
	meterReader()
	answers := map[string]outcome.HandlerOutcome{
		"retry": outcome.Retry(), "delay": outcome.RetryAfter(time.Millisecond), "bury": outcome.DeadLetter(errors.New("no")),
	}
	type one struct {
		*subject
		cause chan error
	}
	svc := newService(target)
	var all []one
	for _, m := range modes {
		for _, how := range sortedKeys(answers) {
			c := one{svc.subject(how, m, &recorder{}), make(chan error, 1)}
			c.answer = func(ctx context.Context, _ int, _ call) outcome.HandlerOutcome {
				<-ctx.Done()
				c.cause <- context.Cause(ctx)
				return answers[how]
			}
			if m.claims {
				c.subscription.Claim = time.Minute // nobody takes it back meanwhile
			}
			c.mount(app.MaxAttempts(5), app.DeadLetter(c.deadLetter))
			all = append(all, c)
		}
	}
	svc.start(t)
	for _, c := range all {
		svc.publish(t, c.stream, payload)
	}
	for _, c := range all {
		await(t, c.name+": the handler runs", func(context.Context) bool { return c.count() == 1 })
		p, err := pending(t.Context(), target, c.keys)
		if err != nil || len(p) != 1 {
			t.Fatalf("%s: pending %v, %v", c.name, p, err)
		}
		target.Client.Set(t.Context(), aliveKey(c.keys, "thief"), "token", time.Minute)
		seizeFor(t, target, c.keys, p[0].ID, "thief", 2, 0)
	}
	for _, c := range all {
		select {
		case cause := <-c.cause:
			if !errors.Is(cause, app.ErrLeaseLost) {
				t.Errorf("%s: the handler's context ended with %v", c.name, cause)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the handler was not told", c.name)
		}
	}
	svc.stop(t)
	meters := readMeters(t)
	for _, c := range all {
		p, err := pending(t.Context(), target, c.keys)
		if err != nil || len(p) != 1 || p[0].Consumer != "thief" || p[0].RetryCount != 2 {
			t.Errorf("%s: pending %v, %v; want the thief's entry untouched", c.name, p, err)
		}
		if n := meters[c.stream]["discarded lost"]; n != 1 {
			t.Errorf("%s: counted %v", c.name, meters[c.stream])
		}
		if a, b := len(c.source(t)), len(c.letters(t)); a != 1 || b != 0 || target.Client.ZCard(t.Context(), c.delaySet).Val() != 0 {
			t.Errorf("%s: %d entries, %d dead letters", c.name, a, b)
		}
	}
}

// livingLooksAlive: a living process stays alive for its peers when its liveness key is deleted or made persistent.
func livingLooksAlive(t *testing.T, target Target) {
	staysAlive(t, target, map[string]func(key string){
		"deleted":    func(key string) { target.Client.Del(t.Context(), key) },
		"persistent": func(key string) { target.Client.Persist(t.Context(), key) },
	})
}

// staysAlive makes trouble for a process while it handles a message, and stops it. It stays alive for its peers
// throughout, while it takes its time to stop, too; the key goes with it.
func staysAlive(t *testing.T, target Target, trouble map[string]func(key string)) {
	t.Helper()
	target = target.mortal()
	k, r := uniqueKeys(), &recorder{}
	release := make(chan struct{})
	r.answer = func(context.Context, int, call) outcome.HandlerOutcome {
		<-release
		return outcome.Ack()
	}
	first, second := newService(target, app.Grace(20*time.Second)), newService(target)
	first.mount(mode{}.spec(k), r)
	first.start(t)
	holder := consumersAlive(t, target, k)[0]
	first.publish(t, k.stream, payload)
	await(t, "the handler runs", func(context.Context) bool { return r.count() == 1 })
	second.mount(mode{}.spec(k), r)
	second.start(t)
	stands := func(ctx context.Context) bool {
		left := target.Client.PTTL(ctx, holder).Val()
		return left > 0 && left <= livenessTTL
	}
	for _, what := range sortedKeys(trouble) {
		trouble[what](holder)
		began := time.Now()
		await(t, "the key stands after it was "+what, stands)
		if late := time.Since(began); late > livenessTTL/3+time.Second && !underRace {
			t.Errorf("%s: the key was repaired after %s", what, late)
		}
		time.Sleep(livenessTTL)
	}
	done := make(chan struct{})
	go func() { defer close(done); first.stop(t) }()
	// Longer than the liveness: the process is stopping, and its handler still has its time.
	time.Sleep(3 * livenessTTL)
	if n := r.count(); n != 1 {
		t.Errorf("the message was given to %d handlers", n)
	}
	close(release)
	<-done
	if n := target.Client.Exists(t.Context(), holder).Val(); n != 0 {
		t.Error("the key stands after the stop")
	}
	awaitRest(t, target, k)
	second.stop(t)
	if calls := r.seen(); len(calls) != 1 {
		t.Errorf("%d calls", len(calls))
	}
}

// slowHandlers: a handler that takes longer than the claim time is not run a second time beside itself. Its entry comes
// back to the process that has it in hand, and that does not count as an attempt.
func slowHandlers(t *testing.T, target Target) {
	const slow = claimTime*2 + claimTime/2
	type one struct {
		*subject
		answer func(context.Context, int, call) outcome.HandlerOutcome
		calls  int
	}
	s := newService(target)
	claiming := mode{name: "claiming", claims: true}
	all := []one{
		{s.subject("fails", claiming, &recorder{}), always(outcome.Retry()), 2},
		{s.subject("succeeds", claiming, &recorder{}), acks, 1},
		{s.subject("succeeds at last", claiming, &recorder{}), failsUntil(2, outcome.Retry()), 2},
	}
	for _, c := range all {
		c.recorder.answer = func(ctx context.Context, n int, run call) outcome.HandlerOutcome {
			time.Sleep(slow) // what the handler does takes its time
			return c.answer(ctx, n, run)
		}
		c.mount(app.MaxAttempts(2), app.DeadLetter(c.deadLetter))
	}
	s.playOut(t, payload)
	for i, c := range all {
		sawAttempts(t, c.name, c.seen(), c.calls)
		letters := c.letters(t)
		switch {
		case i > 0:
			if len(letters) != 0 {
				t.Errorf("%s: %d dead letters", c.name, len(letters))
			}
		case len(letters) != 1 || letters[0].last(broker.FieldAttempts) != "2" || letters[0].last(broker.FieldDeliveries) != "2" ||
			letters[0].header(broker.HeaderRetryCount) != "2":
			t.Errorf("%s: the dead letter is %q", c.name, letters)
		}
	}
}
