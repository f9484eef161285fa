package dispatch

import (
	"errors"
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
)

var (
	keepsNothing = broker.Capabilities{PacksFailures: true, Addressee: "consumer"}
	reliableList = broker.Capabilities{Acks: true, PacksFailures: true, DelaySet: true}
	foreign      = broker.Capabilities{Acks: true, Refetches: true, InPlace: true, PacksFailures: true}
	foreignClaim = broker.Capabilities{Acks: true, Refetches: true, InPlace: true, PacksFailures: true, KeepsPending: true, Claim: time.Second}
)

func TestASourceThatKeepsNothingHasOnlyCopies(t *testing.T) {
	d := entry(1)
	free, capped := rulesOf(keepsNothing, 0, ""), rulesOf(keepsNothing, 5, "")
	for _, o := range []outcome.HandlerOutcome{outcome.Retry(), outcome.RetryAfter(0), outcome.RetryAfter(-time.Second)} {
		if i := free.after(d, o); i.action != broker.Ack || i.discard != whyDropped {
			t.Errorf("%v without a cap: %+v", o, i)
		}
		if i := capped.after(d, o); i.action != broker.Copy || i.parked {
			t.Errorf("%v under a cap: %+v", o, i)
		}
	}
	for _, r := range []*rules{free, capped} {
		if i := r.after(d, outcome.RetryAfter(time.Minute)); i.action != broker.Keep || !i.parked || i.park != time.Minute {
			t.Errorf("RetryAfter: %+v", i)
		}
		if i := r.after(d, outcome.Of(errBusy)); i.action != broker.Keep || !i.parked || i.park != policyWait {
			t.Errorf("an error: %+v", i)
		}
		if i := r.unknown(count(d, true)); i.action != broker.Ack || i.discard != whyDropped {
			t.Errorf("an unknown message: %+v", i)
		}
	}
}

func TestAReliableListKeepsEveryDelayInItsSet(t *testing.T) {
	r := rulesOf(reliableList, 0, "")
	if i := r.after(entry(1), outcome.Retry()); i.action != broker.Copy || len(i.edits.Remove) != 0 {
		t.Errorf("Retry: %+v", i)
	}
	i := r.after(entry(1, broker.HeaderLosses, "2"), outcome.RetryAfter(time.Minute))
	if i.action != broker.Delay || i.delay != time.Minute {
		t.Errorf("RetryAfter: %+v", i)
	}
	for _, h := range i.edits.Set {
		if h.Name == broker.HeaderRetryGroup {
			t.Errorf("a copy on a list goes to whoever reads it: %+v", i.edits.Set)
		}
	}
	if r.elsewhere(entry(1, broker.HeaderRetryGroup, "another")) {
		t.Error("a list has no groups whose messages it could leave alone")
	}
}

func TestAForeignStreamGetsNoCopy(t *testing.T) {
	for name, caps := range map[string]broker.Capabilities{"plain": foreign, "claiming": foreignClaim} {
		r := rulesOf(caps, 3, "dlq")
		for _, o := range []outcome.HandlerOutcome{outcome.Retry(), outcome.RetryAfter(time.Minute), outcome.Of(errBusy)} {
			i := r.after(entry(1), o)
			if i.action != broker.Keep || i.count != failureUnit || i.parked == caps.KeepsPending {
				t.Errorf("%s, %v: %+v", name, o, i)
			}
		}
		// The third failure: 2 failures and no loss are in the count, and one is added by the hand-out.
		if i := r.after(entry(2*failureUnit+1), outcome.Retry()); i.action != broker.Bury || i.burial.Attempts != 3 {
			t.Errorf("%s, at the cap: %+v", name, i)
		}
	}
}

func TestAnUnknownMessageIsPutOffUncounted(t *testing.T) {
	r := rulesOf(plainMemory, 3, "dlq")
	r.unknownDelay, r.unknownTimeout = 30*time.Second, time.Hour
	d := entry(2*failureUnit+2, broker.HeaderLosses, "1")
	i := r.unknown(count(d, true))
	if i.action != broker.Defer || i.delay != 30*time.Second || i.limit != time.Hour {
		t.Errorf("%+v", i)
	}
	want := map[string]string{broker.HeaderRetryCount: "2", broker.HeaderLosses: "2", broker.HeaderRetryGroup: "refunds"}
	for _, h := range i.edits.Set {
		if want[h.Name] != h.Value {
			t.Errorf("header %s is %s", h.Name, h.Value)
		}
		delete(want, h.Name)
	}
	if len(want) != 0 {
		t.Errorf("missing %v", want)
	}
	if i := r.stayedUnknown(d, count(d, true)); i.action != broker.Bury || i.burial.Reason != broker.ReasonUnknownTask {
		t.Errorf("after the timeout: %+v", i)
	}
	if i := rulesOf(plainMemory, 3, "").stayedUnknown(d, count(d, true)); i.action != broker.Ack || i.discard != whyRejected {
		t.Errorf("after the timeout without a dead letter: %+v", i)
	}
	if i := r.malformed(d, count(d, true), errors.New("no")); i.action != broker.Bury {
		t.Errorf("malformed: %+v", i)
	}
}
