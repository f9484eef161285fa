package brokertest

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// Outcomes runs the matrix of outcomes on the target: {plain, claim} × every way in which a handler ends × {no cap, cap,
// dead letter, both}, and reports each case as a subtest (contract §4 to §8). For each it compares the handler's calls
// and the attempts that they saw, what stands on the source, on the dead letter, in the delay set and in the pending
// list, the payload and the headers byte for byte wherever they stand, and what was counted and logged. It needs nothing
// but streams.
//
// The cases run side by side, in one app and with keys of their own. The library counts through the global OpenTelemetry
// meter provider, which the suite replaces by one that it can read.
func Outcomes(t *testing.T, target Target) { outcomesArea.run(t, target) }

var outcomesArea = area{name: "Outcomes", bodies: []body{
	{name: "TheMatrixHolds", run: matrixHolds, paused: true},
}}

func matrixHolds(t *testing.T, target Target) {
	findings := playOutcomes(t, target)
	if len(findings) != casesPerServer {
		t.Errorf("%d cases were run, want %d", len(findings), casesPerServer)
	}
	for _, f := range findings {
		if target.bubble != nil { // a bubble has no subtests
			for _, problem := range f.problems {
				t.Errorf("%s: %s", f.name, problem)
			}
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			for _, problem := range f.problems {
				t.Error(problem)
			}
		})
	}
}

// finding is what a case came to.
type finding struct {
	name     string
	problems []string
}

// played is a case with its keys and its handler.
type played struct {
	scenario
	keys
	subscription string
	recorder     *recorder
}

// playOutcomes runs all cases and returns one finding for each. It reports to t only what keeps the cases from running.
func playOutcomes(t testing.TB, target Target) []finding {
	t.Helper()
	meterReader() // before the app makes its counters
	ctx := context.Background()
	prefix := "brokertest." + rand.Text()
	began, err := serverTime(ctx, target)
	if err != nil {
		t.Fatal(err)
	}

	s := newService(target)
	var all []*played
	for n, sc := range scenarios() {
		p := &played{scenario: sc, keys: newKeys(prefix, n), recorder: sc.handler()}
		p.subscription = prefix + "." + strings.ReplaceAll(sc.name(), " ", "_")
		s.mount(sc.spec(p.subscription, p.keys), p.recorder, sc.options(p.keys)...)
		all = append(all, p)
	}
	s.start(t)
	for _, p := range all {
		s.publish(t, p.stream, payload, headerOptions()...)
	}
	// Nothing pending, nothing delayed and nothing unread: from here on the server has nothing to hand out.
	for _, p := range all {
		await(t, p.name()+" comes to rest", func(ctx context.Context) bool {
			st, err := look(ctx, target.Client, p.stream, p.group, p.delaySet)
			return err == nil && st.atRest()
		})
	}
	s.stop(t)
	ended, err := serverTime(ctx, target)
	if err != nil {
		t.Fatal(err)
	}

	meters := readMeters(t)
	b := target.Broker()
	findings := make([]finding, len(all))
	for i, p := range all {
		c := &check{played: p, expectation: p.expect(), resolve: b.ResolveKey, began: began, ended: ended}
		if err := c.read(ctx, target); err != nil {
			c.problem("%v", err)
		} else {
			c.all(meters[p.subscription], s.log.of(p.subscription))
		}
		findings[i] = finding{p.name(), c.problems}
	}
	if err := b.Close(ctx); err != nil {
		t.Errorf("closing a broker that was not used: %v", err)
	}
	return findings
}

// serverTime is the server's clock, in ms.
func serverTime(ctx context.Context, target Target) (int64, error) {
	now, err := target.Client.Time(ctx).Result()
	if err != nil {
		return 0, err
	}
	return now.UnixMilli(), nil
}

// read asks the server for everything that the case left there.
func (c *check) read(ctx context.Context, target Target) error {
	var errs [3]error
	stream, deadLetter, delaySet := c.resolve(c.stream), c.resolve(c.deadLetter), c.resolve(c.delaySet)
	c.state, errs[0] = look(ctx, target.Client, stream, c.group, delaySet)
	c.source, errs[1] = entries(ctx, target.Client, stream)
	c.letters, errs[2] = entries(ctx, target.Client, deadLetter)
	c.runs = c.recorder.seen()
	return errors.Join(errs[:]...)
}

// all compares what there is with what is expected.
func (c *check) all(meters counted, log []string) {
	c.checkCalls()
	c.checkState()
	c.checkSource()
	c.checkLetter()
	c.checkCounted(meters)
	c.checkLog(log)
}

// atLeast compares a time between two runs with the least that it may be. A server tells how long an entry has been
// idle in whole milliseconds, so that a claimed one may be up to one of them early.
func (c *check) atLeast(gap, least time.Duration) bool {
	if c.claims && least >= claimTime {
		least -= time.Millisecond
	}
	return gap >= least
}

// number reads a field that holds one.
func number(e entry, name string) int64 {
	n, err := strconv.ParseInt(e.last(name), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// fieldsOfBurial are what every dead letter has.
var fieldsOfBurial = []string{
	broker.FieldReason, broker.FieldDetail, broker.FieldSource, broker.FieldDeliveries, broker.FieldID, broker.FieldGroup,
	broker.FieldHandler, broker.FieldAttempts, broker.FieldLosses, broker.FieldError, broker.FieldAt,
}
