package brokertest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
)

// foreignFields are an entry as no Publish makes it: names twice, names and values of any bytes, empty ones, fields that
// mean nothing here, and no id.
var foreignFields = []pair{
	{"first", ""},
	{headerPrefix + "twice", "1"},
	{allBytes, allBytes},
	{"twice", "\r\n"},
	{fieldPayload, allBytes},
	{"twice", "\x00"},
	{headerPrefix + "twice", "2"},
	{"", "no name"},
	{headerPrefix, "a header without a name"},
	{headerPrefix + allBytes, "\xff\xfe"},
	{"twice", ""},
}

// Every way that a message can go keeps its fields as they stood: repeated names, order and bytes.
func TestFieldsAreKeptAsTheyStand(t *testing.T) {
	each(t, fieldsAreKept)
}

func TestFieldsAreKeptAsTheyStandOnThePausedClock(t *testing.T) {
	paused(t, fieldsAreKept)
}

func fieldsAreKept(t *testing.T, target Target) {
	type way struct {
		mode
		keys
		o outcome.HandlerOutcome
		r *recorder
	}
	var ways []way
	for _, m := range modes {
		ways = append(ways, way{mode: m, o: outcome.RetryAfter(50 * time.Millisecond)}, way{mode: m, o: outcome.Retry()})
	}
	s := newService(target)
	for i := range ways {
		w := &ways[i]
		w.keys, w.r = uniqueKeys(), &recorder{answer: always(w.o)}
		s.mount(w.spec(w.keys), w.r, app.MaxAttempts(2), app.DeadLetter(w.deadLetter))
	}
	s.start(t)
	args := make([]any, 0, 2*len(foreignFields))
	for _, f := range foreignFields {
		args = append(args, f.name, f.value)
	}
	for _, w := range ways {
		if err := target.Client.Do(t.Context(), append([]any{"XADD", w.stream, "*"}, args...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range ways {
		awaitRest(t, target, w.keys)
	}
	s.stop(t)
	for _, w := range ways {
		what := fmt.Sprintf("%s, %s", w.name, w.o)
		source, letters := mustEntries(t, target, w.stream), mustEntries(t, target, w.deadLetter)
		want := 2
		if w.claims && !(w.set && w.o.Delay() > 0) {
			want = 1
		}
		if len(source) != want || len(letters) != 1 {
			t.Errorf("%s: %d entries on the source and %d dead letters, want %d and 1", what, len(source), len(letters), want)
			continue
		}
		for i, e := range slices.Concat(source, letters) {
			if got := e.theirs(); !slices.Equal(got, foreignFields) {
				t.Errorf("%s: entry %d of source and dead letter has the fields\n%q, want\n%q", what, i+1, got, foreignFields)
			}
			if id := e.header(broker.HeaderMessageID); i > 0 && id != source[0].id {
				t.Errorf("%s: entry %d of source and dead letter has the message-id %q, want %q", what, i+1, id, source[0].id)
			}
		}
		for _, c := range w.r.seen() {
			if c.payload != allBytes || c.message.ID != source[0].id || c.message.Headers["twice"] != "2" ||
				c.message.Headers[allBytes] != "\xff\xfe" {
				t.Errorf("%s: the handler got %+v with %q", what, c.message, c.payload)
			}
		}
	}
}
