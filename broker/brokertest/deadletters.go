package brokertest

import (
	"slices"
	"testing"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// DeadLetters shows that a dead letter starts anew for whoever reads it, however often it failed before (contract §8). It
// needs nothing but streams.
func DeadLetters(t *testing.T, target Target) { deadLettersArea.run(t, target) }

var deadLettersArea = area{name: "DeadLetters", bodies: []body{
	{name: "ADeadLetterStartsAnewForItsReviewer", run: reviewed, paused: true},
}}

// reviewed: one that dies again tells of both deaths, and the last one counts.
func reviewed(t *testing.T, target Target) {
	for _, m := range []mode{{name: "plain reviewer"}, {name: "claiming reviewer", claims: true}} {
		review(t, target, m)
	}
}

func review(t *testing.T, target Target, m mode) {
	work := uniqueKeys()
	letters := keys{stream: work.deadLetter, group: "review", delaySet: work.delaySet, deadLetter: work.stream + ".dlq2"}
	last := keys{stream: letters.deadLetter, group: "archive", delaySet: work.delaySet}

	worker := &recorder{answer: always(outcome.Retry().WithError(errBroken))}
	reviewer := &recorder{answer: always(outcome.Retry().WithError(errDeclined))}
	archive := &recorder{answer: acks}
	s := newService(target)
	s.mount(streamrt.Spec{Name: "worker", Stream: work.stream, Group: work.group}, worker,
		app.MaxAttempts(3), app.DeadLetter(work.deadLetter))
	spec := m.spec(letters)
	spec.Name = "reviewer"
	s.mount(spec, reviewer, app.MaxAttempts(2), app.DeadLetter(letters.deadLetter))
	s.mount(streamrt.Spec{Name: "archive", Stream: last.stream, Group: last.group}, archive)
	s.start(t)
	s.publish(t, work.stream, payload, headerOptions()...)
	awaitRest(t, target, work)
	awaitRest(t, target, letters)
	awaitRest(t, target, last)
	s.stop(t)

	sawAttempts(t, m.name+": the worker", worker.seen(), 3)
	sawAttempts(t, m.name+": the reviewer", reviewer.seen(), 2)
	sawAttempts(t, m.name+": the archive", archive.seen(), 1)
	if t.Failed() {
		return
	}
	id := worker.seen()[0].message.ID
	for _, c := range slices.Concat(reviewer.seen(), archive.seen()) {
		if c.message.ID != id || c.payload != string(payload) || c.message.Headers[allBytes] != allBytes {
			t.Errorf("%s: a reader of a dead letter got %+v with %q", m.name, c.message, c.payload)
		}
		if _, ok := c.message.Headers[broker.HeaderRetryGroup]; ok && c.message.Source == last.stream {
			t.Errorf("%s: the header retry-group has left its stream", m.name)
		}
	}

	source, first, second := mustEntries(t, target, work.stream), mustEntries(t, target, letters.stream), mustEntries(t, target, last.stream)
	for _, c := range reviewer.seen() {
		facts(t, m.name+": what the reviewer is told", c, app.DeadLetterFacts{
			Reason: broker.ReasonMaxAttempts, Source: work.stream, ID: source[2].id, Group: work.group, Handler: "worker",
			Error: errBroken.Error(), Attempts: 3, Deliveries: 3,
		})
	}
	facts(t, m.name+": what the archive is told", archive.seen()[0], app.DeadLetterFacts{
		Reason: broker.ReasonMaxAttempts, Source: letters.stream, ID: first[len(first)-1].id, Group: letters.group,
		Handler: "reviewer", Error: errDeclined.Error(), Attempts: 5, Deliveries: 2,
	})
	want := []string{"3", "4"}
	if m.claims {
		want = want[:1]
	}
	if got := retryCounts(first); !slices.Equal(got, want) {
		t.Errorf("%s: the first dead letter has the entries %q, want %q", m.name, got, want)
	}
	if len(second) != 1 || second[0].header(broker.HeaderRetryCount) != "5" {
		t.Fatalf("%s: the second dead letter has the entries %q, want one with 5", m.name, retryCounts(second))
	}
	for _, name := range fieldsOfBurial {
		if sets := second[0].all(name); len(sets) != 2 {
			t.Errorf("%s: the second dead letter has %s %d times, want 2", m.name, name, len(sets))
		}
	}
	if got := second[0].all(broker.FieldHandler); !slices.Equal(got, []string{"worker", "reviewer"}) {
		t.Errorf("%s: it was buried by %q", m.name, got)
	}
}

// facts compares what a handler was told of a death. Detail is the error here, and the time is the server's.
func facts(t testing.TB, what string, c call, want app.DeadLetterFacts) {
	t.Helper()
	if c.message.DeadLetter == nil {
		t.Errorf("%s: nothing", what)
		return
	}
	got := *c.message.DeadLetter
	if got.At.IsZero() {
		t.Errorf("%s: no time", what)
	}
	want.At, want.Detail = got.At, want.Error
	if got != want {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}
