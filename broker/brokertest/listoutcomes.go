package brokertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
)

// row is an outcome, and what becomes of a message that always ends so: without a cap and a dead letter, with a cap of
// three, with a dead letter, and with both. A plain list lets an immediate retry go where nothing caps it.
type row struct {
	name   string
	answer func(ctx context.Context, n int, c call) outcome.HandlerOutcome
	// fails: it is tried again.
	fails bool
	// immediate: it is tried again at once.
	immediate bool
	// discarded is why it is gone where there is no dead letter, and reason why it is a dead letter where there is one.
	discarded, reason string
}

var listRows = []row{
	{name: "Ack", answer: acks},
	{name: "Drop", answer: always(outcome.Drop()), discarded: "dropped"},
	{name: "Retry", answer: always(outcome.Retry()), fails: true, immediate: true, reason: broker.ReasonMaxAttempts},
	{name: "RetryAfter", answer: always(outcome.RetryAfter(30 * time.Millisecond)), fails: true, reason: broker.ReasonMaxAttempts},
	{name: "error", answer: func(context.Context, int, call) outcome.HandlerOutcome { return outcome.Of(errors.New("boom")) }, fails: true, reason: broker.ReasonMaxAttempts},
	{name: "panic", answer: func(context.Context, int, call) outcome.HandlerOutcome { panic("boom") }, fails: true, reason: broker.ReasonMaxAttempts},
	{name: "DeadLetter", answer: always(outcome.DeadLetter(errors.New("boom"))), discarded: "rejected", reason: broker.ReasonRejected},
}

// gone tells that the message is given up after its first failure.
func (r row) gone(k kind, c caps) bool { return r.immediate && !k.reliable && !c.capped && !c.letters }

// listOutcomes: every outcome without and with caps, on every kind of list.
func listOutcomes(t *testing.T, target Target) {
	meterReader()
	type played struct {
		*listSubject
		row
		caps
		calls int
	}
	s := newService(target)
	var all []played
	for _, k := range kinds {
		for _, r := range listRows {
			for _, c := range allCaps {
				p := played{row: r, caps: c, calls: 1}
				answer := r.answer
				if r.fails && !r.gone(k, c) {
					p.calls = min(c.limit(), maxAttempts)
					if !c.capped && !c.letters { // nothing else would ever end it
						answer = func(ctx context.Context, n int, run call) outcome.HandlerOutcome {
							if n >= maxAttempts {
								return outcome.Ack()
							}
							return r.answer(ctx, n, run)
						}
					}
				}
				p.listSubject = s.list(r.name+", "+c.name, k, answer)
				options := []app.MountOption{app.Backoff(app.Exponential{Initial: 20 * time.Millisecond, NoJitter: true})}
				if c.capped {
					options = append(options, app.MaxAttempts(maxAttempts))
				}
				if c.letters {
					options = append(options, app.DeadLetter(p.deadLetter))
				}
				p.mount(options...)
				all = append(all, p)
			}
		}
	}
	s.start(t)
	for _, p := range all {
		s.publishItem(t, p.stream, payload, headerOptions()...)
	}
	for _, p := range all {
		p.called(t, p.calls)
		awaitListRest(t, target, p.stream, p.delaySet)
	}
	s.stop(t)
	meters := readMeters(t)
	for _, p := range all {
		calls := p.seen()
		name := p.listSubject.name
		sawAttempts(t, name, calls, p.calls)
		for _, run := range calls {
			if m := run.message; run.payload != string(payload) || m.ID != calls[0].message.ID || m.Source != p.stream || m.Group != "" || m.Losses != 0 {
				t.Errorf("%s: the handler saw %.60q, %+v", name, run.payload, m)
			}
			for header, value := range appHeaders {
				if got := run.message.Headers.Get(header); got != value {
					t.Errorf("%s: header %.20q is %.60q, want %.60q", name, header, got, value)
				}
			}
		}
		letters := p.listSubject.letters(t)
		want := counted{}
		switch {
		case p.row.gone(p.kind, p.caps):
			want["discarded dropped"] = 1
		case p.caps.letters && p.reason != "":
			want["dead_letters "+p.reason] = 1
		case p.fails && p.caps.capped:
			want["discarded cap"] = 1
		case p.discarded != "":
			want["discarded "+p.discarded] = 1
		}
		got := maps.Clone(meters[p.stream])
		maps.DeleteFunc(got, func(label string, _ int64) bool { return strings.HasPrefix(label, "deliveries") })
		if !maps.Equal(got, want) {
			t.Errorf("%s: counted %v, want %v", name, got, want)
		}
		if (len(letters) == 1) != (p.caps.letters && p.reason != "") {
			t.Errorf("%s: %d dead letters", name, len(letters))
		}
		for _, letter := range letters {
			p.checkLetter(t, letter, p.reason, p.row.fails, len(calls))
		}
	}
}

// checkLetter: the dead letter is the message, with the facts of its death.
func (one *listSubject) checkLetter(t *testing.T, letter entry, reason string, failed bool, calls int) {
	t.Helper()
	count := ""
	if failed {
		count = fmt.Sprint(calls)
	}
	for name, want := range map[string]string{
		broker.FieldReason: reason, broker.FieldSource: one.stream, broker.FieldGroup: "", broker.FieldHandler: one.stream,
		broker.FieldDeliveries: fmt.Sprint(calls), fieldPayload: string(payload), headerPrefix + broker.HeaderRetryCount: count,
		headerPrefix + broker.HeaderMessageID: one.seen()[0].message.ID,
	} {
		if got := letter.last(name); got != want {
			t.Errorf("%s: the dead letter's %s is %.60q, want %.60q", one.name, name, got, want)
		}
	}
	for name, want := range appHeaders {
		if got := letter.header(name); got != want {
			t.Errorf("%s: the dead letter's header %.20q is %.60q, want %.60q", one.name, name, got, want)
		}
	}
	if number(letter, broker.FieldAt) == 0 || letter.hasHeader(broker.HeaderLosses) {
		t.Errorf("%s: the dead letter is %.300q", one.name, letter.fields)
	}
}
