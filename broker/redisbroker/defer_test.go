package redisbroker

import (
	"strconv"
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker"
)

func TestWhatIsUnknownWaitsAsLongAgainAsItHasBeenUnknown(t *testing.T) {
	start := time.UnixMilli(1_700_000_000_000)
	st := &broker.Settlement{Delivery: &broker.Delivery{ID: "1-0"}, Action: broker.Defer, Delay: 30 * time.Second, Limit: 20 * time.Minute}
	now := start
	for i, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
		delay, overdue := putOff(st, now)
		if overdue || delay.Action != broker.Delay || delay.Delay != want {
			t.Fatalf("round %d: %s, overdue %v, want %s", i, delay.Delay, overdue, want)
		}
		if i == 0 {
			set := delay.Edits.Set
			if len(set) != 1 || set[0] != (broker.HeaderLine{Name: broker.HeaderUnknownSince, Value: "1700000000000"}) {
				t.Fatalf("the first deferral sets %v", set)
			}
			st.Delivery.Headers = set
		} else if len(delay.Edits.Set) != 0 {
			t.Fatalf("round %d changes %v: unknown-since is set once", i, delay.Edits.Set)
		}
		now = now.Add(delay.Delay)
	}
	if _, overdue := putOff(st, start.Add(20*time.Minute)); !overdue {
		t.Error("it may be put off for longer than its limit")
	}
}

func TestAnUnknownSinceThatNobodyCanHaveWrittenCountsFromNow(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	for _, text := range []string{"", "x", "-5", "0", strconv.FormatInt(now.Add(time.Hour).UnixMilli(), 10)} {
		st := &broker.Settlement{
			Delivery: &broker.Delivery{Headers: []broker.HeaderLine{{Name: broker.HeaderUnknownSince, Value: text}}},
			Action:   broker.Defer, Delay: time.Second, Limit: time.Minute,
		}
		if delay, overdue := putOff(st, now); overdue || delay.Delay != time.Second || len(delay.Edits.Set) != 1 {
			t.Errorf("unknown-since %q: %s, overdue %v, edits %v", text, delay.Delay, overdue, delay.Edits.Set)
		}
	}
}

// A deferral that is tried again after an error is the same member, and is not given up after it has been written.
func TestADeferralThatIsTriedAgainIsTheSame(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	st := &broker.Settlement{Delivery: &broker.Delivery{ID: "1-0"}, Action: broker.Defer, Delay: time.Second, Limit: time.Minute}
	first, _ := putOff(st, now)
	st.Edits = first.Edits
	again, overdue := putOff(st, now.Add(time.Second))
	if overdue || len(again.Edits.Set) != 1 || again.Edits.Set[0] != first.Edits.Set[0] {
		t.Errorf("edits %v, then %v", first.Edits.Set, again.Edits.Set)
	}
	old := broker.HeaderLine{Name: broker.HeaderUnknownSince, Value: strconv.FormatInt(now.UnixMilli(), 10)}
	st = &broker.Settlement{Delivery: &broker.Delivery{Headers: []broker.HeaderLine{old}}, Action: broker.Defer, Limit: time.Minute, Written: true}
	if _, overdue := putOff(st, now.Add(time.Hour)); overdue {
		t.Error("a deferral that only has to be acknowledged is given up")
	}
}
