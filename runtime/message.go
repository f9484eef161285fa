package streamrt

import (
	"context"
	"time"
)

// Headers are the headers of a message: names and values byte for byte as they were published.
type Headers map[string]string

// Get returns the value of the header, or "" where there is none.
func (h Headers) Get(name string) string { return h[name] }

// Message is what a handler can learn about the delivery that it runs in, besides the payload.
type Message struct {
	// ID names the message for as long as it lives: the same through every retry, delay, dead letter and replay.
	ID string
	// EntryID is the id of this entry of the stream; a retry that is a copy has another one.
	EntryID string
	// Source is the full key that the message was read from.
	Source string
	// Group is the consumer group, "" where the source has none.
	Group string
	// Attempt is 1 + the failures so far (Retry, RetryAfter, error, panic, timeout). For the reader of a dead letter it
	// counts from the burial.
	Attempt int
	// Losses counts the owners that vanished while the message was in their hands.
	Losses int
	// Deliveries counts the hand-outs of the message, this one included.
	Deliveries int
	// Headers are the message's headers; nil where it has none. The map belongs to this delivery.
	Headers Headers
	// Fields are the flat fields of a stream entry as they stand there: order, repeated names and bytes are kept, and what
	// this library wrote is among them (h:retry-count, for example). They are there for codec=fields, and for codec=raw
	// where the entry has no payload; nil otherwise, so that other messages do not pay for them. The slice belongs to this
	// delivery.
	Fields []Field
	// DeadLetter says how the message died where it is a dead letter, and is nil where it is none.
	DeadLetter *DeadLetterFacts
}

// Field is one flat field of a stream entry. Name and Value hold the bytes of the entry, which need not be text.
type Field struct{ Name, Value string }

// DeadLetterFacts is how and where a message died: the dlq_* fields of a dead letter.
type DeadLetterFacts struct {
	// Reason is max_attempts, max_deliveries, unknown_task, malformed or rejected.
	Reason string
	// Detail is the final error, with the stack where it was a panic, at most 8 KiB.
	Detail string
	// Source is the full key that the message was read from when it was buried, ID its entry there, Group and Handler who buried it.
	Source, ID, Group, Handler string
	// Error is the text of the final error, shortened.
	Error string
	// Attempts counts the failures before the burial, Losses the owners that vanished, Deliveries the hand-outs.
	Attempts, Losses, Deliveries int
	// At is when it was buried, by the server's clock.
	At time.Time
}

// Incoming is a message on its way to a handler: what a [Codec] decodes from.
type Incoming struct {
	// Message has its Fields where [Subscription.ReadsFields] asks for them.
	Message Message
	// Body is the payload. HasBody tells an empty one from none.
	Body    []byte
	HasBody bool

	// ctx is here so that it costs no allocation of its own.
	ctx messageContext
}

// Under returns a context under parent that [MessageFrom] finds the message in. It is called once.
func (in *Incoming) Under(parent context.Context) context.Context {
	in.ctx = messageContext{parent, &in.Message}
	return &in.ctx
}

type messageKey struct{}

// MessageFrom returns the message of the delivery that ctx belongs to, and the zero Message outside of one.
func MessageFrom(ctx context.Context) Message {
	if m, ok := ctx.Value(messageKey{}).(*Message); ok {
		return *m
	}
	return Message{}
}

// WithMessage returns a context that [MessageFrom] finds m in.
func WithMessage(ctx context.Context, m *Message) context.Context {
	return &messageContext{ctx, m}
}

// messageContext is one allocation where context.WithValue would be two.
type messageContext struct {
	context.Context
	m *Message
}

// Value answers for the message itself and leaves everything else to the parent.
func (c *messageContext) Value(key any) any {
	if key == (messageKey{}) {
		return c.m
	}
	return c.Context.Value(key)
}
