package dispatch

import (
	"context"

	"github.com/millrace-go/millrace/app/internal/telemetry"
	"github.com/millrace-go/millrace/broker"
)

// trace begins the item's span, if somebody takes it, and returns the context that the handler runs under.
func (e *Engine) trace(ctx context.Context, it *item) context.Context {
	ctx, it.span = it.route.Telemetry.Start(ctx, telemetry.Delivery{
		Delivery: it.delivery, Attempt: it.counters.attempt, Losses: it.counters.losses,
	})
	return ctx
}

// traceUnrun ends the span of a delivery whose handler is not called. Its trace would else end without a word where the
// message is given up; one that is put off or was meant for others has none.
func (e *Engine) traceUnrun(it *item, i intent) {
	if it.span == nil && (i.action == broker.Bury || i.discard != "") {
		e.trace(e.base, it)
	}
	end := ending{text: it.text}
	told := end.told(i)
	told.Ran = false
	it.endSpan(told)
}

// endSpan ends the item's span.
func (it *item) endSpan(e telemetry.Ending) {
	if it.span != nil {
		it.route.Telemetry.End(it.span, e)
		it.span = nil
	}
}

// told is what a span says of the ending and what follows from it.
func (e *ending) told(i intent) telemetry.Ending {
	t := telemetry.Ending{
		Ran: true, Outcome: int(e.label), Err: e.err, Text: shorten(e.text, maxError), Action: i.action, Why: i.discard,
	}
	if e.label == labelPanic {
		t.Stack = abridge(e.detail, maxDetail)
	}
	if i.burial != nil {
		t.Reason = i.burial.Reason
	}
	return t
}
