package dispatch

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// maxBatch bounds one batch, so that ten thousand delays that end together do not hold up the acks behind them.
const maxBatch = 512

var errNoResult = errors.New("the transport reported no result")

// settler carries out settlements. What is submitted while a batch is on the wire goes in the next one; what fails is
// tried again later by itself, so that it stops nothing else. submit is safe for concurrent use.
type settler struct {
	e *Engine

	mu    sync.Mutex
	queue []*item
	// wake tells run that the queue is not empty; closing that nothing will be submitted any more.
	wake    chan struct{}
	closing chan struct{}

	// The rest belongs to run.
	failed dueQueue[*item]
	taken  []*item
	batch  []*broker.Settlement
	errs   errorState
	pulse  *pulse
}

func newSettler(e *Engine) *settler {
	s := &settler{
		e: e, wake: make(chan struct{}, 1), closing: make(chan struct{}),
		errs: errorState{log: e.log, doing: "settle"}, pulse: e.config.Vitals.pulse(broker.CheckSettle, 0),
	}
	s.pulse.rest()
	return s
}

func (s *settler) submit(it *item) {
	it.holding.settling.Store(true)
	s.mu.Lock()
	s.queue = append(s.queue, it)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run settles until closing and nothing is left, or until ctx ends. What is left over then is in leftovers.
func (s *settler) run(ctx context.Context) {
	timer := time.NewTimer(maxDelay)
	defer timer.Stop()
	closing := s.closing
	for ctx.Err() == nil {
		if s.next() {
			s.settle(ctx)
			continue
		}
		if closing == nil && s.failed.len() == 0 && s.idle() {
			return
		}
		wait := maxDelay
		if at, ok := s.failed.next(); ok {
			wait = max(time.Until(at), 0)
		}
		timer.Reset(wait)
		select {
		case <-s.wake:
		case <-timer.C:
		case <-closing:
			closing = nil
		case <-ctx.Done():
		}
	}
}

func (s *settler) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) == 0
}

// next fills taken with what is to be settled now.
func (s *settler) next() bool {
	s.mu.Lock()
	n := min(len(s.queue), maxBatch)
	s.taken = append(s.taken[:0], s.queue[:n]...)
	rest := copy(s.queue, s.queue[n:])
	clear(s.queue[rest:])
	s.queue = s.queue[:rest]
	s.mu.Unlock()
	if s.failed.len() > 0 {
		for now := time.Now(); len(s.taken) < 2*maxBatch; {
			it, ok := s.failed.take(now)
			if !ok {
				break
			}
			s.taken = append(s.taken, it)
		}
	}
	return len(s.taken) > 0
}

func (s *settler) settle(ctx context.Context) {
	s.batch = s.batch[:0]
	for _, it := range s.taken {
		if s.e.hands != nil && !it.unparking {
			s.e.hands.refresh(it)
		}
		it.settlement.Result, it.settlement.Err = 0, nil
		s.batch = append(s.batch, &it.settlement)
	}
	began := elapsed()
	s.e.sub.Settle(ctx, s.batch)
	took := time.Duration(elapsed() - began)
	clear(s.batch)

	var failure error
	for _, it := range s.taken {
		if it.settlement.Err == nil && it.settlement.Result == 0 {
			it.settlement.Err = errNoResult
		}
		if err := it.settlement.Err; err != nil {
			failure = err
			it.tries++
			it.route.Telemetry.Unsettled()
			s.failed.add(time.Now().Add(pause(it.tries)), it)
			continue
		}
		s.complete(it)
	}
	clear(s.taken)
	for _, rt := range s.e.routes {
		for l, n := range rt.ended {
			if n > 0 {
				rt.Telemetry.Ended(l, n)
				rt.ended[l] = 0
			}
		}
	}
	s.e.routes[0].Telemetry.Settled(took, failure != nil)
	s.e.room.troubled.Store(failure != nil || s.failed.len() > 0)
	switch {
	case failure != nil:
		s.errs.failed(failure)
		s.pulse.resume()
		s.pulse.round(failure)
	case s.failed.len() == 0:
		s.errs.worked()
		s.pulse.rest()
	}
}

// complete follows up a settlement that the server has answered.
func (s *settler) complete(it *item) {
	if it.settlement.Result == broker.Lost && s.e.hands != nil && !it.unparking {
		again, final := s.e.hands.lose(it)
		if again {
			s.submit(it)
		}
		if !final {
			return
		}
	} else if s.e.hands != nil && !it.unparking && !it.waits() {
		s.e.hands.settled(it)
	}
	if it.waits() {
		s.e.recounted(it)
		return
	}
	if it.settlement.Result == broker.Overdue {
		it.text = unknownText
		i := it.route.rules.stayedUnknown(it.delivery, it.counters)
		s.e.traceUnrun(it, i)
		it.apply(i, time.Now())
		s.submit(it)
		return
	}
	s.count(it)
	if it.settlement.Result == broker.Vanished && it.settlement.Action == broker.Keep && it.taken == nil {
		s.rescue(it)
	}
	s.finish(it)
}

// rescue makes the best of an entry that was trimmed while it was in hand and therefore cannot stay pending for somebody
// to read it later: its body is still here. The entry waits here, and is copied from the body when its time comes.
func (s *settler) rescue(it *item) {
	if !it.parked {
		it.parked, it.due = true, time.Now().Add(s.e.caps.Claim)
		s.e.park(it.route)
	}
	it.body, it.settlement.Result, it.settlement.Count = it.delivery, broker.Done, it.delivery.Count
}

// count counts the run where the batch does, so that a thousand acks cost one call of the meter.
func (s *settler) count(it *item) {
	if it.ran {
		it.route.ended[it.label]++
		it.ran = false
	}
}

// finish ends the item's way through the engine. The reader calls it too, for items that turned out to be lost.
func (s *settler) finish(it *item) {
	e := s.e
	if it.waits() {
		e.recounted(it)
		return
	}
	if it.ran {
		it.route.Telemetry.Ended(int(it.label), 1)
	}
	if it.taken != nil {
		if r := it.settlement.Result; r != broker.Done && r != broker.Vanished {
			e.holdings.remove(&it.holding)
		}
		close(it.taken)
		return
	}
	result := it.settlement.Result
	if result == broker.Gone && it.settlement.Repeated {
		result = broker.Done // An earlier try was carried out; only its answer was lost.
	}
	switch result {
	case broker.Done:
		s.done(it)
	case broker.Lost:
		it.route.Telemetry.Discarded(whyLost)
		it.route.Logger.Warn("the outcome came too late: the entry belongs to another consumer by now", "id", it.delivery.ID,
			"action", it.settlement.Action.String())
	case broker.Vanished:
		it.route.Telemetry.Discarded(whyVanished)
		it.route.Logger.Warn("the entry was deleted from the stream while it waited for its delay", "id", it.delivery.ID)
	case broker.Unheard:
		it.route.Telemetry.Discarded(whyRejected)
		it.route.Logger.Error("published, and nobody was there to receive it: the message is gone", "message", it.delivery.MessageID(),
			"action", it.settlement.Action.String(), "to", cmp.Or(it.settlement.Target, s.e.copiesTo()))
	case broker.Gone:
		it.route.Logger.Debug("the entry had been settled before", "id", it.delivery.ID, "action", it.settlement.Action.String())
	}
	if !it.parked || result != broker.Done {
		e.holdings.remove(&it.holding)
	}
	switch {
	case it.unparking:
		e.unparked(it.route)
		return
	case it.parked && result == broker.Done:
		p := &parkedEntry{route: it.route, handedOut: it.delivery.HandedOut, edits: it.copy, kept: it.kept, delivery: it.body}
		if !e.caps.Refetches || e.caps.InPlace {
			p.delivery = it.delivery
		}
		e.holdings.replace(&it.holding, &p.holding, strings.Clone(it.delivery.ID), it.settlement.Count)
		e.parking.add(it.due, p)
	case it.parked:
		e.unparked(it.route)
	}
	e.room.left(&e.room.settling)
	e.recycle(it)
}

// done counts and logs what a carried-out settlement means.
func (s *settler) done(it *item) {
	counts, log := it.route.Telemetry, it.route.Logger
	if n := it.counters.losses; n > 0 && it.isLast() {
		counts.Outlived(n)
	}
	if b := it.settlement.Burial; b != nil {
		counts.Buried(b.Reason)
		log.Warn("dead-lettered", "id", it.delivery.ID, "message", it.delivery.MessageID(), "reason", b.Reason,
			"attempts", b.Attempts, "to", it.settlement.Target, "error", b.Error)
		return
	}
	switch it.discard {
	case "":
		return
	case whyDropped:
		if it.label == labelDrop {
			log.Debug("dropped", "id", it.delivery.ID)
			break
		}
		log.Error("the message is gone: its source keeps nothing that could be tried again",
			"message", it.delivery.MessageID(), "outcome", it.label.String(), "error", shorten(it.text, maxError))
	default:
		log.Error("acknowledged without success, and there is no dead letter to keep the message", "id", it.delivery.ID,
			"message", it.delivery.MessageID(), "why", it.discard, "error", shorten(it.text, maxError))
	}
	counts.Discarded(it.discard)
}

// copiesTo is where copies go that are published.
func (e *Engine) copiesTo() string { return cmp.Or(e.config.Source.OutRetry, e.config.Source.Key) }

// unpark is called when a parked entry is due.
func (e *Engine) unpark(p *parkedEntry) {
	if e.caps.InPlace {
		e.runAgain(p)
		return
	}
	it := &item{route: p.route, delivery: p.delivery, unparking: true}
	action := broker.Copy
	if it.delivery == nil {
		it.delivery = &broker.Delivery{ID: p.holding.id, Count: p.holding.count, HandedOut: p.handedOut}
		action = broker.Unpark
	}
	it.settlement = broker.Settlement{Delivery: it.delivery, Action: action, Edits: p.edits}
	e.holdings.replace(&p.holding, &it.holding, it.delivery.ID, it.delivery.Count)
	e.settler.submit(it)
}

// leftovers takes out what was not settled. run has ended.
func (s *settler) leftovers() []*item {
	s.mu.Lock()
	left := s.queue
	s.queue = nil
	s.mu.Unlock()
	for _, f := range s.failed.drain() {
		left = append(left, f.value)
	}
	return left
}
