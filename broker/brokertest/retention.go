package brokertest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// Retention shows that a stream and a dead letter need not grow for ever: a dead letter keeps exactly the newest that fit its
// bound, and a stream loses what every group is done with and nothing else.
func Retention(t *testing.T, target Target) { retentionArea.run(t, target) }

var retentionArea = area{name: "Retention", bodies: []body{
	{name: "ADeadLetterKeepsTheNewest", run: keepsTheNewest, paused: true},
	{name: "AGroupThatIsBehindKeepsWhatItNeeds", run: keepsForTheSlowest, paused: true},
	{name: "WhatIsPendingIsNotTrimmed", run: keepsThePending, paused: true},
	{name: "RetriesDoNotFillTheStream", run: trimsRetries, paused: true},
}}

// bounded is a mount whose dead letter keeps so many of its newest.
type bounded struct {
	key     string
	spec    streamrt.Spec
	to      broker.Destination
	kept    int
	options []app.RetainOption
}

// keepsTheNewest: bound 5, bury 8; bound 1; none. What is removed is counted.
func keepsTheNewest(t *testing.T, target Target) {
	const buried = 8
	meterReader()
	s := newService(target)
	var all []bounded
	for _, b := range []bounded{
		{kept: 5, options: []app.RetainOption{app.KeepLast(5)}},
		{kept: 1, options: []app.RetainOption{app.KeepLast(1)}},
		{kept: 5, options: []app.RetainOption{app.KeepLast(5), app.KeepFor(time.Hour)}},
		{kept: buried},
	} {
		for structure := range 3 {
			b.key = uniqueKeys().stream
			b.spec, b.to = streamrt.Spec{List: b.key, Reliable: structure == 1}, broker.List(b.key)
			if structure == 0 {
				b.spec, b.to = streamrt.Spec{Stream: b.key, Group: "g"}, broker.Stream(b.key)
			}
			b.spec.Name = b.key
			s.mount(b.spec, &recorder{answer: always(outcome.DeadLetter(errBroken))}, app.DeadLetter(b.key+".dlq", b.options...))
			all = append(all, b)
		}
	}
	s.start(t)
	// One after the other: which is the newest is the order of burying.
	for i := range buried {
		for _, b := range all {
			if err := s.Publish(t.Context(), b.to, []byte(strconv.Itoa(i))); err != nil {
				t.Fatal(err)
			}
		}
		for _, b := range all {
			await(t, fmt.Sprintf("message %d of %s is buried", i, b.key), func(context.Context) bool {
				bodies := b.letters(t, target)
				return len(bodies) > 0 && bodies[len(bodies)-1] == strconv.Itoa(i)
			})
		}
	}
	s.stop(t)
	counts := readMeters(t)
	for _, b := range all {
		what := fmt.Sprintf("%s, %d kept", b.to.Structure(), b.kept)
		var want []string
		for i := buried - b.kept; i < buried; i++ {
			want = append(want, strconv.Itoa(i))
		}
		if got := b.letters(t, target); !slices.Equal(got, want) {
			t.Errorf("%s: the dead letter has %q, want %q", what, got, want)
		}
		if got := counts[b.key]["trimmed "+b.key+".dlq"]; got != int64(buried-b.kept) {
			t.Errorf("%s: counted %d removed, want %d", what, got, buried-b.kept)
		}
	}
}

// letters are the bodies of the dead letters, the oldest first.
func (b bounded) letters(t testing.TB, target Target) []string {
	t.Helper()
	var all []entry
	if b.spec.Stream != "" {
		all = mustEntries(t, target, b.key+".dlq")
	} else {
		all = listItems(t, target, b.key+".dlq")
	}
	var bodies []string
	for _, e := range all {
		bodies = append(bodies, e.last(fieldPayload))
	}
	return bodies
}

// trims mounts a stream that needs trimming from the start, and returns what waits until the service has trimmed.
func (s *service) trims(t testing.TB) (trimmed func()) {
	t.Helper()
	k := uniqueKeys()
	addMessages(t, s.target, k.stream, 3)
	if err := s.target.Client.XGroupCreate(t.Context(), k.stream, k.group, "$").Err(); err != nil {
		t.Fatal(err)
	}
	s.mount(streamrt.Spec{Name: k.stream, Stream: k.stream, Group: k.group}, &recorder{answer: acks}, app.Retain(app.KeepLast(1)))
	return func() { t.Helper(); awaitLength(t, s.target, k.stream, 1) }
}

// addMessages adds n messages, each with its number as its body.
func addMessages(t testing.TB, target Target, stream string, n int) {
	t.Helper()
	_, err := target.Client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range n {
			p.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: []string{fieldPayload, strconv.Itoa(i)}})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func awaitLength(t testing.TB, target Target, stream string, want int64) {
	t.Helper()
	await(t, fmt.Sprintf("XLEN %s is %d", stream, want), func(ctx context.Context) bool {
		return length(ctx, target, stream) == want
	})
}

func length(ctx context.Context, target Target, stream string) int64 {
	return target.Client.XLen(ctx, stream).Val()
}

// awaitRuns waits until the handler has run so often and the group holds nothing.
func awaitRuns(t testing.TB, target Target, r *recorder, n int, stream, group string) {
	t.Helper()
	await(t, fmt.Sprintf("%d runs for group %s of %s", n, group, stream), func(ctx context.Context) bool {
		if r.count() < n {
			return false
		}
		held, err := target.Client.XPending(ctx, stream, group).Result()
		return err == nil && held.Count == 0
	})
}

// keepsForTheSlowest: what one group is done with stays until the other one is, too.
func keepsForTheSlowest(t *testing.T, target Target) {
	const messages = 1000
	k := uniqueKeys()
	process := func(group string, r *recorder) *service {
		s := newService(target)
		s.mount(streamrt.Spec{Name: k.stream + "." + group, Stream: k.stream, Group: group}, r, app.Retain(app.DeleteAcked()))
		return s
	}
	if err := target.Client.XGroupCreateMkStream(t.Context(), k.stream, "slow", "0").Err(); err != nil {
		t.Fatal(err)
	}
	addMessages(t, target, k.stream, messages)
	fast, slow := &recorder{answer: acks}, &recorder{answer: acks}
	s := process("fast", fast)
	s.start(t)
	awaitRuns(t, target, fast, messages, k.stream, "fast")
	s.stop(t)

	s = process("fast", fast)
	trimmed := s.trims(t)
	s.start(t)
	trimmed()
	if n := length(t.Context(), target, k.stream); n != messages {
		t.Errorf("one group has read nothing: XLEN %d, want %d", n, messages)
	}
	s.stop(t)

	s = process("slow", slow)
	s.start(t)
	awaitRuns(t, target, slow, messages, k.stream, "slow")
	s.stop(t)
	if n := len(slow.bodies()); n != messages {
		t.Errorf("the slow group got %d different messages, want %d", n, messages)
	}
	s = process("slow", slow)
	s.start(t)
	awaitLength(t, target, k.stream, 0)
}

// keepsThePending: a hundred messages in hand, and a bound of ten.
func keepsThePending(t *testing.T, target Target) {
	const messages, bound = 100, 10
	k := uniqueKeys()
	addMessages(t, target, k.stream, messages)
	release := make(chan struct{})
	r := &recorder{answer: func(context.Context, int, call) outcome.HandlerOutcome {
		<-release
		return outcome.Ack()
	}}
	process := func() *service {
		s := newService(target)
		s.mount(streamrt.Spec{Name: k.stream, Stream: k.stream, Group: k.group}, r,
			app.Retain(app.KeepLast(bound), app.KeepFor(time.Second)), app.Concurrency(messages))
		return s
	}
	s := process()
	trimmed := s.trims(t)
	s.start(t)
	await(t, "all messages are in hand", func(context.Context) bool { return r.count() == messages })
	trimmed()
	for _, c := range r.seen() {
		found, err := target.Client.XRange(t.Context(), k.stream, c.message.EntryID, c.message.EntryID).Result()
		if err != nil || len(found) != 1 {
			t.Fatalf("entry %s is pending: XRANGE finds %d, %v", c.message.EntryID, len(found), err)
		}
	}
	close(release)
	awaitRuns(t, target, r, messages, k.stream, k.group)
	s.stop(t)
	s = newService(target)
	s.mount(streamrt.Spec{Name: k.stream, Stream: k.stream, Group: k.group}, r, app.Retain(app.KeepLast(bound)))
	s.start(t)
	await(t, "the stream shrinks", func(ctx context.Context) bool { return length(ctx, target, k.stream) <= bound })
}

// trimsRetries: every message leaves three copies.
func trimsRetries(t *testing.T, target Target) {
	const retries, bound = 3, 10
	messages := 10_000
	if target.bubble != nil || slices.Contains(target.Lacks, CommandStats) {
		messages = 1000 // the embedded server looks at each entry for every command
	}
	k := uniqueKeys()
	addMessages(t, target, k.stream, messages)
	r := &recorder{answer: failsUntil(retries+1, outcome.Retry())}
	process := func() *service {
		s := newService(target)
		s.mount(streamrt.Spec{Name: k.stream, Stream: k.stream, Group: k.group}, r, app.Retain(app.KeepLast(bound)))
		return s
	}
	s := process()
	s.start(t)
	awaitRuns(t, target, r, messages*(retries+1), k.stream, k.group)
	s.stop(t)
	s = process()
	s.start(t)
	awaitLength(t, target, k.stream, bound)
}
