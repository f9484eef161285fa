package brokertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
)

// ReliableLists shows that a crash loses no item of a reliable list, that only what a dead process had in hand is put
// back, in order and charged with one loss, and that a stop is no event in an item's life (contract §5, §9, §11). It
// needs nothing but lists and sorted sets.
func ReliableLists(t *testing.T, target Target) { reliableListsArea.run(t, target) }

var reliableListsArea = area{name: "ReliableLists", bodies: []body{
	{name: "ItemsOfADeadProcessAreHandledInOrder", run: itemsOfADeadProcess, paused: true},
	{name: "ItemsOfALivingProcessAreLeftAlone", run: itemsOfALivingProcess, paused: true},
	{name: "MaxDeliveriesIsTheNumberOfDeaths", run: itemDeathsUpToTheCap, paused: true},
	{name: "FourDeploymentsCountForNothing", run: fourDeployments},
	{name: "AnItemThatIsPushedToADeadReadIsHandled", run: deadRead, paused: true},
	{name: "WhatALaterVersionWroteIsPutOff", run: laterVersion, paused: true},
	{name: "AFullServerCanBeEmptied", run: fullList, own: true, needs: []Feature{ConfigSet}},
}}

// deadOwner is what a process that died long ago is called in the registry.
const deadOwner = "dead:dead"

// abandonItems leaves items in hand of a process that has died, the first of which it took first.
func abandonItems(t testing.TB, target Target, list string, items ...string) {
	t.Helper()
	if err := target.Client.SAdd(t.Context(), ownersOf(list), deadOwner).Err(); err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		if err := target.Client.LPush(t.Context(), inFlightOf(list, deadOwner), item).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// itemsOfADeadProcess: what a dead process had in hand is handled once more, in its order and with one loss. It leaves the
// registry when that is over.
func itemsOfADeadProcess(t *testing.T, target Target) {
	target = target.mortal()
	s := newService(target)
	one := s.list("dead", kinds[1], acks)
	abandonItems(t, target, one.stream, "0", "1", "2", "3")
	one.mount(app.Concurrency(1), app.MaxDeliveries(2))
	s.start(t)
	one.called(t, 4)
	await(t, "the dead process leaves the registry", func(ctx context.Context) bool {
		return !target.Client.SIsMember(ctx, ownersOf(one.stream), deadOwner).Val()
	})
	awaitListRest(t, target, one.stream, one.delaySet)
	s.stop(t)
	var got []string
	for _, run := range one.seen() {
		got = append(got, run.payload)
		if m := run.message; m.Losses != 1 || m.Attempt != 1 || m.ID == "" {
			t.Errorf("item %s came with %+v", run.payload, m)
		}
	}
	if !slices.Equal(got, []string{"0", "1", "2", "3"}) {
		t.Errorf("handled %v", got)
	}
}

// itemsOfALivingProcess: a process that starts takes nothing from one that is alive, however long its handlers run.
func itemsOfALivingProcess(t *testing.T, target Target) {
	target = target.mortal()
	slow := newService(target)
	one := slow.list("slow", kinds[1], acksAfter(4*livenessTTL))
	one.mount(app.Concurrency(5))
	slow.start(t)
	for i := range 5 {
		slow.publishItem(t, one.stream, fmt.Appendf(nil, "%d", i))
	}
	one.called(t, 5)
	other := newService(target)
	taken := &recorder{answer: acks}
	other.mount(one.subscription, taken)
	other.start(t)
	awaitListRest(t, target, one.stream, one.delaySet)
	slow.stop(t)
	other.stop(t)
	if n := one.count(); n != 5 || taken.count() != 0 {
		t.Errorf("%d runs in the process that had the items, %d in the other one", n, taken.count())
	}
}

// itemDeathsUpToTheCap: an item that outlived as many processes as it may is buried without a call.
func itemDeathsUpToTheCap(t *testing.T, target Target) {
	target = target.mortal()
	s := newService(target)
	one := s.list("killer", kinds[1], acks)
	lost := func(n int, body string) string {
		return fmt.Sprintf("%s\x83\x01\x81\x82\x46losses\x41%d\x41%s", envelopeMark, n, body)
	}
	abandonItems(t, target, one.stream, lost(1, "1"), lost(2, "2"))
	one.mount(app.MaxDeliveries(3), app.DeadLetter(one.deadLetter))
	s.start(t)
	one.called(t, 1)
	await(t, "one is buried", func(ctx context.Context) bool { return target.Client.LLen(ctx, one.deadLetter).Val() == 1 })
	awaitListRest(t, target, one.stream, one.delaySet)
	s.stop(t)
	letters := one.letters(t)
	if runs := one.bodies(); len(runs) != 1 || runs["1"] != 1 {
		t.Errorf("handled %v", runs)
	}
	if got := letters[0]; got.last(fieldPayload) != "2" || got.last(broker.FieldReason) != broker.ReasonMaxDeliveries || got.last(broker.FieldLosses) != "3" {
		t.Errorf("the dead letter is %q", got.fields)
	}
}

// fourDeployments: after four stops during its long handler an item is at its first attempt and has lost no owner.
func fourDeployments(t *testing.T, target Target) {
	const stops = 4
	target = target.mortal()
	one := newService(target).list("deployed", kinds[1], func(ctx context.Context, n int, _ call) outcome.HandlerOutcome {
		if n > stops {
			return outcome.Ack()
		}
		<-ctx.Done()
		return outcome.Of(context.Cause(ctx))
	})
	calls := make(chan call, stops+1)
	answer := one.answer
	var n int
	one.answer = func(ctx context.Context, _ int, c call) outcome.HandlerOutcome {
		n++
		calls <- c
		return answer(ctx, n, c)
	}
	for i := range stops + 1 {
		s := newService(target, app.Grace(50*time.Millisecond))
		s.mount(one.subscription, one.recorder, app.MaxAttempts(2), app.MaxDeliveries(3))
		s.start(t)
		if i == 0 {
			s.publishItem(t, one.stream, payload)
		}
		one.called(t, i+1)
		if i == stops {
			awaitListRest(t, target, one.stream, one.delaySet)
		}
		s.stop(t)
		if m := (<-calls).message; m.Attempt != 1 || m.Losses != 0 {
			t.Errorf("run %d came with attempt %d and losses %d", i+1, m.Attempt, m.Losses)
		}
	}
}

// deadRead: the server still moves an item for the read of a process that has died, and it is handled all the same. Until
// then the dead process stays in the registry.
func deadRead(t *testing.T, target Target) {
	target = target.mortal()
	s := newService(target)
	one := s.list("dead read", kinds[1], acks)
	abandonItems(t, target, one.stream)
	one.mount()
	s.start(t)
	time.Sleep(livenessTTL / 2)
	if !target.Client.SIsMember(t.Context(), ownersOf(one.stream), deadOwner).Val() {
		t.Error("the dead process left the registry before its read could have ended")
	}
	abandonItems(t, target, one.stream, "late")
	one.called(t, 1)
	awaitListRest(t, target, one.stream, one.delaySet)
	s.stop(t)
	if runs := one.bodies(); runs["late"] != 1 {
		t.Errorf("handled %v", runs)
	}
}

// laterVersion: a message that a later version of the library wrote is put off on the server for a process that knows it,
// with what it says left as it is.
func laterVersion(t *testing.T, target Target) {
	s := newService(target)
	item := envelopeMark + "\x84\x02\x80\xa1\x01\x02\x63new"
	var all []*listSubject
	for _, k := range kinds[1:] {
		one := s.list("later version", k, acks)
		one.mount(app.DeadLetter(one.deadLetter))
		all = append(all, one)
		if err := target.Client.LPush(t.Context(), one.stream, item).Err(); err != nil {
			t.Fatal(err)
		}
	}
	s.start(t)
	for _, one := range all {
		set := deferredOf(one.stream)
		if one.set {
			set = one.delaySet
		}
		await(t, one.name+" is put off", func(ctx context.Context) bool { return target.Client.ZCard(ctx, set).Val() == 1 })
		if n, err := inFlight(t.Context(), target, one.stream); n != 0 || err != nil {
			t.Errorf("%s: %d in hand, %v", one.name, n, err)
		}
	}
	s.stop(t)
	for _, one := range all {
		if n := target.Client.LLen(t.Context(), one.deadLetter).Val(); n != 0 || one.count() != 0 {
			t.Errorf("%s: %d dead letters, %d calls", one.name, n, one.count())
		}
	}
}

// fullList: a server that is out of memory takes no new item, and lets go of those that it has, whatever becomes of each:
// taking one and settling it move it, and need no memory.
func fullList(t *testing.T, target Target) {
	target = target.Own(t).mortal()
	s := newService(target)
	answers := map[string]outcome.HandlerOutcome{
		"ack": outcome.Ack(), "bury": outcome.DeadLetter(errors.New("no")), "delay": outcome.RetryAfter(50 * time.Millisecond), "retry": outcome.Retry(),
	}
	full := make(chan struct{})
	one := s.list("full", kinds[1], func(_ context.Context, n int, c call) outcome.HandlerOutcome {
		<-full
		if n > 1 {
			return outcome.Ack()
		}
		return answers[c.payload[:len(c.payload)-1]]
	})
	// In the list's slot: on a cluster a dead letter in another one is written anew, which needs memory.
	one.deadLetter = "{" + one.stream + "}.dlq"
	one.mount(app.MaxAttempts(3), app.DeadLetter(one.deadLetter), app.Concurrency(10))
	for i := range 5 {
		for _, body := range sortedKeys(answers) {
			s.publishItem(t, one.stream, fmt.Append([]byte(body), i))
		}
	}
	s.start(t)
	one.called(t, 10)
	setMemory(t, target.Client, "1")
	if err := target.Client.LPush(t.Context(), one.stream, "x").Err(); err == nil {
		t.Error("the server is not full")
	}
	close(full)
	await(t, "only what is delayed is left", func(ctx context.Context) bool {
		held, err := inFlight(ctx, target, one.stream)
		return err == nil && held == 0 && target.Client.LLen(ctx, one.stream).Val() == 0 && one.count() == 25
	})
	if n := target.Client.ZCard(t.Context(), deferredOf(one.stream)).Val(); n != 5 {
		t.Errorf("%d are delayed", n)
	}
	setMemory(t, target.Client, "0")
	awaitListRest(t, target, one.stream, one.delaySet)
	s.stop(t)
	if n, letters := one.count(), len(one.letters(t)); n != 30 || letters != 5 {
		t.Errorf("%d runs and %d dead letters, want 30 and 5", n, letters)
	}
}
