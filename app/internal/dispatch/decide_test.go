package dispatch

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
)

var (
	plainMemory = broker.Capabilities{Acks: true, Refetches: true, Addressee: "refunds", PacksFailures: true}
	plainSet    = broker.Capabilities{Acks: true, Refetches: true, Addressee: "refunds", PacksFailures: true, DelaySet: true}
	claiming    = broker.Capabilities{Acks: true, Refetches: true, Addressee: "refunds", KeepsPending: true, Claim: time.Second}
	claimingSet = broker.Capabilities{Acks: true, Refetches: true, Addressee: "refunds", KeepsPending: true, Claim: time.Second, DelaySet: true}

	modes = map[string]broker.Capabilities{
		"memory": plainMemory, "set": plainSet, "claim": claiming, "claim with set": claimingSet,
	}
	someTime = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	errBusy  = errors.New("busy")
)

const policyWait = 7 * time.Second

func rulesOf(caps broker.Capabilities, maxAttempts int64, deadLetter string) *rules {
	return &rules{
		name: "refunds.Process", source: "refunds", group: "refunds", deadLetter: deadLetter, maxAttempts: maxAttempts,
		caps: caps, backoff: func(int64, error) time.Duration { return policyWait },
	}
}

// answer is the ending of a handler that returned o.
func answer(o outcome.HandlerOutcome) ending {
	e := ending{kind: o.Kind(), delay: o.Delay(), err: o.Err(), label: labelOf(o.Kind())}
	e.explain()
	return e
}

func entry(count int64, headers ...string) *broker.Delivery {
	d := &broker.Delivery{ID: "5-0", Count: count}
	for i := 0; i < len(headers); i += 2 {
		d.Headers = append(d.Headers, broker.HeaderLine{Name: headers[i], Value: headers[i+1]})
	}
	return d
}

func (r *rules) after(d *broker.Delivery, o outcome.HandlerOutcome) intent {
	return r.decide(d, count(d, r.caps.PacksFailures), answer(o), someTime)
}

// say writes an intent down as the tables below do.
func say(i intent) string {
	s := i.action.String()
	switch {
	case i.discard != "":
		s += " " + i.discard
	case i.action == broker.Delay:
		s += " " + i.delay.String()
	case i.action == broker.Bury:
		s += " " + i.burial.Reason
	case i.parked:
		s += fmt.Sprintf(" %d for %s", i.count, i.park)
	case i.action == broker.Keep:
		s += fmt.Sprintf(" %d", i.count)
	}
	return s
}

// The tables of the contract's §4 to §6 for a first attempt.
func TestEveryOutcomeInEveryMode(t *testing.T) {
	type row struct {
		o      outcome.HandlerOutcome
		memory string
		set    string
		claim  string
		both   string // claiming with a delay set
	}
	longest := maxDelay.String()
	uncapped := []row{
		{outcome.Ack(), "ack", "ack", "ack", "ack"},
		{outcome.Drop(), "ack dropped", "ack dropped", "ack dropped", "ack dropped"},
		{outcome.Retry(), "copy", "copy", "keep 1", "keep 1"},
		{outcome.RetryAfter(3 * time.Second), "keep 1000 for 3s", "delay 3s", "keep 1", "delay 3s"},
		{outcome.RetryAfter(0), "copy", "copy", "keep 1", "keep 1"},
		{outcome.RetryAfter(-5 * time.Second), "copy", "copy", "keep 1", "keep 1"},
		{outcome.RetryAfter(1), "keep 1000 for 1ns", "delay 1ns", "keep 1", "delay 1ns"},
		{outcome.RetryAfter(math.MaxInt64), "keep 1000 for " + longest, "delay " + longest, "keep 1", "delay " + longest},
		{outcome.Of(errBusy), "keep 1000 for 7s", "delay 7s", "keep 1", "delay 7s"},
		{outcome.HandlerOutcome{}, "keep 1000 for 7s", "delay 7s", "keep 1", "delay 7s"},
		{outcome.DeadLetter(errBusy), "ack rejected", "ack rejected", "ack rejected", "ack rejected"},
	}
	check := func(t *testing.T, r *rules, o outcome.HandlerOutcome, want string) {
		t.Helper()
		if got := say(r.after(entry(1), o)); got != want {
			t.Errorf("%v: %q, want %q", o, got, want)
		}
	}
	for _, r := range uncapped {
		for mode, want := range map[string]string{"memory": r.memory, "set": r.set, "claim": r.claim, "claim with set": r.both} {
			t.Run(mode, func(t *testing.T) {
				check(t, rulesOf(modes[mode], 0, ""), r.o, want)
				// A cap changes nothing before it is reached.
				check(t, rulesOf(modes[mode], 2, ""), r.o, want)
			})
		}
	}
	failures := []outcome.HandlerOutcome{
		outcome.Retry(), outcome.RetryAfter(0), outcome.RetryAfter(time.Hour), outcome.Of(errBusy), {},
	}
	for mode, caps := range modes {
		t.Run(mode+" at the cap", func(t *testing.T) {
			for _, o := range failures {
				check(t, rulesOf(caps, 1, ""), o, "ack cap")
				check(t, rulesOf(caps, 1, "dlq"), o, "bury max_attempts")
				check(t, rulesOf(caps, 0, "dlq"), o, "bury max_attempts")
			}
			check(t, rulesOf(caps, 1, "dlq"), outcome.Ack(), "ack")
			check(t, rulesOf(caps, 1, "dlq"), outcome.Drop(), "ack dropped")
			check(t, rulesOf(caps, 9, "dlq"), outcome.DeadLetter(errBusy), "bury rejected")
			check(t, rulesOf(caps, 9, ""), outcome.DeadLetter(errBusy), "ack rejected")
		})
	}
}

func TestAnImmediateRetryWithoutACapWaitsFromTheTenthAttempt(t *testing.T) {
	for _, o := range []outcome.HandlerOutcome{outcome.Retry(), outcome.RetryAfter(-1)} {
		for _, c := range []struct {
			caps        broker.Capabilities
			maxAttempts int64
			retries     string
			want        string
		}{
			{plainMemory, 0, "8", "copy"},
			{plainMemory, 0, "9", "keep 1000 for 7s"},
			{plainSet, 0, "9", "delay 7s"},
			{plainSet, 100, "9", "copy"},
			{claiming, 0, "9", "keep 1"},
			{claimingSet, 0, "9", "keep 1"},
		} {
			d := entry(1, broker.HeaderRetryCount, c.retries)
			if got := say(rulesOf(c.caps, c.maxAttempts, "").after(d, o)); got != c.want {
				t.Errorf("%v after %s retries under a cap of %d: %q, want %q", o, c.retries, c.maxAttempts, got, c.want)
			}
		}
	}
}

func TestCounters(t *testing.T) {
	const beyond = "9223372036854775808"
	buried := func(d *broker.Delivery, attempts int64) *broker.Delivery {
		d.Burial = &broker.Burial{Attempts: attempts}
		return d
	}
	for _, c := range []struct {
		name                      string
		d                         *broker.Delivery
		packs                     bool
		attempt, failures, losses int64
		saturated                 bool
	}{
		{"new", entry(1), true, 1, 0, 0, false},
		{"a copy", entry(1, broker.HeaderRetryCount, "3"), true, 4, 3, 0, false},
		{"two losses", entry(3), true, 1, 0, 2, false},
		{"a failure in the entry", entry(1001), true, 2, 1, 0, false},
		{"all together", entry(2003, broker.HeaderRetryCount, "4", broker.HeaderLosses, "1"), true, 7, 6, 3, false},
		{"claiming", entry(3, broker.HeaderRetryCount, "4"), false, 7, 6, 0, false},
		{"the last header counts", entry(1, broker.HeaderRetryCount, "1", broker.HeaderRetryCount, "2"), true, 3, 2, 0, false},
		{"negative", entry(1, broker.HeaderRetryCount, "-2"), true, 1, 0, 0, false},
		{"signed", entry(1, broker.HeaderRetryCount, "+2"), true, 1, 0, 0, false},
		{"a fraction", entry(1, broker.HeaderRetryCount, "2.0"), true, 1, 0, 0, false},
		{"blank", entry(1, broker.HeaderRetryCount, " 2"), true, 1, 0, 0, false},
		{"empty", entry(1, broker.HeaderRetryCount, ""), true, 1, 0, 0, false},
		{"too large", entry(1, broker.HeaderRetryCount, beyond), true, math.MaxInt64, math.MaxInt64, 0, true},
		{"too large with more", entry(5001, broker.HeaderRetryCount, beyond), true, math.MaxInt64, math.MaxInt64, 0, true},
		{"a dead letter", buried(entry(1, broker.HeaderRetryCount, "5"), 5), true, 1, 5, 0, false},
		{"a dead letter's copy", buried(entry(1, broker.HeaderRetryCount, "7"), 5), true, 3, 7, 0, false},
		{"a claimed dead letter", buried(entry(2, broker.HeaderRetryCount, "5"), 5), false, 2, 6, 0, false},
		{"a dead letter without failures", buried(entry(1), 0), true, 1, 0, 0, false},
		{"a dead letter whose count was edited", buried(entry(1, broker.HeaderRetryCount, "1"), 5), true, 2, 1, 0, false},
		{"a message that only claims to be one", buried(entry(1), math.MaxInt64), true, 1, 0, 0, false},
		{"a copy of it", buried(entry(1, broker.HeaderRetryCount, "2"), math.MaxInt64), true, 3, 2, 0, false},
		{"count zero", entry(0), true, 1, 0, 0, false},
	} {
		got := count(c.d, c.packs)
		if got.attempt != c.attempt || got.failures != c.failures || got.losses != c.losses || got.saturated != c.saturated {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// What failed before it became unreadable has used up attempts, and the reader of its dead letter starts anew.
func TestAMalformedMessageKeepsTheCountOfItsFailures(t *testing.T) {
	r := rules{name: "t.h", source: "s", group: "g", deadLetter: "dlq", caps: broker.Capabilities{PacksFailures: true}}
	d := entry(3001)
	i := r.malformed(d, count(d, true), errors.New("no"))
	if i.burial.Attempts != 3 || len(i.edits.Set) != 1 || i.edits.Set[0] != (broker.HeaderLine{Name: broker.HeaderRetryCount, Value: "3"}) {
		t.Errorf("dlq_attempts %d, edits %v", i.burial.Attempts, i.edits)
	}
	if i := r.malformed(entry(1), count(entry(1), true), errors.New("no")); len(i.edits.Set) != 0 {
		t.Errorf("a message that never failed got %v", i.edits.Set)
	}
}

func TestARetryCountAtTheCapMeansOneRunAndNoRetry(t *testing.T) {
	for _, retries := range []string{"3", "4", "9223372036854775807", "99999999999999999999"} {
		for mode, caps := range modes {
			r := rulesOf(caps, 3, "dlq")
			d := entry(1, broker.HeaderRetryCount, retries)
			if _, over := r.overtaken(d, count(d, caps.PacksFailures)); over {
				t.Errorf("%s, %s: not run", mode, retries)
			}
			i := r.after(d, outcome.Retry())
			if say(i) != "bury max_attempts" {
				t.Errorf("%s, %s: %s", mode, retries, say(i))
			}
			for _, h := range i.edits.Set {
				if h.Name == broker.HeaderRetryCount && len(h.Value) < len(retries) {
					t.Errorf("%s: retry-count %s lowered to %s", mode, retries, h.Value)
				}
			}
		}
	}
}

func TestAClaimedEntryAboveTheCapIsBuriedUnrun(t *testing.T) {
	for _, c := range []struct {
		maxAttempts int64
		deadLetter  string
		count       int64
		want        string
	}{
		{3, "dlq", 3, ""},
		{3, "dlq", 4, "bury max_deliveries"},
		{3, "", 4, "ack cap"},
		{0, "", 1000, ""},
	} {
		r := rulesOf(claiming, c.maxAttempts, c.deadLetter)
		d := entry(c.count)
		got := ""
		if i, over := r.overtaken(d, count(d, false)); over {
			got = say(i)
			if i.burial != nil && (i.burial.Attempts != 3 || i.edits.Set[0].Value != "3") {
				t.Errorf("buried with %+v, %v", i.burial, i.edits)
			}
		}
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
	if _, over := rulesOf(plainMemory, 3, "dlq").overtaken(entry(50), counters{attempt: 50}); over {
		t.Error("a plain source buried an entry for its losses")
	}
}

func TestTheHeadersOfACopy(t *testing.T) {
	d := entry(2002, broker.HeaderRetryCount, "1", broker.HeaderLosses, "2", broker.HeaderHistory, "1 then fail")
	i := rulesOf(plainMemory, 0, "").after(d, outcome.Retry().WithError(errBusy))
	want := []broker.HeaderLine{
		{Name: broker.HeaderRetryCount, Value: "4"},
		{Name: broker.HeaderRetryGroup, Value: "refunds"},
		{Name: broker.HeaderLosses, Value: "3"},
		{Name: broker.HeaderHistory, Value: "1 then fail\n4 2026-05-04T03:02:01Z retry: busy"},
	}
	if !slices.Equal(i.edits.Set, want) || len(i.edits.Remove) != 0 {
		t.Errorf("%+v", i.edits)
	}
}

func TestTheFieldsOfADeadLetter(t *testing.T) {
	d := entry(1002, broker.HeaderRetryCount, "3", broker.HeaderRetryGroup, "refunds", broker.HeaderLosses, "2")
	i := rulesOf(plainMemory, 5, "dlq").after(d, outcome.Of(errBusy))
	want := broker.Burial{
		Reason: broker.ReasonMaxAttempts, Detail: "busy", Error: "busy", Source: "refunds", ID: "5-0", Group: "refunds",
		Handler: "refunds.Process", Attempts: 5, Losses: 3, Deliveries: 8,
	}
	if *i.burial != want {
		t.Errorf("%+v", *i.burial)
	}
	if i.edits.Set[0] != (broker.HeaderLine{Name: broker.HeaderRetryCount, Value: "5"}) ||
		!slices.Equal(i.edits.Remove, []string{broker.HeaderRetryGroup, broker.HeaderLosses}) {
		t.Errorf("%+v", i.edits)
	}
	rejected := rulesOf(plainMemory, 5, "dlq").after(entry(1), outcome.DeadLetter(nil))
	if len(rejected.edits.Set) != 0 || rejected.burial.Attempts != 0 || rejected.burial.Error != "the handler answered dead_letter" {
		t.Errorf("rejected at once: %+v %+v", rejected.edits, *rejected.burial)
	}
	malformed := rulesOf(plainMemory, 5, "dlq").malformed(entry(1, broker.HeaderRetryCount, "x"), counters{attempt: 1}, errBusy)
	if len(malformed.edits.Set) != 0 || len(malformed.edits.Remove) != 0 || malformed.burial.Reason != broker.ReasonMalformed {
		t.Errorf("malformed: %+v %+v", malformed.edits, *malformed.burial)
	}
	if got := say(rulesOf(plainMemory, 5, "").malformed(entry(1), counters{attempt: 1}, errBusy)); got != "ack malformed" {
		t.Errorf("malformed without a destination: %s", got)
	}
}

func TestACopyOfAnotherGroupIsNotOurs(t *testing.T) {
	r := rulesOf(plainMemory, 0, "")
	for group, want := range map[string]bool{"refunds": false, "audit": true, "": true} {
		if got := r.elsewhere(entry(1, broker.HeaderRetryGroup, group)); got != want {
			t.Errorf("retry-group %q: %v", group, got)
		}
	}
	if r.elsewhere(entry(1)) {
		t.Error("a message without a group is not ours")
	}
}

// life drives one message through rules as a server would, until it is settled for good.
type life struct {
	r      *rules
	d      *broker.Delivery
	seen   []int64
	burial *broker.Burial
	edits  broker.Edits
	acked  string
}

func (l *life) edit(e broker.Edits) {
	next := entry(1)
	next.Burial = l.d.Burial
	next.Headers = slices.DeleteFunc(slices.Clone(l.d.Headers), func(h broker.HeaderLine) bool {
		return slices.Contains(e.Remove, h.Name) ||
			slices.ContainsFunc(e.Set, func(s broker.HeaderLine) bool { return s.Name == h.Name })
	})
	next.Headers = append(next.Headers, e.Set...)
	l.d = next
}

// run hands the message out until it is acknowledged or buried. crash says whether the process dies while the message
// waits in its memory: a peer then takes the entry.
func (l *life) run(t *rapid.T, answers func() outcome.HandlerOutcome, crash func() bool) {
	for range 1000 {
		c := count(l.d, l.r.caps.PacksFailures)
		if i, over := l.r.overtaken(l.d, c); over {
			l.burial, l.edits = i.burial, i.edits
			return
		}
		l.seen = append(l.seen, c.attempt)
		i := l.r.decide(l.d, c, answer(answers()), someTime)
		switch i.action {
		case broker.Ack:
			l.acked = i.discard
			if i.discard == "" {
				l.acked = "ack"
			}
			return
		case broker.Bury:
			l.burial = i.burial
			l.edit(i.edits)
			return
		case broker.Copy, broker.Delay:
			l.edit(i.edits)
		case broker.Keep:
			if i.parked && !crash() {
				l.edit(i.copy)
			} else {
				kept := *l.d
				kept.Count = i.count + 1
				l.d = &kept
			}
		}
		if i.delay < 0 || i.delay > maxDelay || i.park < 0 || i.park > maxDelay {
			t.Fatalf("delay %s, parked for %s", i.delay, i.park)
		}
	}
	t.Fatalf("still alive after %d runs", len(l.seen))
}

func failing(t *rapid.T) func() outcome.HandlerOutcome {
	return func() outcome.HandlerOutcome {
		switch rapid.IntRange(0, 3).Draw(t, "failure") {
		case 0:
			return outcome.Retry()
		case 1:
			return outcome.RetryAfter(time.Duration(rapid.Int64().Draw(t, "delay")))
		case 2:
			return outcome.Of(errors.New(rapid.String().Draw(t, "error")))
		}
		return outcome.HandlerOutcome{}
	}
}

func TestACapOfNMeansExactlyNRunsInEveryMode(t *testing.T) {
	for mode, caps := range modes {
		t.Run(mode, rapid.MakeCheck(func(t *rapid.T) {
			n := rapid.Int64Range(1, 30).Draw(t, "cap")
			l := &life{r: rulesOf(caps, n, "dlq"), d: entry(1)}
			l.run(t, failing(t), func() bool { return rapid.Bool().Draw(t, "crash") })
			for i, attempt := range l.seen {
				if attempt != int64(i)+1 {
					t.Fatalf("attempts seen: %v", l.seen)
				}
			}
			retries, _ := l.d.Header(broker.HeaderRetryCount)
			if int64(len(l.seen)) != n || l.burial == nil || l.burial.Attempts != n || retries != strconv.FormatInt(n, 10) {
				t.Fatalf("%d runs, burial %+v, retry-count %q", len(l.seen), l.burial, retries)
			}
			// Whoever reads the dead letter begins anew, and so does the one after.
			m := rapid.Int64Range(1, 5).Draw(t, "second cap")
			second := &life{r: rulesOf(caps, m, "dlq2"), d: l.d}
			second.d.Burial = l.burial
			second.run(t, failing(t), func() bool { return false })
			if int64(len(second.seen)) != m || second.seen[0] != 1 || second.burial.Attempts != n+m {
				t.Fatalf("second life: runs %v, burial %+v", second.seen, second.burial)
			}
		}))
	}
}

func TestHistoryIsBoundedWhateverTheErrorsAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		history := rapid.StringN(-1, -1, 5000).Draw(t, "earlier")
		for i := range rapid.IntRange(1, 15).Draw(t, "failures") {
			text := string(rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(t, "error"))
			history = extendHistory(history, int64(i)+1, someTime, "fail", text)
		}
		lines := strings.Split(history, "\n")
		if len(lines) > maxHistory || !utf8.ValidString(history) || strings.ContainsAny(history, "\r\v\f\u0085\u2028\u2029") {
			t.Fatalf("%d lines: %q", len(lines), history)
		}
		for _, line := range lines {
			if len(line) > maxHistoryLine {
				t.Fatalf("a line of %d bytes", len(line))
			}
		}
	})
}

func TestTextsAreBoundedAndValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Repeat(string(rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "unit")), rapid.IntRange(0, 60).Draw(t, "times"))
		limit := rapid.IntRange(60, 400).Draw(t, "limit")
		for name, got := range map[string]string{"shorten": shorten(s, limit), "abridge": abridge(s, limit)} {
			if len(got) > limit || !utf8.ValidString(got) {
				t.Fatalf("%s: %d bytes of %d, valid %v", name, len(got), limit, utf8.ValidString(got))
			}
			if len(s) <= limit && utf8.ValidString(s) && got != s {
				t.Fatalf("%s changed a text that fits: %q to %q", name, s, got)
			}
		}
	})
	long := "head" + strings.Repeat("x", 1<<20) + "tail"
	if got := abridge(long, maxDetail); !strings.HasPrefix(got, "head") || !strings.HasSuffix(got, "tail") {
		t.Errorf("%q … %q", got[:10], got[len(got)-10:])
	}
}

type badError struct{ fields map[string]string }

func (e *badError) Error() string { return e.fields["x"] + string(make([]byte, -len(e.fields)-1)) }

func TestACauseWhoseErrorMethodPanicsIsDescribed(t *testing.T) {
	var null *badError
	for _, err := range []error{null, &badError{}} {
		if got := errorText(err); !strings.Contains(got, "badError") || !strings.Contains(got, "panicked") {
			t.Errorf("%q", got)
		}
	}
	if errorText(nil) != "" || errorText(errBusy) != "busy" {
		t.Error("plain errors")
	}
}
