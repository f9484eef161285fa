package brokertest

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
)

// Fields shows that every way that a message can go keeps its fields as they stood, those of entries that no Publish of
// this library made, too (contract §8, §11). It needs nothing but streams.
func Fields(t *testing.T, target Target) { fieldsArea.run(t, target) }

var fieldsArea = area{name: "Fields", bodies: []body{
	{name: "FieldsAreKeptAsTheyStand", run: fieldsAreKept, paused: true},
}}

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

// fieldsAreKept: repeated names, order and bytes, whichever way the message goes.
func fieldsAreKept(t *testing.T, target Target) {
	s := newService(target)
	retries := []outcome.HandlerOutcome{outcome.RetryAfter(50 * time.Millisecond), outcome.Retry()}
	all := inEveryMode(s, retries, func(c variant[outcome.HandlerOutcome]) {
		c.answer = always(c.is)
		c.mount(app.MaxAttempts(2), app.DeadLetter(c.deadLetter))
	})
	s.start(t)
	args := make([]any, 0, 2*len(foreignFields))
	for _, f := range foreignFields {
		args = append(args, f.name, f.value)
	}
	for _, c := range all {
		if err := target.Client.Do(t.Context(), append([]any{"XADD", c.stream, "*"}, args...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	s.rest(t)
	for _, c := range all {
		source, letters := c.source(t), c.letters(t)
		want := 2
		if c.claims && !(c.set && c.is.Delay() > 0) {
			want = 1
		}
		if len(source) != want || len(letters) != 1 {
			t.Errorf("%s: %d entries on the source and %d dead letters, want %d and 1", c.name, len(source), len(letters), want)
			continue
		}
		for i, e := range slices.Concat(source, letters) {
			if got := e.theirs(); !slices.Equal(got, foreignFields) {
				t.Errorf("%s: entry %d of source and dead letter has the fields\n%q, want\n%q", c.name, i+1, got, foreignFields)
			}
			if id := e.header(broker.HeaderMessageID); i > 0 && id != source[0].id {
				t.Errorf("%s: entry %d of source and dead letter has the message-id %q, want %q", c.name, i+1, id, source[0].id)
			}
		}
		for _, run := range c.seen() {
			if run.payload != allBytes || run.message.ID != source[0].id || run.message.Headers["twice"] != "2" ||
				run.message.Headers[allBytes] != "\xff\xfe" {
				t.Errorf("%s: the handler got %+v with %q", c.name, run.message, run.payload)
			}
		}
	}
}
