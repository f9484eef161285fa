package brokertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// Malformed shows that nothing which a producer sends or a handler does to itself reaches other messages: records that
// cannot be decoded, bodies of any bytes and handlers that panic (contract §8, §11). It needs nothing but streams.
func Malformed(t *testing.T, target Target) { malformedArea.run(t, target) }

var malformedArea = area{name: "Malformed", bodies: []body{
	{name: "MalformedRecordsHoldNothingUp", run: malformedRecords},
	{name: "BodiesSurviveEveryHop", run: bodiesSurvive},
	{name: "APanicDisturbsNobody", run: panicDisturbsNobody},
}}

// order is what the handler of the malformed records wants.
type order struct{ ID int }

// malformedRecords: records that cannot be decoded go to the dead letter at once, byte for byte, without an attempt;
// without one they are acknowledged and counted. Nothing waits behind them.
func malformedRecords(t *testing.T, target Target) {
	target = target.mortal()
	noise := make([]byte, 1<<20)
	rand.Read(noise)
	records := [][]any{
		{"h:x", "no payload"},
		{fieldPayload, ""},
		{fieldPayload, `{"ID":`},
		{fieldPayload, `"another type"`},
		{fieldPayload, noise},
		{"foreign", "1", "fields", "2"},
		{"", "an empty name", fieldPayload, "not JSON"},
	}
	meterReader()
	for _, letters := range []bool{true, false} {
		for _, m := range ownRecords {
			k, handled := uniqueKeys(), make(chan order, len(records)+1)
			svc := newService(target)
			var options []app.MountOption
			if letters {
				options = append(options, app.DeadLetter(k.deadLetter))
			}
			svc.Mount(streamrt.Subscribe(m.spec(k), streamrt.JSON, func(_ context.Context, o order) outcome.HandlerOutcome {
				handled <- o
				return outcome.Ack()
			}), options...)
			svc.start(t)
			for _, values := range records {
				if err := target.Client.XAdd(t.Context(), &redis.XAddArgs{Stream: k.stream, Values: values}).Err(); err != nil {
					t.Fatal(err)
				}
			}
			add(t, target, k.stream, `{"ID":7}`)
			awaitRest(t, target, k)
			svc.stop(t)
			what := fmt.Sprintf("%s, dead letter %v", m.name, letters)
			if n := len(handled); n != 1 || (<-handled).ID != 7 {
				t.Errorf("%s: %d records reached the handler", what, n)
			}
			counted := readMeters(t)[k.stream]
			if !letters {
				if counted["discarded malformed"] != int64(len(records)) {
					t.Errorf("%s: counted %v", what, counted)
				}
				continue
			}
			originals, buried := mustEntries(t, target, k.stream), mustEntries(t, target, k.deadLetter)
			if len(buried) != len(records) {
				t.Errorf("%s: %d dead letters, want %d", what, len(buried), len(records))
				continue
			}
			for i, e := range buried {
				if e.last(broker.FieldReason) != broker.ReasonMalformed || e.last(broker.FieldAttempts) != "0" || e.last(broker.FieldError) == "" {
					t.Errorf("%s: record %d was buried as %q after %q attempts: %q", what, i,
						e.last(broker.FieldReason), e.last(broker.FieldAttempts), e.last(broker.FieldError))
				}
				j := slices.IndexFunc(originals, func(o entry) bool { return o.id == e.last(broker.FieldID) })
				if j < 0 || !slices.Equal(e.theirs(), originals[j].fields) {
					t.Errorf("%s: the fields of record %d were changed", what, i)
				}
			}
		}
	}
}

// bodiesSurvive: bytes survive every hop, which are the copy, the delay wherever it is kept, the burial and the reader of
// the dead letter.
func bodiesSurvive(t *testing.T, target Target) {
	target = target.mortal()
	for _, m := range modes {
		for _, body := range []string{strings.Repeat(allBytes, 4), ""} {
			k, letter := uniqueKeys(), uniqueKeys()
			letter.stream = k.deadLetter
			r, reader := &recorder{}, &recorder{answer: acks}
			answers := []outcome.HandlerOutcome{outcome.Retry(), outcome.RetryAfter(20 * time.Millisecond), outcome.DeadLetter(errors.New("no"))}
			r.answer = func(_ context.Context, n int, _ call) outcome.HandlerOutcome { return answers[n-1] }
			svc := newService(target)
			svc.mount(m.spec(k), r, app.MaxAttempts(9), app.DeadLetter(k.deadLetter))
			svc.mount(mode{}.spec(letter), reader)
			svc.start(t)
			svc.publish(t, k.stream, []byte(body), broker.Header("bytes", body))
			await(t, m.name+": the dead letter is read", func(context.Context) bool { return reader.count() == 1 })
			awaitRest(t, target, k)
			svc.stop(t)
			for i, c := range append(r.seen(), reader.seen()...) {
				if c.payload != body || c.message.Headers.Get("bytes") != body {
					t.Errorf("%s: hop %d brought %.40q and the header %.40q", m.name, i+1, c.payload, c.message.Headers.Get("bytes"))
				}
			}
			if r.count() != len(answers) {
				t.Errorf("%s: %d calls, want %d", m.name, r.count(), len(answers))
			}
		}
	}
}

// panicDisturbsNobody: a panic costs its own message an attempt and nothing else.
func panicDisturbsNobody(t *testing.T, target Target) {
	target = target.mortal()
	const messages = 100
	k, r := uniqueKeys(), &recorder{}
	r.answer = func(_ context.Context, _ int, c call) outcome.HandlerOutcome {
		if c.payload == "50" {
			orders := map[string]*order{}
			return outcome.RetryAfter(time.Duration(orders["none"].ID))
		}
		return outcome.Ack()
	}
	svc := newService(target)
	svc.mount(mode{}.spec(k), r, app.MaxAttempts(2), app.DeadLetter(k.deadLetter), app.Backoff(app.Exponential{Initial: firstBackoff}))
	svc.start(t)
	for i := range messages {
		svc.publish(t, k.stream, fmt.Append(nil, i))
	}
	awaitRest(t, target, k)
	svc.stop(t)
	for body, n := range r.bodies() {
		if want := map[bool]int{true: 2, false: 1}[body == "50"]; n != want {
			t.Errorf("message %s was handled %d times, want %d", body, n, want)
		}
	}
	buried := mustEntries(t, target, k.deadLetter)
	if len(buried) != 1 || !strings.Contains(buried[0].last(broker.FieldDetail), "nil pointer") {
		t.Errorf("the dead letters are %v", buried)
	}
}
