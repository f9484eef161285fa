package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// What each step of a shutdown may take once the handlers had their time. Together they stay under one second, which
// is how long after the grace time Run may return.
const (
	// afterCut is how long handlers have to notice that their context has ended.
	afterCut = 400 * time.Millisecond
	// lastWrites is how long settlements may still be written after that.
	lastWrites = 250 * time.Millisecond
	// lastRelease is how long handing back may take after that.
	lastRelease = 250 * time.Millisecond
	// calmWrites is what both may take at most of the grace time that the handlers have left over: a slow server gets time
	// then.
	calmWrites = 5 * time.Second
)

// Shutdown ends the engine: reading stops, handlers get the grace time, then their contexts end, outcomes are settled,
// and the rest is handed back. Closing now ends the grace time at once. The error names the mount: handlers that
// ignored the end of their context and are left running, or a server that did not take the rest back.
func (e *Engine) Shutdown(ctx context.Context, grace time.Duration, now <-chan struct{}) error {
	ctx = context.WithoutCancel(ctx)
	close(e.stopping)
	stopCtx, endStop := context.WithCancel(ctx)
	defer endStop()
	go func() {
		defer close(e.stopped)
		e.sub.Stop(stopCtx)
		e.endTasks()
	}()
	e.endParking()
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		<-e.readDone
		e.workers.Wait()
	}()

	var problems []error
	over := time.Now().Add(grace)
	if !waitFor(idle, grace, now) {
		over = time.Time{}
		e.isCut.Store(true)
		e.cut(ErrShutdown)
		if !waitFor(idle, afterCut, nil) {
			problems = e.abandon(grace)
			// A read that did not end by itself ends with its context.
			endStop()
			e.endReads()
		}
	}
	endStop()
	e.endReads()
	<-e.stopped
	<-e.readDone

	problems = append(problems, e.flush(ctx, over, now)...)
	e.cut(ErrShutdown)
	return errors.Join(problems...)
}

// abandon gives up the handlers that still run and has their deliveries handed back.
func (e *Engine) abandon(grace time.Duration) []error {
	var ids []string
	for i := range e.slots {
		if it := e.slots[i].abandon(); it != nil {
			e.handBack(it.delivery, true)
			ids = append(ids, it.delivery.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	const shown = 5
	more := ""
	if len(ids) > shown {
		more = fmt.Sprintf(" and %d more", len(ids)-shown)
		ids = ids[:shown]
	}
	return []error{fmt.Errorf("mount %s: handlers ignored the end of their context and were left running %s after the stop; their entries were handed back: %s%s",
		e.config.Name, grace, strings.Join(ids, ", "), more)}
}

// flush writes the settlements that are left, ends everything that runs in the background and hands back the rest.
// over is when the grace time is.
func (e *Engine) flush(ctx context.Context, over time.Time, now <-chan struct{}) []error {
	close(e.settler.closing)
	written := make(chan struct{})
	go func() {
		defer close(written)
		e.background.Wait()
	}()
	// Even a shutdown that is to end now leaves a moment for what has been answered.
	if !waitFor(written, calm(over), now) && !waitFor(written, lastWrites, nil) {
		e.endSettles()
		<-written
	}
	e.endSettles()

	left := e.settler.leftovers()
	for _, it := range left {
		e.hold(leftover(it))
	}
	e.hold(e.parking.empty()...)
	e.handBackAside()
	e.endAlive()
	e.untilRelease.Wait()
	release := lastRelease
	if !isClosed(now) {
		release = max(release, calm(over))
	}
	releaseCtx, cancel := context.WithTimeout(ctx, release)
	defer cancel()
	e.heldMu.Lock()
	held := e.held
	e.heldMu.Unlock()
	var problems []error
	if len(left) > 0 {
		cause := left[0].settlement.Err
		if cause == nil {
			cause = context.DeadlineExceeded
		}
		problems = append(problems, fmt.Errorf("mount %s: %d outcomes could not be written before the stop and their messages will run again: %w",
			e.config.Name, len(left), cause))
	}
	if err := e.sub.Release(releaseCtx, held); err != nil {
		problems = append(problems, fmt.Errorf("mount %s: handing back what was left over: %w", e.config.Name, err))
	}
	return problems
}

// leftover says how an entry is handed back whose settlement was not carried out.
func leftover(it *item) broker.Held {
	switch {
	case it.taken != nil:
		d := it.settlement.Delivery
		close(it.taken) // Its worker gives up; it has not begun.
		return broker.Held{ID: d.ID, Count: d.Count}
	case it.unparking:
		return broker.Held{ID: it.delivery.ID, Count: it.delivery.Count, Delivery: it.delivery, Started: true}
	case it.parked:
		return broker.Held{ID: it.delivery.ID, Count: it.settlement.Count, Due: max(time.Until(it.due), 0), Delivery: it.delivery, Started: true}
	}
	return broker.Held{ID: it.delivery.ID, Count: max(it.delivery.Count-1, 0), Delivery: it.delivery, Started: true}
}

// calm is how long a step may take of what is left of the grace time.
func calm(over time.Time) time.Duration { return min(max(time.Until(over), 0), calmWrites) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// waitFor waits for done, at most for d, and less when now is closed. It reports whether done came.
func waitFor(done <-chan struct{}, d time.Duration, now <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-now:
	case <-timer.C:
	}
	return isClosed(done)
}
