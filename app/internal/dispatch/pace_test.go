package dispatch

import (
	"testing"
	"time"
)

// slotsThatTook are slots whose deliveries have all taken so long.
func slotsThatTook(n int, took time.Duration) []slot {
	slots := make([]slot, n)
	for i := range slots {
		slots[i].measure(int64(took))
	}
	return slots
}

func TestAsMuchIsReadAheadAsTheSlotsFinishWithinAMoment(t *testing.T) {
	for _, c := range []struct {
		slots int
		took  time.Duration
		want  int64
	}{
		{10, time.Millisecond, 50},
		{1, 100 * time.Microsecond, 50},
		{10, 50 * time.Millisecond, 1},
		{10, 51 * time.Millisecond, 0},
		{2, 500 * time.Millisecond, 0},
		{100, 0, maxAhead},
	} {
		p := pace{slotsThatTook(c.slots, c.took)}
		if got := p.ahead(); got != c.want {
			t.Errorf("%d slots that take %s each: %d are read ahead, want %d", c.slots, c.took, got, c.want)
		}
	}
	if got := (&pace{make([]slot, 10)}).ahead(); got != 0 {
		t.Errorf("%d are read ahead before anything was measured", got)
	}
}

// A slot that is slow, or has just lost its processor, finishes little, and keeps the others from nothing.
func TestASlowSlotTakesNothingFromWhatTheOthersFinish(t *testing.T) {
	p := pace{slotsThatTook(3, 100*time.Microsecond)}
	p.slots[1].began.Store(elapsed() - int64(time.Minute))
	if got := p.ahead(); got != 100 {
		t.Errorf("%d are read ahead, want the 2 × 50 that the others finish", got)
	}
}

func TestSlotsThatAreStuckAreNotReadAheadFor(t *testing.T) {
	p := pace{slotsThatTook(4, time.Microsecond)}
	for i := range p.slots {
		p.slots[i].began.Store(elapsed() - int64(time.Minute))
	}
	if got := p.ahead(); got != 0 {
		t.Errorf("%d are read ahead of handlers that have been running for a minute", got)
	}
}

// How long it has been running says nothing about how long a first delivery will take.
func TestNothingIsReadAheadBeforeEverySlotThatWorksHasFinishedOne(t *testing.T) {
	p := pace{make([]slot, 4)}
	p.slots[0].measure(int64(time.Microsecond))
	for i := range p.slots[:2] {
		p.slots[i].began.Store(elapsed())
	}
	if got := p.ahead(); got != 0 {
		t.Errorf("%d are read ahead while a slot has only begun its first delivery", got)
	}
	p.slots[1].measure(int64(time.Microsecond))
	if got := p.ahead(); got == 0 {
		t.Error("none is read ahead although both slots that work have finished one")
	}
}

func TestOneSlowDeliveryDoesNotChangeThePace(t *testing.T) {
	slots := slotsThatTook(1, time.Millisecond)
	slots[0].measure(int64(9 * time.Millisecond))
	if got := time.Duration(slots[0].took.Load()); got != 2*time.Millisecond {
		t.Errorf("after 1 ms for long and 9 ms once it is %s", got)
	}
}

func TestAReadIsNotWorthAFewEntriesWhileTheSlotsAreBusy(t *testing.T) {
	r := newRoom(10, 100, 1000, false)
	e, fixed := &Engine{room: r, pace: &pace{}}, &Engine{room: r}
	r.running.Store(70) // 10 run, 60 wait
	if n := r.free().New; n != 40 || e.worthwhile(n) || !fixed.worthwhile(n) {
		t.Errorf("%d more: read at the slots' pace %v, with a fixed number %v", n, e.worthwhile(n), fixed.worthwhile(n))
	}
	r.running.Store(55)
	if n := r.free().New; n != 55 || !e.worthwhile(n) {
		t.Errorf("%d more are not read", n)
	}
	r.running.Store(9)
	if n := r.free().New; !e.worthwhile(n) {
		t.Error("a slot is free, and nothing is read")
	}
	r.troubled.Store(true)
	if n := r.free().New; n != 1 {
		t.Errorf("%d are read where nothing can be settled, want as many as there are slots", n)
	}
	if e.worthwhile(0) || fixed.worthwhile(0) {
		t.Error("nothing is worth a read")
	}
}
