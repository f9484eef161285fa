package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/millrace-go/millrace/app/internal/telemetry"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
)

var (
	errZeroOutcome = errors.New("handler returned the zero outcome")
	errGoexit      = errors.New("handler called runtime.Goexit")
	errForeignCtx  = errors.New("a middleware passed on a context that does not come from the one it was given")
)

// lateAfter is how long after its deadline a handler that still runs is logged.
const lateAfter = time.Second

// worker is one handler slot. It begins with a delivery that has waited for a slot of its route, unless that is nil, and
// ends when the reader has ended and nothing is left to do.
func (e *Engine) worker(slot *slot, it *item) {
	defer func() {
		if it == nil {
			slot.close()
			e.workers.Done()
			return
		}
		// Only runtime.Goexit gets here: the goroutine is lost, the slot and the delivery are not.
		left := e.shared(it.route)
		defer func() { go e.worker(slot, e.next(left)) }()
		e.fence.Cross()
		e.finish(slot, it, ending{kind: outcome.KindFail, label: labelPanic, err: errGoexit})
	}()
	for {
		if it == nil {
			var open bool
			if it, open = e.inbox.take(slot); !open {
				return
			}
			if it.taken != nil && !e.takeUp(it) {
				it = nil
				continue
			}
		}
		it = e.next(e.serve(slot, it))
	}
}

// serve takes one delivery from the inbox to its settlement, or aside. It returns the route whose slot is free again, nil
// for none. The item is somebody else's by then.
func (e *Engine) serve(slot *slot, it *item) (left *route) {
	if it.entered {
		left = e.shared(it.route)
	}
	if e.isStopping() {
		e.release(it, false)
		return left
	}
	if it.route == nil {
		e.find(it)
	}
	turn := it.place == returning && !it.forRoute
	it.place, it.forRoute = inLine, false
	if turn {
		e.start(slot, it) // Everything else was looked at before it stood aside.
		return left
	}
	if e.settledUnrun(it) {
		return left
	}
	if rt := e.shared(it.route); rt != nil && !it.entered {
		if !e.admit(it) {
			e.room.left(&e.room.running)
			return nil
		}
		left = rt
	}
	if !e.mayStart(it) {
		return nil // It stands aside, and keeps its route's slot.
	}
	e.start(slot, it)
	return left
}

// mayStart reports whether a message may start beside those that run. Otherwise it stands aside.
func (e *Engine) mayStart(it *item) bool {
	if it.counters.losses == 0 || it.suspect || e.suspects.enter(it, it.route.rules.lastRun(it.counters)) {
		return true
	}
	e.standAside(it)
	return false
}

// settledUnrun settles a delivery that no handler is called for.
func (e *Engine) settledUnrun(it *item) bool {
	i, text, unrun := e.unrun(it)
	if unrun {
		if it.unknown {
			e.strangers.note(e.log, it.delivery, e.caps.Acks)
		}
		e.skip(it, i, text)
	}
	return unrun
}

// unrun is what becomes of a delivery that no handler is called for; ok is false for all others.
func (e *Engine) unrun(it *item) (i intent, text string, ok bool) {
	d, rules := it.delivery, &it.route.rules
	switch {
	case d.Fault != nil:
		return rules.malformed(d, it.counters, d.Fault), errorText(d.Fault), true
	case rules.elsewhere(d):
		return intent{action: broker.Ack}, "", true
	case it.unknown:
		return rules.unknown(it.counters), unknownText, true
	}
	i, ok = rules.overtaken(d, it.counters)
	return i, "handed out more often than the cap allows", ok
}

// start runs the handler, if there is something to run it with.
func (e *Engine) start(slot *slot, it *item) {
	d := it.delivery
	e.describe(it)
	ctx := slot.begin(e.base, it)
	if e.hands != nil && e.hands.isParted(it) {
		// Asked when it is in the slot: whoever finds out later ends its context.
		if _, ok := slot.finish(it); ok {
			e.letGo(it)
		}
		return
	}
	ctx = e.trace(ctx, it)
	call, end, err := e.prepare(it)
	switch {
	case err != nil:
		if _, ok := slot.finish(it); !ok {
			it.endSpan(telemetry.Ending{})
			return // The shutdown has handed it back.
		}
		if it.counters.losses > 0 {
			defer e.calm(it)
		}
		e.skip(it, it.route.rules.malformed(d, it.counters, err), errorText(err))
		return
	case call == nil:
		e.finish(slot, it, end)
		return
	}
	it.call = call
	e.finish(slot, it, e.run(ctx, it))
}

// run calls the handler and says how it ended.
func (e *Engine) run(ctx context.Context, it *item) ending {
	ctx = it.incoming.Under(ctx)
	timeout := it.route.Subscription.Spec().Timeout
	if timeout > 0 {
		timed, cancel := context.WithTimeoutCause(ctx, timeout, context.DeadlineExceeded)
		defer cancel()
		log, id := it.route.Logger, it.delivery.ID // it may have come to its end when this is logged
		late := time.AfterFunc(min(timeout, maxDelay)+lateAfter, func() {
			log.Warn("a handler ignores its deadline: it keeps its slot until it returns", "id", id, "timeout", timeout)
		})
		defer late.Stop()
		ctx = timed
	}
	if e.fence != nil {
		e.fence.Cross()
		defer e.fence.Cross()
	}
	call := it.call
	if it.route.handle != nil {
		ctx = context.WithValue(ctx, callKey{}, call)
		call = it.route.handle
	}
	end := invoke(ctx, call)
	if timeout > 0 && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		end.overdue = true
		if end.label == labelFail {
			end.label = labelTimeout
		}
	}
	return end
}

// invoke turns whatever the handler does into an ending.
func invoke(ctx context.Context, call Handler) (end ending) {
	defer func() {
		if p := recover(); p != nil {
			end = panicked(p)
		}
	}()
	o := call(ctx)
	return ending{kind: o.Kind(), delay: o.Delay(), err: o.Err(), label: labelOf(o.Kind())}
}

func panicked(p any) ending {
	err, isError := p.(error)
	text := "panic: " + panicText(p)
	if !isError {
		err = errors.New(text)
	}
	return ending{
		kind: outcome.KindFail, label: labelPanic, err: err,
		text: text, detail: text + "\n\n" + string(debug.Stack()),
	}
}

// panicText is the value of a panic as text; fmt survives values whose own methods panic.
func panicText(p any) string { return fmt.Sprint(p) }

// finish settles a delivery whose handler has returned.
func (e *Engine) finish(slot *slot, it *item, end ending) {
	if it.counters.losses > 0 {
		defer e.calm(it)
	}
	took, ok := slot.finish(it)
	if !ok {
		it.endSpan(telemetry.Ending{Ran: true, Outcome: int(labelReleased)})
		return // The shutdown gave the handler up and has handed the delivery back.
	}
	if end.failed() && e.isCut.Load() && !end.overdue {
		end.label = labelReleased
	}
	it.ran, it.label = true, end.label
	it.route.Telemetry.Ran(int(end.label), took, it.counters.attempt)
	if end.kind == outcome.KindAck {
		it.settlement = broker.Settlement{Delivery: it.delivery, Action: broker.Ack}
		it.endSpan(telemetry.Ending{Ran: true, Outcome: int(labelAck), Action: broker.Ack})
		e.settle(it)
		return
	}
	if end.label == labelReleased {
		it.route.Telemetry.Ended(int(labelReleased), 1)
		it.endSpan(telemetry.Ending{Ran: true, Outcome: int(labelReleased)})
		e.release(it, true)
		return
	}
	end.explain()
	now := time.Now()
	i := it.route.rules.decide(it.delivery, it.counters, end, now)
	if i.slowed {
		it.route.slowedOnce.Do(func() {
			it.route.Logger.Warn("a message without MaxAttempts is retried again and again: from its tenth attempt on each retry waits as Backoff says",
				"id", it.delivery.ID)
		})
	}
	e.logEnding(it, end)
	it.text = end.text
	it.endSpan(end.told(i))
	it.apply(i, now)
	e.settle(it)
}

func (e *Engine) logEnding(it *item, end ending) {
	const said = "the handler failed"
	log := it.route.Logger
	switch end.label {
	case labelDrop, labelRetry, labelRetryAfter, labelDeadLetter:
		if !log.Enabled(context.Background(), slog.LevelDebug) {
			return // or its arguments would be made all the same
		}
		log.Debug("the handler answered", "id", it.delivery.ID, "attempt", it.counters.attempt,
			"outcome", end.label.String(), "error", shorten(end.text, maxError))
	case labelPanic:
		log.Error(said, "id", it.delivery.ID, "attempt", it.counters.attempt, "outcome", end.label.String(),
			"error", shorten(end.text, maxError), "detail", abridge(end.detail, maxDetail))
	default:
		log.Warn(said, "id", it.delivery.ID, "attempt", it.counters.attempt, "outcome", end.label.String(),
			"error", shorten(end.text, maxError))
	}
}

// skip settles a delivery whose handler is not called.
func (e *Engine) skip(it *item, i intent, text string) {
	it.text = text
	e.traceUnrun(it, i)
	it.apply(i, time.Now())
	e.settle(it)
}

// settle hands the item to the settler and frees its slot. The item is not to be looked at any more then, unless owners
// were lost with it.
func (e *Engine) settle(it *item) {
	if it.parked {
		e.park(it.route)
	}
	e.room.settling.Add(1)
	e.room.left(&e.room.running)
	e.settler.submit(it)
}

// calm notes that a delivery that outlived an owner, and no other, has returned: it is not what killed it. It comes after the settlement
// was submitted, so that the server carries that out before the next one on its last run is given its turn: a death then
// finds nothing of this one.
func (e *Engine) calm(it *item) {
	e.recall(e.suspects.leave(it))
}

// release hands the delivery back unsettled.
func (e *Engine) release(it *item, started bool) {
	e.handBack(it.delivery, started)
	e.room.left(&e.room.running)
}

// callKey finds the call of one delivery behind the middleware, which is built once and knows no deliveries.
type callKey struct{}

func callFromContext(ctx context.Context) outcome.HandlerOutcome {
	call, ok := ctx.Value(callKey{}).(Handler)
	if !ok {
		return outcome.Of(errForeignCtx)
	}
	return call(ctx)
}

// failed reports whether the ending asks for another attempt.
func (e *ending) failed() bool {
	switch e.kind {
	case outcome.KindAck, outcome.KindDrop, outcome.KindDeadLetter:
		return false
	}
	return true
}

// explain fills in the texts.
func (e *ending) explain() {
	if e.kind == outcome.KindNone && e.err == nil {
		e.err = errZeroOutcome
	}
	if e.text == "" {
		e.text = errorText(e.err)
	}
	if e.detail == "" {
		e.detail = e.text
	}
}
