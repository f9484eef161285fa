package brokertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// ownRecords are the modes whose recovery is told apart: taking from dead owners, and claiming what is idle.
var ownRecords = []mode{{name: "plain"}, {name: "claiming", claims: true}}

// Entries that were deleted or trimmed while a process had them in hand never reach a handler, nor the dead letter: they
// are acknowledged and counted. A process that is started again under the name of the dead one does the same.
func TestVanishedEntriesAreAcknowledgedUnhandled(t *testing.T) {
	eachSite(t, func(t *testing.T, s site) {
		meterReader()
		type one struct {
			mode
			keys
			r    *recorder
			kept string
		}
		plain, heir := newService(s.Target), newService(s.as("fixed"))
		var all []one
		for i, svc := range []*service{plain, heir} {
			for _, m := range ownRecords {
				c := one{mode: m, keys: uniqueKeys(), r: &recorder{answer: acks}}
				c.name = fmt.Sprintf("%s, heir %d", m.name, i)
				newGroup(t, s.Target, c.keys)
				owner := []string{"dead", "fixed"}[i]
				var ids []string
				for n := range 3 {
					ids = append(ids, add(t, s.Target, c.stream, fmt.Sprint(n)))
				}
				readAs(t, s.Target, c.keys, owner, 3)
				for _, id := range ids {
					seize(t, s.Target, c.keys, id, owner, 1)
				}
				s.Client.XDel(t.Context(), c.stream, ids[0])
				s.Client.XTrimMaxLen(t.Context(), c.stream, 1)
				c.kept = ids[2]
				svc.mount(m.spec(c.keys), c.r, app.MaxAttempts(5), app.DeadLetter(c.deadLetter))
				all = append(all, c)
			}
		}
		plain.start(t)
		heir.start(t)
		for _, c := range all {
			awaitRest(t, s.Target, c.keys)
		}
		plain.stop(t)
		heir.stop(t)
		meters := readMeters(t)
		for _, c := range all {
			calls := c.r.seen()
			if len(calls) != 1 || calls[0].message.EntryID != c.kept {
				t.Errorf("%s: handled %+v, want the entry that stands", c.name, calls)
			}
			if n := meters[c.stream]["discarded vanished"]; n != 2 {
				t.Errorf("%s: counted %v, want 2 vanished", c.name, meters[c.stream])
			}
			if n := len(mustEntries(t, s.Target, c.deadLetter)); n != 0 {
				t.Errorf("%s: %d dead letters", c.name, n)
			}
		}
	})
}

// Everything that a dead process held is handled, however few slots there are, and only then is its name removed. Each
// entry is handled once and charged with one owner.
func TestADeadProcessLosesNothing(t *testing.T) {
	eachSite(t, func(t *testing.T, s site) {
		k, r := uniqueKeys(), &recorder{}
		r.answer = func(context.Context, int, call) outcome.HandlerOutcome {
			time.Sleep(20 * time.Millisecond)
			return outcome.Ack()
		}
		newGroup(t, s.Target, k)
		for i := range 25 {
			abandon(t, s.Target, k, fmt.Sprint(i), 1)
		}
		svc := newService(s.Target)
		svc.mount(mode{}.spec(k), r, app.Concurrency(2))
		svc.start(t)
		awaitRest(t, s.Target, k)
		await(t, "the dead process's name is removed", func(ctx context.Context) bool {
			return !slices.Contains(consumers(ctx, s.Target, k), "dead")
		})
		svc.stop(t)
		for i := range 25 {
			if calls := r.of(fmt.Sprint(i)); len(calls) != 1 || calls[0].message.Losses != 1 || calls[0].message.Attempt != 1 {
				t.Errorf("message %d: %+v", i, calls)
			}
		}
	})
}

// Under a fixed name the next process takes at once what its predecessor held, each entry once, also while the handlers
// that it has given them to still run. Nobody else starts under a name that is alive.
func TestAFixedNameInheritsOnce(t *testing.T) {
	eachSite(t, func(t *testing.T, s site) {
		k, r := uniqueKeys(), &recorder{}
		r.answer = func(context.Context, int, call) outcome.HandlerOutcome {
			time.Sleep(300 * time.Millisecond)
			return outcome.Ack()
		}
		newGroup(t, s.Target, k)
		for i := range 6 {
			add(t, s.Target, k.stream, fmt.Sprint(i))
		}
		readAs(t, s.Target, k, "fixed", 6)
		svc := newService(s.as("fixed"))
		svc.mount(mode{}.spec(k), r, app.Concurrency(4))
		svc.start(t)
		began := time.Now()
		for i := range 6 {
			svc.publish(t, k.stream, fmt.Append(nil, "new ", i))
		}
		second := newService(s.as("fixed"))
		second.mount(mode{}.spec(k), r)
		if err := second.app.Run(t.Context()); err == nil {
			t.Error("a second process started under the name of a living one")
		}
		awaitRest(t, s.Target, k)
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
	})
}

// Deployments leave no names behind: each process takes its own with it.
func TestStopsLeaveNoConsumers(t *testing.T) {
	eachSite(t, func(t *testing.T, s site) {
		k, r := uniqueKeys(), &recorder{answer: acks}
		for i := range 25 {
			svc := newService(s.Target)
			svc.mount(mode{}.spec(k), r)
			svc.start(t)
			svc.publish(t, k.stream, fmt.Append(nil, i))
			await(t, "the message is handled", func(context.Context) bool { return r.count() == i+1 })
			svc.stop(t)
		}
		if names := consumers(t.Context(), s.Target, k); len(names) != 0 {
			t.Errorf("consumers %v", names)
		}
		if keys := s.Client.Keys(t.Context(), aliveKey(k, "*")).Val(); len(keys) != 0 {
			t.Errorf("liveness keys %v", keys)
		}
	})
}

// reclaim= takes what a foreign reader left pending for so long and never acknowledges, and nothing else: not what is new,
// and nothing of the plain subscription beside it. A copy goes to the stream, for whoever reads that.
func TestReclaimTakesWhatAForeignReaderLeaves(t *testing.T) {
	eachSite(t, func(t *testing.T, s site) {
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
			newGroup(t, s.Target, k)
			for range messages {
				add(t, s.Target, k.stream, "fails")
			}
			readAs(t, s.Target, k, "foreign", messages)
		}
		read := time.Now()
		svc := newService(s.Target)
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
		add(t, s.Target, alone.stream, "new")
		awaitRest(t, s.Target, beside)
		await(t, "nothing is left with the foreign reader", func(ctx context.Context) bool {
			p, err := pending(ctx, s.Target, alone)
			return err == nil && len(p) == 0
		})
		svc.stop(t)
		for _, c := range reclaiming.seen() {
			if c.payload != "fails" || c.message.Losses != 1 || c.began.Sub(read) < 2*livenessTTL {
				t.Errorf("%q was taken %s after it was read, with losses %d", c.payload, c.began.Sub(read), c.message.Losses)
			}
		}
		// The copies are new, and nobody here reads what is new.
		if n, all := reclaiming.count(), len(mustEntries(t, s.Target, alone.stream)); n != messages || all != 2*messages+1 {
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
	})
}
