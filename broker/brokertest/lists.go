package brokertest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// Lists shows what becomes of the items of a list, plain and reliable, with every outcome and under every cap, and that
// no byte of them is changed on the way (contract §4, §5, §8, §11). It needs nothing but lists and sorted sets.
func Lists(t *testing.T, target Target) { listsArea.run(t, target) }

var listsArea = area{name: "Lists", bodies: []body{
	{name: "OutcomesRowByRow", run: listOutcomes, paused: true},
	{name: "MaxAttemptsIsTheNumberOfCalls", run: listAttempts, paused: true},
	{name: "EveryByteSurvives", run: listBytes, paused: true},
	{name: "EqualPayloadsAreNeverConfused", run: equalPayloads, paused: true},
	{name: "OneHandlerKeepsTheOrder", run: listOrder, paused: true},
	{name: "AStopPutsBackWhatWasNotStarted", run: listStop, paused: true},
	{name: "AStopEndsAReadOfAMinute", run: listStopEndsRead},
	{name: "WhatCannotBeDecodedIsBuried", run: listMalformed, paused: true},
}}

// kind is a way to read a list.
type kind struct {
	name     string
	reliable bool
	set      bool
}

var kinds = []kind{{name: "plain"}, {name: "reliable", reliable: true}, {name: "reliable with a delay-set", reliable: true, set: true}}

// listSubject is a subscription of a list with keys and a handler of its own.
type listSubject struct {
	name string
	kind
	keys
	*recorder
	subscription streamrt.Spec
	service      *service
}

// list prepares a subscription of that kind. The key of the list stands where that of a stream would.
func (s *service) list(name string, k kind, answer func(context.Context, int, call) outcome.HandlerOutcome) *listSubject {
	keys := uniqueKeys()
	one := &listSubject{name: k.name + ", " + name, kind: k, keys: keys, recorder: &recorder{answer: answer}, service: s}
	one.subscription = streamrt.Spec{Name: keys.stream, List: keys.stream, Reliable: k.reliable, Block: time.Second}
	if k.set {
		one.subscription.DelaySet = keys.delaySet
	}
	return one
}

func (one *listSubject) mount(options ...app.MountOption) {
	one.service.mount(one.subscription, one.recorder, options...)
}

// publishItem sends one message to a list.
func (s *service) publishItem(t testing.TB, list string, body []byte, options ...broker.PublishOption) {
	t.Helper()
	if err := s.Publish(context.Background(), broker.List(list), body, options...); err != nil {
		t.Fatal(err)
	}
}

// letters are the dead letters of the subject.
func (one *listSubject) letters(t testing.TB) []entry {
	t.Helper()
	return listItems(t, one.service.target, one.deadLetter)
}

// called waits until the handler has been called so often.
func (one *listSubject) called(t testing.TB, n int) {
	t.Helper()
	await(t, fmt.Sprintf("%s: call %d", one.name, n), func(context.Context) bool { return one.count() >= n })
}

// listAttempts: n is the number of calls, the first included, on every kind of list.
func listAttempts(t *testing.T, target Target) {
	s := newService(target)
	type capped struct {
		*listSubject
		n int
	}
	var all []capped
	for _, k := range kinds {
		for _, n := range []int{1, 2, 5} {
			for _, o := range []outcome.HandlerOutcome{outcome.Retry(), outcome.RetryAfter(20 * time.Millisecond)} {
				one := s.list(fmt.Sprintf("cap %d, %v", n, o), k, always(o))
				one.mount(app.MaxAttempts(n), app.DeadLetter(one.deadLetter))
				all = append(all, capped{one, n})
			}
		}
	}
	s.start(t)
	for _, c := range all {
		s.publishItem(t, c.stream, payload)
	}
	for _, c := range all {
		await(t, c.name+" is dead-lettered", func(ctx context.Context) bool { return target.Client.LLen(ctx, c.deadLetter).Val() == 1 })
		awaitListRest(t, target, c.stream, c.delaySet)
	}
	s.stop(t)
	for _, c := range all {
		sawAttempts(t, c.name, c.seen(), c.n)
		letters := c.letters(t)
		if failures := fmt.Sprint(c.n); len(letters) != 1 || letters[0].header(broker.HeaderRetryCount) != failures || letters[0].last(broker.FieldAttempts) != failures {
			t.Errorf("%s: dead letters %.300q", c.name, letters)
		}
	}
}

// listBytes: what goes through a copy, a delay and a burial, and is read again from the dead letter, is the same bytes.
func listBytes(t *testing.T, target Target) {
	var bytes []byte
	for range 4 {
		for b := range 256 {
			bytes = append(bytes, byte(b))
		}
	}
	contents := map[string]string{
		"every byte": string(bytes), "empty": "", "a megabyte": string(slices.Repeat(bytes, 1024)),
		"the mark": envelopeMark, "an envelope": envelopeMark + "\x83\x01\x80\x41x", "JSON": `{"a":1}`,
	}
	s := newService(target)
	var all []*listSubject
	letters := map[*listSubject]*listSubject{}
	for _, k := range kinds {
		one := s.list("bytes", k, func(_ context.Context, n int, _ call) outcome.HandlerOutcome {
			switch n {
			case 1:
				return outcome.Retry()
			case 2:
				return outcome.RetryAfter(30 * time.Millisecond)
			}
			return outcome.DeadLetter(errors.New("boom"))
		})
		one.mount(app.MaxAttempts(10), app.DeadLetter(one.deadLetter))
		reader := s.list("its dead letters", k, acks)
		reader.stream, reader.subscription.List = one.deadLetter, one.deadLetter
		reader.mount()
		all, letters[one] = append(all, one), reader
	}
	s.start(t)
	for _, one := range all {
		for _, content := range contents {
			s.publishItem(t, one.stream, []byte(content))
		}
	}
	for _, one := range all {
		letters[one].called(t, len(contents))
		awaitListRest(t, target, one.deadLetter, one.deadLetter+".delayed")
	}
	s.stop(t)
	for _, one := range all {
		runs, buried := map[[32]byte]int{}, map[[32]byte]int{}
		for _, run := range one.seen() {
			runs[sha256.Sum256([]byte(run.payload))]++
		}
		for _, run := range letters[one].seen() {
			buried[sha256.Sum256([]byte(run.payload))]++
			if run.message.DeadLetter == nil || run.message.DeadLetter.Reason != broker.ReasonRejected {
				t.Errorf("%s: the reader of the dead letters saw %+v", one.name, run.message)
			}
		}
		for what, content := range contents {
			sum := sha256.Sum256([]byte(content))
			if runs[sum] != 3 || buried[sum] != 1 {
				t.Errorf("%s: %s was handled %d times and read from the dead letter %d times", one.name, what, runs[sum], buried[sum])
			}
		}
	}
}

// equalPayloads: a hundred messages of the same bytes are a hundred messages, whatever becomes of each.
func equalPayloads(t *testing.T, target Target) {
	const n = 100
	s := newService(target)
	var all []*listSubject
	for _, k := range kinds {
		var mu sync.Mutex
		given := map[string]int{}
		one := s.list("equal", k, func(_ context.Context, run int, c call) outcome.HandlerOutcome {
			mu.Lock()
			defer mu.Unlock()
			if _, ok := given[c.message.ID]; !ok {
				given[c.message.ID] = len(given) % 4
			}
			switch {
			case given[c.message.ID] == 3:
				return outcome.DeadLetter(errors.New("boom"))
			case given[c.message.ID] == 0 || run > 1:
				return outcome.Ack()
			case given[c.message.ID] == 1:
				return outcome.Retry()
			}
			return outcome.RetryAfter(20 * time.Millisecond)
		})
		one.mount(app.MaxAttempts(5), app.DeadLetter(one.deadLetter))
		all = append(all, one)
	}
	s.start(t)
	for _, one := range all {
		for range n {
			if err := target.Client.LPush(t.Context(), one.stream, "twin").Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, one := range all {
		one.called(t, n+n/2)
		await(t, one.name+": the dead letters", func(ctx context.Context) bool {
			return target.Client.LLen(ctx, one.deadLetter).Val() == n/4
		})
		awaitListRest(t, target, one.stream, one.delaySet)
	}
	s.stop(t)
	for _, one := range all {
		if got := one.count(); got != n+n/2 || len(one.byMessage()) != n {
			t.Errorf("%s: %d calls of %d messages, want %d of %d", one.name, got, len(one.byMessage()), n+n/2, n)
		}
	}
}

// listOrder: with one slot the handler sees the items in the order in which they were pushed, also across a restart.
func listOrder(t *testing.T, target Target) {
	const n = 300
	s := newService(target)
	var all []*listSubject
	for _, k := range kinds {
		one := s.list("order", k, acks)
		one.mount(app.Concurrency(1))
		all = append(all, one)
	}
	s.start(t)
	push := func(from, to int) {
		for _, one := range all {
			for i := from; i < to; i++ {
				s.publishItem(t, one.stream, fmt.Appendf(nil, "%d", i))
			}
		}
	}
	push(0, n/2)
	s.stop(t)
	next := newService(target)
	for _, one := range all {
		next.mount(one.subscription, one.recorder, app.Concurrency(1))
	}
	next.start(t)
	s = next
	push(n/2, n)
	for _, one := range all {
		one.called(t, n)
	}
	next.stop(t)
	for _, one := range all {
		for i, run := range one.seen() {
			if run.payload != fmt.Sprint(i) {
				t.Errorf("%s: run %d was of item %s", one.name, i, run.payload)
				break
			}
		}
	}
}

// listStop: what waits for a slot goes back to where it was taken from. What has begun and not ended goes there, too, on a
// reliable list, and is lost on a plain one, which is counted.
func listStop(t *testing.T, target Target) {
	meterReader()
	s := newService(target, app.Grace(50*time.Millisecond))
	var all []*listSubject
	for _, k := range kinds {
		one := s.list("stop", k, func(ctx context.Context, _ int, _ call) outcome.HandlerOutcome {
			<-ctx.Done()
			return outcome.Retry()
		})
		one.mount(app.Concurrency(1), app.Prefetch(3))
		for i := range 6 {
			s.publishItem(t, one.stream, fmt.Appendf(nil, "%d", i))
		}
		all = append(all, one)
	}
	s.start(t)
	for _, one := range all {
		one.called(t, 1)
		await(t, one.name+": items wait for the slot", func(ctx context.Context) bool {
			return target.Client.LLen(ctx, one.stream).Val() == 2
		})
	}
	s.stop(t)
	meters := readMeters(t)
	for _, one := range all {
		want, lost := []string{"0", "1", "2", "3", "4", "5"}, int64(0)
		if !one.reliable {
			want, lost = want[1:], 1
		}
		var got []string
		for _, e := range listItems(t, target, one.stream) {
			got = append(got, e.last(fieldPayload))
			if len(e.fields) != 1 {
				t.Errorf("%s: item %s was charged: %q", one.name, e.last(fieldPayload), e.fields)
			}
		}
		if !slices.Equal(got, want) || meters[one.stream]["discarded stopped"] != lost {
			t.Errorf("%s: the list is %v, counted %v", one.name, got, meters[one.stream])
		}
		if keys := target.Client.Exists(t.Context(), ownersOf(one.stream)).Val(); keys != 0 {
			t.Errorf("%s: the registry is left: %v", one.name, target.Client.SMembers(t.Context(), ownersOf(one.stream)).Val())
		}
	}
}

// listStopEndsRead: a stop waits for no read, and loses no item that comes at that moment.
func listStopEndsRead(t *testing.T, target Target) {
	for _, k := range kinds {
		s := newService(target)
		one := s.list("long read", k, acks)
		one.subscription.Block = time.Minute
		one.mount()
		s.start(t)
		s.publishItem(t, one.stream, payload)
		one.called(t, 1)
		awaitListRest(t, target, one.stream, one.delaySet)
		began := time.Now()
		s.stop(t)
		if took := time.Since(began); took > time.Second {
			t.Errorf("%s: the stop took %s", one.name, took)
		}
	}
}

// listMalformed: an item that begins like an envelope and is none goes to the dead letter as it is, without a call.
func listMalformed(t *testing.T, target Target) {
	meterReader()
	bad := []string{envelopeMark, envelopeMark + "\x83\x01", envelopeMark + "\x83\x01\x80\x41", envelopeMark + "no CBOR"}
	s := newService(target)
	var all []*listSubject
	for _, k := range kinds {
		one := s.list("malformed", k, acks)
		one.mount(app.DeadLetter(one.deadLetter))
		all = append(all, one)
	}
	s.start(t)
	for _, one := range all {
		for _, item := range append(bad, "good") {
			if err := target.Client.LPush(t.Context(), one.stream, item).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, one := range all {
		one.called(t, 1)
		awaitListRest(t, target, one.stream, one.delaySet)
	}
	s.stop(t)
	meters := readMeters(t)
	for _, one := range all {
		var got []string
		for _, letter := range one.letters(t) {
			got = append(got, letter.last(fieldPayload))
			if reason := letter.last(broker.FieldReason); reason != broker.ReasonMalformed {
				t.Errorf("%s: buried as %q", one.name, reason)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, slices.Sorted(slices.Values(bad))) {
			t.Errorf("%s: the dead letters are %q", one.name, got)
		}
		if runs := one.bodies(); len(runs) != 1 || runs["good"] != 1 || meters[one.stream]["dead_letters malformed"] != int64(len(bad)) {
			t.Errorf("%s: handled %v, counted %v", one.name, runs, meters[one.stream])
		}
	}
}
