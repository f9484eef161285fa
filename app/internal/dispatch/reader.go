package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// The waits after an error of the server, of reads and settlements alike. Without them a server that is down costs a
// core and fills the disk with logs.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 5 * time.Second
)

// starved is how long reading ahead may keep entries of dead owners, and those to try again, out of the slots.
const starved = time.Second

// pause is how long to wait after the n-th error in a row, n from 1: doubling, and spread so that processes that lost
// the server together do not come back together.
func pause(n int) time.Duration {
	d := maxPause
	if n < 8 {
		d = min(firstPause<<(n-1), maxPause)
	}
	return d/2 + rand.N(d/2+1)
}

// read is the reader: it takes as many deliveries as there is room for and hands them to the workers. It ends when the
// subscription is closed.
func (e *Engine) read(ctx context.Context) {
	defer close(e.readDone)
	defer e.inbox.close()
	errs := errorState{log: e.log, doing: "read"}
	full, crowded := false, false
	var tookBack time.Time
	for {
		stopping := e.isStopping()
		if stopping {
			// No new read begins before the subscription knows; then a read only returns what is left over.
			<-e.stopped
		}
		if e.pace != nil {
			e.room.ahead = e.pace.ahead()
		}
		want, guarded := e.room.free(), e.suspects.guarded()
		if guarded {
			// What is taken back is charged until it stands aside: nothing is while one on its last run runs or waits to.
			want.Back = 0
		}
		switch now := time.Now(); {
		case guarded:
			tookBack = now
		case want.Back > 0:
			tookBack = now
		case e.room.readsAhead() && now.Sub(tookBack) > starved && !stopping:
			// Where new entries are always read ahead there would never be a free slot for what is to be taken back.
			e.waitForRoom()
			continue
		}
		if !e.worthwhile(want.New) && !stopping {
			if parked := e.room.full(); parked && !full {
				e.log.Warn("as many messages wait for their delay as MaxParked allows: reading pauses",
					"parked", e.room.maxParked)
				full = true
			}
			if c := e.room.crowded(); c && !crowded {
				e.log.Warn("as many messages wait for a slot of their task as may: reading pauses, for the other tasks of the group, too; a task that is slow is better off with a group of its own",
					"waiting", maxWaiting)
				crowded = true
			}
			e.waitForRoom()
			continue
		}
		full, crowded = full && e.room.full(), crowded && e.room.crowded()
		// What is left over when stopping is handed back and needs no room.
		want.New = max(want.New, 1)
		e.reads.resume()
		deliveries, err := e.sub.Read(ctx, want)
		if len(deliveries) > 0 {
			e.routes[0].Telemetry.Received(len(deliveries))
		}
		e.acceptAll(deliveries)
		if len(deliveries) > 0 {
			// The slot that was called begins before the next read is sent, which takes its time.
			runtime.Gosched()
		}
		closed := errors.Is(err, broker.ErrClosed) || ctx.Err() != nil
		e.readEnded(closed)
		if closed {
			e.reads.rest()
			return
		}
		e.reads.round(err)
		if err != nil {
			errs.failed(err)
			e.sleep(pause(errs.inARow))
			continue
		}
		errs.worked()
	}
}

// waitForRoom rests until something has left its place, or the shutdown begins.
func (e *Engine) waitForRoom() {
	e.reads.rest()
	select {
	case <-e.room.wake:
	case <-e.stopping:
	}
}

// Paused says why nothing new is read although the server would give it, "" where that is not so.
func (e *Engine) Paused() string {
	switch {
	case !e.reads.resting.Load():
		return ""
	case e.room.full():
		return "as many messages wait for their delay as MaxParked allows"
	case e.room.crowded():
		return "as many messages wait for a slot of their task as may"
	}
	return ""
}

// worthwhile reports whether so many new entries are worth a read. At the slots' own pace one at a time would cost a round
// trip each: while enough of what was read ahead is left to keep them busy, the reader waits for more room.
func (e *Engine) worthwhile(n int) bool {
	if n == 0 || e.pace == nil {
		return n > 0
	}
	return int64(n) > e.room.ahead/2 || e.room.running.Load() < e.room.slots
}

// acceptAll gives what a read brought to the workers. All of it is charged with its hand-out, so that none on its last run
// begins before each of the others has been looked at.
func (e *Engine) acceptAll(deliveries []*broker.Delivery) {
	if len(deliveries) > 1 {
		e.suspects.hold()
		defer func() { e.recall(e.suspects.resume()) }()
	}
	for _, d := range deliveries {
		e.accept(d)
	}
}

// accept gives a delivery to the workers.
// What a read still brings after the shutdown began is handed back unstarted.
func (e *Engine) accept(d *broker.Delivery) {
	it := newItem(d)
	e.holdings.add(&it.holding, d.ID, d.Count, d.HandedOut)
	if e.hands != nil {
		switch e.hands.take(it) {
		case again:
			e.holdings.remove(&it.holding)
			return
		case behind:
			e.standBehind(it)
			return
		}
	}
	if e.isStopping() {
		e.room.running.Add(1)
		e.release(it, false)
		return
	}
	e.find(it)
	// Here and not by a worker: those are in no order, and begin with nothing before the next read does.
	if e.byTask != nil && !e.admit(it) {
		return
	}
	e.room.running.Add(1)
	if it.counters.losses > 0 {
		if _, _, unrun := e.unrun(it); !unrun && !e.mayStart(it) {
			return
		}
	}
	e.inbox.put(it)
}

func (e *Engine) readEnded(last bool) {
	if e.hands == nil {
		return
	}
	again, final := e.hands.readEnded(last)
	for _, it := range again {
		e.settler.submit(it)
	}
	for _, it := range final {
		e.settler.finish(it)
	}
}

// sleep waits for d, or until the shutdown begins.
func (e *Engine) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.stopping:
	}
}

// errorState logs errors of the server once when they begin and once when they are over. It belongs to one goroutine.
type errorState struct {
	log    *slog.Logger
	doing  string
	inARow int
	first  string
}

func (s *errorState) failed(err error) {
	s.inARow++
	if text := errorText(err); s.inARow == 1 {
		s.first = text
		s.log.Warn("the server answers with errors; trying again until it works", "doing", s.doing, "error", text)
	}
}

func (s *errorState) worked() {
	if s.inARow > 0 {
		s.log.Info("the server works again", "doing", s.doing, "errors", s.inARow, "first", s.first)
		s.inARow = 0
	}
}
