package brokertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
)

// Losses shows that the owners which a message outlived are counted beside its attempts and never among them, and that
// MaxDeliveries caps them (contract §5, §9). It needs nothing but streams.
func Losses(t *testing.T, target Target) { lossesArea.run(t, target) }

var lossesArea = area{name: "Losses", bodies: []body{
	{name: "LossesTravelWithTheMessage", run: lossesTravel, paused: true},
	{name: "DeathsAreNoAttempts", run: deathsAndFailures, paused: true},
	{name: "MaxDeliveriesIsTheNumberOfDeaths", run: deathsUpToTheCap, paused: true},
	{name: "ADeadLetterBeginsWithoutLosses", run: deadLetterWithoutLosses},
}}

// lossesTravel: the losses travel through copies and delays, beside the attempts and never among them.
func lossesTravel(t *testing.T, target Target) {
	s := newService(target.mortal())
	retries := []outcome.HandlerOutcome{outcome.Retry(), outcome.RetryAfter(50 * time.Millisecond)}
	inEveryMode(s, retries, func(c variant[outcome.HandlerOutcome]) {
		newGroup(t, target, c.keys)
		abandon(t, target, c.keys, "b", 2)
		c.answer = failsUntil(3, c.is)
		c.mount(app.MaxAttempts(3), app.MaxDeliveries(20))
	})
	s.start(t)
	s.rest(t)
	for _, c := range s.subjects {
		calls := c.seen()
		sawAttempts(t, c.name, calls, 3)
		for i, run := range calls {
			if m := run.message; m.Losses != 2 || m.Deliveries != i+3 {
				t.Errorf("%s: run %d came with losses %d and deliveries %d, want 2 and %d", c.name, i+1, m.Losses, m.Deliveries, i+3)
			}
		}
		for i, e := range c.source(t)[1:] {
			if e.header(broker.HeaderLosses) != "2" {
				t.Errorf("%s: copy %d carries losses %q", c.name, i+1, e.header(broker.HeaderLosses))
			}
		}
	}
}

// deathsAndFailures: attempts and losses never mix, in whatever order they come. Three owners die, a run fails, three
// more die, and the message, of which two attempts are allowed, is handled.
func deathsAndFailures(t *testing.T, target Target) {
	s := newService(target.mortal())
	for _, m := range modes {
		c := s.subject("", m, &recorder{})
		c.answer = func(ctx context.Context, n int, _ call) outcome.HandlerOutcome {
			switch n {
			case 1:
				return outcome.Retry()
			case 2:
				<-ctx.Done() // dies with its process, as far as the group can see
				return outcome.Retry().WithError(context.Cause(ctx))
			}
			return outcome.Ack()
		}
		newGroup(t, target, c.keys)
		abandon(t, target, c.keys, "b", 3)
		if m.claims {
			c.subscription.Claim = 2 * claimTime
		}
		c.mount(app.MaxAttempts(2), app.MaxDeliveries(20), app.DeadLetter(c.deadLetter))
	}
	s.start(t)
	for _, c := range s.subjects {
		await(t, c.name+": the second run", func(context.Context) bool { return c.count() == 2 })
		p, err := pending(t.Context(), target, c.keys)
		if err != nil || len(p) != 1 {
			t.Fatalf("%s: pending %v, %v", c.name, p, err)
		}
		// Three deaths are two hand-outs more; the next one adds the third. It rests long enough for the process to notice
		// that it has lost it: it would take it back else, and go on.
		seizeFor(t, target, c.keys, p[0].ID, "dead", p[0].RetryCount+2, 0)
	}
	s.rest(t)
	for _, c := range s.subjects {
		calls := c.seen()
		if got := attemptsOf(calls); !slices.Equal(got, []int{1, 2, 2}) {
			t.Errorf("%s: attempts %v", c.name, got)
			continue
		}
		for i, want := range []int{3, 3, 6} {
			if got := calls[i].message.Losses; got != want {
				t.Errorf("%s: run %d came with losses %d, want %d", c.name, i+1, got, want)
			}
		}
		if n := len(c.letters(t)); n != 0 {
			t.Errorf("%s: %d dead letters", c.name, n)
		}
	}
}

// lossCase is one policy and a message that a dead owner left.
type lossCase struct {
	what string
	mode mode
	// dead is the delivery count under the dead owner.
	dead    int64
	options func(k keys) []app.MountOption
	// attempt and losses are what the handler sees; 0 attempts: it is not called.
	attempt, losses int
	// reason is that of the dead letter, discarded that of a message that is gone.
	reason, discarded string
	// buriedLosses and buriedAttempts are what the dead letter says.
	buriedLosses, buriedAttempts string
}

func lossCases() []lossCase {
	none := func(keys) []app.MountOption { return nil }
	letters := func(k keys) []app.MountOption {
		return []app.MountOption{app.DeadLetter(k.deadLetter), app.MaxAttempts(9)}
	}
	three := func(k keys) []app.MountOption { return append(letters(k), app.MaxDeliveries(3)) }
	alone := func(keys) []app.MountOption { return []app.MountOption{app.MaxDeliveries(3)} }
	attempts3 := func(k keys) []app.MountOption {
		return []app.MountOption{app.DeadLetter(k.deadLetter), app.MaxAttempts(3)}
	}
	var all []lossCase
	plain, claiming := ownRecords[0], ownRecords[1]
	for _, m := range ownRecords {
		all = append(
			all,
			lossCase{what: "at the cap", mode: m, dead: 3, options: three, reason: broker.ReasonMaxDeliveries, buriedLosses: "3", buriedAttempts: "0"},
			lossCase{what: "one below the cap", mode: m, dead: 2, options: three, attempt: 1, losses: 2},
			lossCase{what: "at the cap after two failures", mode: m, dead: 2003, options: three, reason: broker.ReasonMaxDeliveries, buriedLosses: "3", buriedAttempts: "2"},
			lossCase{what: "at the cap without a destination", mode: m, dead: 3, options: alone, discarded: "cap"},
		)
	}
	return append(
		all,
		lossCase{what: "a dead letter brings a cap of five", mode: plain, dead: 5, options: letters, reason: broker.ReasonMaxDeliveries, buriedLosses: "5", buriedAttempts: "0"},
		lossCase{what: "four are below it", mode: plain, dead: 4, options: letters, attempt: 1, losses: 4},
		lossCase{what: "no dead letter, no cap", mode: plain, dead: 50, options: none, attempt: 1, losses: 50},
		lossCase{what: "parked by an owner that died", mode: plain, dead: 1000, options: letters, attempt: 2, losses: 0},
		lossCase{what: "parked after a loss", mode: plain, dead: 1001, options: letters, attempt: 2, losses: 1},
		lossCase{what: "claiming counts deaths as attempts", mode: claiming, dead: 2, options: attempts3, attempt: 3},
		lossCase{what: "claiming above the cap", mode: claiming, dead: 3, options: attempts3, reason: broker.ReasonMaxDeliveries, buriedLosses: "0", buriedAttempts: "3"},
		lossCase{what: "claiming has no default of five", mode: claiming, dead: 7, options: letters, attempt: 8},
	)
}

// deathsUpToTheCap: MaxDeliveries(m) takes a message that outlived m owners to the dead letter, without another run.
func deathsUpToTheCap(t *testing.T, target Target) {
	meterReader()
	type one struct {
		*subject
		lossCase
		id string
	}
	s := newService(target.mortal())
	var all []one
	for _, lc := range lossCases() {
		c := one{s.subject(lc.what, lc.mode, &recorder{answer: acks}), lc, ""}
		newGroup(t, target, c.keys)
		c.id = abandon(t, target, c.keys, "b", c.dead)
		c.mount(c.options(c.keys)...)
		all = append(all, c)
	}
	s.start(t)
	s.rest(t)
	meters := readMeters(t)
	for _, c := range all {
		calls, want := c.seen(), 0
		if c.attempt > 0 {
			want = 1
		}
		if len(calls) != want {
			t.Errorf("%s: %d runs, want %d", c.name, len(calls), want)
			continue
		}
		if want == 1 {
			if m := calls[0].message; m.Attempt != c.attempt || m.Losses != c.losses {
				t.Errorf("%s: attempt %d and losses %d, want %d and %d", c.name, m.Attempt, m.Losses, c.attempt, c.losses)
			}
		}
		letters, buried := c.letters(t), 0
		if c.reason != "" {
			buried = 1
		}
		if len(letters) != buried {
			t.Errorf("%s: %d dead letters, want %d", c.name, len(letters), buried)
			continue
		}
		if buried == 1 {
			e := letters[0]
			for field, text := range map[string]string{
				broker.FieldReason: c.reason, broker.FieldLosses: c.buriedLosses, broker.FieldAttempts: c.buriedAttempts, broker.FieldID: c.id,
			} {
				if e.last(field) != text {
					t.Errorf("%s: %s is %q, want %q", c.name, field, e.last(field), text)
				}
			}
			if e.hasHeader(broker.HeaderLosses) || meters[c.stream]["dead_letters "+c.reason] != 1 {
				t.Errorf("%s: the dead letter is %q, counted %v", c.name, e.fields, meters[c.stream])
			}
		}
		if c.discarded != "" && (meters[c.stream]["discarded "+c.discarded] != 1 || !strings.Contains(strings.Join(s.log.of(c.stream), " "), c.id)) {
			t.Errorf("%s: counted %v, logged %q", c.name, meters[c.stream], s.log.of(c.stream))
		}
	}
}

// deadLetterWithoutLosses: whoever reads a dead letter begins anew. The owners that the message outlived before are
// history.
func deadLetterWithoutLosses(t *testing.T, target Target) {
	target = target.mortal()
	k, next := uniqueKeys(), uniqueKeys()
	next.stream = k.deadLetter
	newGroup(t, target, k)
	abandon(t, target, k, "b", 3)
	reader := &recorder{answer: always(outcome.DeadLetter(errors.New("again")))}
	s := newService(target)
	s.mount(mode{}.spec(k), &recorder{answer: acks}, app.MaxDeliveries(3), app.DeadLetter(k.deadLetter))
	s.mount(mode{}.spec(next), reader, app.DeadLetter(next.deadLetter))
	s.start(t)
	await(t, "the dead letter is buried again", func(ctx context.Context) bool {
		return target.Client.XLen(ctx, next.deadLetter).Val() == 1
	})
	s.stop(t)
	m := reader.seen()[0].message
	if m.Attempt != 1 || m.Losses != 0 || m.DeadLetter == nil || m.DeadLetter.Losses != 3 || m.DeadLetter.Reason != broker.ReasonMaxDeliveries {
		t.Errorf("it was read as %+v of %+v", m, m.DeadLetter)
	}
	if e := mustEntries(t, target, next.deadLetter)[0]; e.last(broker.FieldLosses) != "0" || e.last(broker.FieldReason) != broker.ReasonRejected {
		t.Errorf("the second burial is %q", e.fields)
	}
}
