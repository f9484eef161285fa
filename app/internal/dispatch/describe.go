package dispatch

import (
	"bytes"

	streamrt "github.com/millrace-go/millrace/runtime"
)

// describe fills in what the handler can learn about its delivery.
func (e *Engine) describe(it *item) {
	d, in := it.delivery, new(streamrt.Incoming)
	it.incoming = in
	in.Body, in.HasBody = d.Body, d.HasBody
	if it.route.rawBody {
		in.Body = bytes.Clone(d.Body)
	}
	in.Message = streamrt.Message{
		ID:         d.MessageID(),
		EntryID:    d.ID,
		Source:     it.route.rules.sourceOf(d),
		Group:      it.route.rules.group,
		Attempt:    asInt(it.counters.attempt),
		Losses:     asInt(it.counters.losses),
		Deliveries: asInt(it.counters.deliveries()),
	}
	if len(d.Headers) > 0 {
		headers := make(streamrt.Headers, len(d.Headers))
		for _, h := range d.Headers {
			headers[h.Name] = h.Value
		}
		in.Message.Headers = headers
	}
	if it.route.Subscription.ReadsFields(in) {
		in.Message.Fields = make([]streamrt.Field, len(d.Fields))
		for i, f := range d.Fields {
			in.Message.Fields[i] = streamrt.Field{Name: string(f.Name), Value: string(f.Value)}
		}
	}
	if b := d.Burial; b != nil {
		in.Message.DeadLetter = &streamrt.DeadLetterFacts{
			Reason: b.Reason, Detail: b.Detail, Source: b.Source, ID: b.ID, Group: b.Group, Handler: b.Handler,
			Error: b.Error, Attempts: asInt(b.Attempts), Losses: asInt(b.Losses), Deliveries: asInt(b.Deliveries),
			At: b.At,
		}
	}
}

// prepare decodes. A codec that panics is broken code, not a broken message: it is a failure and may be mended by the
// next deployment, so call and err are nil and end says what happened.
func (e *Engine) prepare(it *item) (call Handler, end ending, err error) {
	defer func() {
		if p := recover(); p != nil {
			call, err, end = nil, nil, panicked(p)
		}
	}()
	call, err = it.route.Subscription.Prepare(it.incoming, it.route.Codec)
	return call, end, err
}
