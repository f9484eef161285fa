package dispatch

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Everything that is put in is taken once, in order where one slot takes, whoever puts it in meanwhile.
func TestTheInboxHandsOutEverythingOnce(t *testing.T) {
	for _, slots := range []int{1, 3, 50} {
		var b inbox
		const writers, each = 4, 5000
		var taken sync.Map
		var n atomic.Int64
		var workers, producers sync.WaitGroup
		all := newSlots(slots)
		for i := range all {
			workers.Go(func() {
				last := make(map[int64]int64) // by writer
				for {
					it, ok := b.take(&all[i])
					if !ok {
						return
					}
					if _, twice := taken.LoadOrStore(it, true); twice {
						t.Error("taken twice")
					}
					n.Add(1)
					writer, number := it.kept/each, it.kept%each
					if before, ok := last[writer]; ok && before >= number {
						t.Errorf("%d after %d", number, before)
					}
					last[writer] = number
				}
			})
		}
		for w := range int64(writers) {
			producers.Go(func() {
				for i := range int64(each) {
					b.put(&item{kept: w*each + i})
				}
			})
		}
		producers.Wait()
		b.close()
		workers.Wait()
		if n.Load() != writers*each {
			t.Errorf("%d slots: %d of %d were taken", slots, n.Load(), writers*each)
		}
	}
}

// Deliveries that block their slots get all the slots that there are, also where all are put in before the first slot wakes.
func TestTheInboxCallsAsManySlotsAsThereAreDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b inbox
		var running atomic.Int64
		var workers sync.WaitGroup
		release := make(chan struct{})
		slots := newSlots(20)
		for i := range slots {
			workers.Go(func() {
				for {
					if _, ok := b.take(&slots[i]); !ok {
						return
					}
					running.Add(1)
					<-release
					running.Add(-1)
				}
			})
		}
		synctest.Wait()
		for n := range int64(30) {
			b.put(new(item))
			synctest.Wait()
			if got := running.Load(); got != min(n+1, 20) {
				t.Errorf("%d run of %d", got, n+1)
			}
		}
		close(release)
		synctest.Wait()
		release = make(chan struct{})
		for range 30 {
			b.put(new(item))
		}
		synctest.Wait()
		if got := running.Load(); got != 20 {
			t.Errorf("%d run of 30 that came at once", got)
		}
		close(release)
		b.close()
		workers.Wait()
	})
}

// What comes after the slots have gone home is there to be handed back.
func TestTheInboxKeepsWhatComesTooLate(t *testing.T) {
	var b inbox
	b.close()
	b.put(new(item))
	if left := b.drain(); len(left) != 1 {
		t.Errorf("%d left", len(left))
	}
	if _, ok := b.take(&newSlots(1)[0]); ok {
		t.Error("taken from a closed inbox that is empty")
	}
}
