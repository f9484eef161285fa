package brokertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// Recovery shows that what a dead process held is handled, once, charged with one owner and under the same attempt, and
// that neither dead processes nor stopped ones leave anything behind (contract §9). It needs nothing but streams.
func Recovery(t *testing.T, target Target) { recoveryArea.run(t, target) }

var recoveryArea = area{name: "Recovery", bodies: []body{
	{name: "VanishedEntriesAreAcknowledgedUnhandled", run: vanishedEntries},
	{name: "ADeadProcessLosesNothing", run: deadProcess},
	{name: "AFixedNameInheritsOnce", run: fixedName},
	{name: "AnOutcomeThatTheServerLostIsMadeUpFor", run: lostOutcome},
	{name: "StopsLeaveNoConsumers", run: stopsLeaveNoConsumers},
	{name: "ReclaimTakesWhatAForeignReaderLeaves", run: reclaimed},
}}

// vanishedEntries: entries that were deleted or trimmed while a process had them in hand never reach a handler, nor the
// dead letter. They are acknowledged and counted. A process that is started again under the name of the dead one does
// the same.
func vanishedEntries(t *testing.T, target Target) {
	target = target.mortal()
	meterReader()
	type one struct {
		*subject
		kept string
	}
	plain, heir := newService(target), newService(target.with(redisbroker.Consumer("fixed")))
	var all []one
	for i, svc := range []*service{plain, heir} {
		for _, m := range ownRecords {
			owner := []string{"dead", "fixed"}[i]
			c := one{svc.subject("owner "+owner, m, &recorder{answer: acks}), ""}
			newGroup(t, target, c.keys)
			var ids []string
			for n := range 3 {
				ids = append(ids, add(t, target, c.stream, fmt.Sprint(n)))
			}
			readAs(t, target, c.keys, owner, 3)
			for _, id := range ids {
				seize(t, target, c.keys, id, owner, 1)
			}
			target.Client.XDel(t.Context(), c.stream, ids[0])
			target.Client.XTrimMaxLen(t.Context(), c.stream, 1)
			c.kept = ids[2]
			c.mount(app.MaxAttempts(5), app.DeadLetter(c.deadLetter))
			all = append(all, c)
		}
	}
	plain.start(t)
	heir.start(t)
	plain.rest(t)
	heir.rest(t)
	meters := readMeters(t)
	for _, c := range all {
		calls := c.seen()
		if len(calls) != 1 || calls[0].message.EntryID != c.kept {
			t.Errorf("%s: handled %+v, want the entry that stands", c.name, calls)
		}
		if n := meters[c.stream]["discarded vanished"]; n != 2 {
			t.Errorf("%s: counted %v, want 2 vanished", c.name, meters[c.stream])
		}
		if n := len(c.letters(t)); n != 0 {
			t.Errorf("%s: %d dead letters", c.name, n)
		}
	}
}

// deadProcess: everything that a dead process held is handled, however few slots there are, and only then is its name
// removed. Each entry is handled once and charged with one owner.
func deadProcess(t *testing.T, target Target) {
	target = target.mortal()
	k, r := uniqueKeys(), &recorder{answer: acksAfter(20 * time.Millisecond)}
	newGroup(t, target, k)
	for i := range 25 {
		abandon(t, target, k, fmt.Sprint(i), 1)
	}
	svc := newService(target)
	svc.mount(mode{}.spec(k), r, app.Concurrency(2))
	svc.start(t)
	awaitRest(t, target, k)
	await(t, "the dead process's name is removed", func(ctx context.Context) bool {
		return !slices.Contains(consumers(ctx, target, k), "dead")
	})
	svc.stop(t)
	for i := range 25 {
		if calls := r.of(fmt.Sprint(i)); len(calls) != 1 || calls[0].message.Losses != 1 || calls[0].message.Attempt != 1 {
			t.Errorf("message %d: %+v", i, calls)
		}
	}
}

// fixedName: under a fixed name the next process takes at once what its predecessor held, each entry once, also while
// the handlers that it has given them to still run. Nobody else starts under a name that is alive.
func fixedName(t *testing.T, target Target) {
	target = target.mortal()
	k, r := uniqueKeys(), &recorder{answer: acksAfter(300 * time.Millisecond)}
	newGroup(t, target, k)
	for i := range 6 {
		add(t, target, k.stream, fmt.Sprint(i))
	}
	readAs(t, target, k, "fixed", 6)
	svc := newService(target.with(redisbroker.Consumer("fixed")))
	svc.mount(mode{}.spec(k), r, app.Concurrency(4))
	svc.start(t)
	began := time.Now()
	for i := range 6 {
		svc.publish(t, k.stream, fmt.Append(nil, "new ", i))
	}
	second := newService(target.with(redisbroker.Consumer("fixed")))
	second.mount(mode{}.spec(k), r)
	if err := second.app.Run(t.Context()); err == nil {
		t.Error("a second process started under the name of a living one")
	}
	awaitRest(t, target, k)
	svc.stop(t)
	for i := range 6 {
		if calls := r.of(fmt.Sprint(i)); len(calls) != 1 || calls[0].message.Losses != 1 {
			t.Errorf("message %d: %+v", i, calls)
		} else if late := calls[0].began.Sub(began); late > 5*time.Second {
			t.Errorf("message %d was taken after %s", i, late)
		}
		if calls := r.of(fmt.Sprint("new ", i)); len(calls) != 1 || calls[0].message.Losses != 0 {
			t.Errorf("new message %d: %+v", i, calls)
		}
	}
}

// lostOutcome: a server that was rolled back has an entry pending again that was acknowledged, under the process that did.
// That process lives, so that nobody takes it over: it handles the entry again by itself, and is charged with nothing.
func lostOutcome(t *testing.T, target Target) {
	target = target.mortal()
	k, r := uniqueKeys(), &recorder{answer: acks}
	svc := newService(target)
	svc.mount(mode{}.spec(k), r)
	svc.start(t)
	svc.publish(t, k.stream, []byte("once"))
	awaitRest(t, target, k)
	me := consumers(t.Context(), target, k)[0]
	lost := mustEntries(t, target, k.stream)[0].id
	err := target.Client.Do(t.Context(), "XCLAIM", k.stream, k.group, me, 0, lost, "IDLE", 0, "RETRYCOUNT", 1, "FORCE", "JUSTID").Err()
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the message is handled again", func(context.Context) bool { return len(r.of("once")) > 1 })
	awaitRest(t, target, k)
	svc.stop(t)
	calls := r.of("once")
	if len(calls) != 2 {
		t.Errorf("handled %d times", len(calls))
	}
	for _, c := range calls {
		if m := c.message; m.ID != calls[0].message.ID || m.EntryID != lost || m.Attempt != 1 || m.Losses != 0 {
			t.Errorf("message %s, entry %s, attempt %d, losses %d", m.ID, m.EntryID, m.Attempt, m.Losses)
		}
	}
}

// stopsLeaveNoConsumers: deployments leave no names behind: each process takes its own with it.
func stopsLeaveNoConsumers(t *testing.T, target Target) {
	target = target.mortal()
	k, r := uniqueKeys(), &recorder{answer: acks}
	for i := range 25 {
		svc := newService(target)
		svc.mount(mode{}.spec(k), r)
		svc.start(t)
		svc.publish(t, k.stream, fmt.Append(nil, i))
		await(t, "the message is handled", func(context.Context) bool { return r.count() == i+1 })
		svc.stop(t)
	}
	if names := consumers(t.Context(), target, k); len(names) != 0 {
		t.Errorf("consumers %v", names)
	}
	if keys := target.Client.Keys(t.Context(), aliveKey(k, "*")).Val(); len(keys) != 0 {
		t.Errorf("liveness keys %v", keys)
	}
}

// reclaimed: reclaim= takes what a foreign reader left pending for so long and never acknowledges, but neither what is new
// nor anything of the plain subscription beside it. A copy goes to the stream, for whoever reads that.
func reclaimed(t *testing.T, target Target) {
	target = target.mortal()
	const messages = 3
	answer := func(_ context.Context, n int, c call) outcome.HandlerOutcome {
		if c.payload == "slow" {
			time.Sleep(4 * livenessTTL)
		}
		if c.message.Attempt == 1 && c.payload == "fails" {
			return outcome.Retry()
		}
		return outcome.Ack()
	}
	alone, beside := uniqueKeys(), uniqueKeys()
	reclaiming, other, plain := &recorder{answer: answer}, &recorder{answer: answer}, &recorder{answer: answer}
	for _, k := range []keys{alone, beside} {
		newGroup(t, target, k)
		for range messages {
			add(t, target, k.stream, "fails")
		}
		readAs(t, target, k, "foreign", messages)
	}
	read := time.Now()
	svc := newService(target)
	reclaim := func(k keys) streamrt.Spec {
		spec := mode{}.spec(k)
		spec.Name += ".reclaim"
		spec.Reclaim = 2 * livenessTTL
		return spec
	}
	svc.mount(reclaim(alone), reclaiming)
	svc.mount(reclaim(beside), other)
	svc.mount(mode{}.spec(beside), plain)
	svc.start(t)
	svc.publish(t, beside.stream, []byte("slow"))
	add(t, target, alone.stream, "new")
	awaitRest(t, target, beside)
	await(t, "nothing is left with the foreign reader", func(ctx context.Context) bool {
		p, err := pending(ctx, target, alone)
		return err == nil && len(p) == 0
	})
	svc.stop(t)
	for _, c := range reclaiming.seen() {
		if c.payload != "fails" || c.message.Losses != 1 || c.began.Sub(read) < 2*livenessTTL {
			t.Errorf("%q was taken %s after it was read, with losses %d", c.payload, c.began.Sub(read), c.message.Losses)
		}
	}
	// The copies are new, and nobody here reads what is new.
	if n, all := reclaiming.count(), len(mustEntries(t, target, alone.stream)); n != messages || all != 2*messages+1 {
		t.Errorf("%d calls and %d entries, want %d and %d", n, all, messages, 2*messages+1)
	}
	if calls := plain.of("slow"); len(calls) != 1 || len(other.of("slow")) != 0 {
		t.Errorf("the plain mount's own message was handled %d times, and %d times by the other", len(calls), len(other.of("slow")))
	}
	for id, calls := range plain.byMessage() {
		if last := calls[len(calls)-1]; last.payload == "fails" && last.message.Attempt != 2 {
			t.Errorf("message %s ended with attempt %d", id, last.message.Attempt)
		}
	}
}
