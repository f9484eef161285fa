package broker

import "time"

// The headers that the library reads and writes. Everything else is the application's.
const (
	// HeaderRetryCount counts the failures of the message, over all its copies.
	HeaderRetryCount = "retry-count"
	// HeaderLosses counts the owners that vanished with the message in hand, carried from copy to copy.
	HeaderLosses = "losses"
	// HeaderRetryGroup names the one group that a copy is meant for. It never leaves its stream.
	HeaderRetryGroup = "retry-group"
	// HeaderTask is the name by which messages are routed where several handlers share a stream and group.
	HeaderTask = "task"
	// HeaderContentType names the payload's encoding.
	HeaderContentType = "content-type"
	// HeaderHistory holds one line for each failed attempt, the last ten.
	HeaderHistory = "history"
	// HeaderMessageID is given once and stays the same through retries, delays, burial and replay.
	HeaderMessageID = "message-id"
	// HeaderUnknownSince is when a task name was first not recognised.
	HeaderUnknownSince = "unknown-since"
	// HeaderReplays counts how often the message was replayed from a dead letter.
	HeaderReplays = "replays"
	// HeaderTraceParent and HeaderTraceState carry the trace context.
	HeaderTraceParent = "traceparent"
	HeaderTraceState  = "tracestate"
)

// Destination is where a message is published.
type Destination struct {
	structure Structure
	key       string
}

// Stream is the stream of that key (without the broker's prefix).
func Stream(key string) Destination { return Destination{StructureStream, key} }

// List is the list of that key: publishing is LPUSH, consumers take from the right.
func List(key string) Destination { return Destination{StructureList, key} }

// Channel is the channel of that name. Who is not subscribed at the moment does not get the message.
func Channel(name string) Destination { return Destination{StructureChannel, name} }

// Structure returns the kind of the destination, 0 for the zero Destination.
func (d Destination) Structure() Structure { return d.structure }

// Key returns the key as it was given.
func (d Destination) Key() string { return d.key }

// String returns the destination for logs and errors: "stream refunds".
func (d Destination) String() string { return d.structure.String() + " " + d.key }

// Outgoing is an encoded message on its way to a destination.
type Outgoing struct {
	To      Destination
	Body    []byte
	Headers []HeaderLine
	// DelaySet is the key of the sorted set in which the message waits for Delay before it goes to its destination; "" is
	// at once.
	DelaySet string
	Delay    time.Duration
	// MaxLen and MinID trim the stream in the same step; 0 and "" do not.
	MaxLen int64
	MinID  string
}

// PublishOption changes how one message is published.
type PublishOption interface{ applyPublish(*Outgoing) }

type headerOption HeaderLine

func (h headerOption) applyPublish(o *Outgoing) {
	switch h.Name {
	case HeaderRetryCount, HeaderLosses, HeaderRetryGroup, HeaderUnknownSince:
		return
	}
	for i := range o.Headers {
		if o.Headers[i].Name == h.Name {
			o.Headers[i].Value = h.Value
			return
		}
	}
	o.Headers = append(o.Headers, HeaderLine(h))
}

// Header adds a header to the message; of one name the last value counts. What the library counts and notes on a message's
// way ([HeaderRetryCount], [HeaderLosses], [HeaderRetryGroup], [HeaderUnknownSince]) is its own and is left out: a message
// that is published starts anew.
func Header(name, value string) PublishOption { return headerOption{name, value} }

type publishOption func(*Outgoing)

func (f publishOption) applyPublish(o *Outgoing) { f(o) }

// After lets the message wait in the sorted set of that key for d, by the server's clock (ZADD), and then go to its
// destination, a stream or a reliable list. Some running subscription has to have the set as its delay-set: it is what
// moves the message. A message that was published so has no group and goes to all. A d of 0 or less is at once.
func After(delaySet string, d time.Duration) PublishOption {
	return publishOption(func(o *Outgoing) { o.DelaySet, o.Delay = delaySet, d })
}

// MaxLen trims the stream to about n entries in the step that appends this one (XADD MAXLEN ~ n), unread and pending
// ones included: see Retain on the mount for a way that spares them. At least 1.
func MaxLen(n int64) PublishOption { return publishOption(func(o *Outgoing) { o.MaxLen = n }) }

// MinID trims entries with a lower id in the step that appends this one (XADD MINID ~ id), unread and pending ones
// included.
func MinID(id string) PublishOption { return publishOption(func(o *Outgoing) { o.MinID = id }) }

// NewOutgoing applies the options to a body.
func NewOutgoing(to Destination, body []byte, options ...PublishOption) Outgoing {
	o := Outgoing{To: to, Body: body}
	for _, option := range options {
		if option != nil {
			option.applyPublish(&o)
		}
	}
	return o
}
