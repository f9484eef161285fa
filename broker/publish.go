package broker

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

// Structure returns the kind of the destination, 0 for the zero Destination.
func (d Destination) Structure() Structure { return d.structure }

// Key returns the key as it was given.
func (d Destination) Key() string { return d.key }

// String returns the destination for logs and errors: "stream refunds".
func (d Destination) String() string { return d.structure.String() + " " + d.key }

// Outgoing is an encoded message on its way to a destination.
type Outgoing struct {
	Body    []byte
	Headers []HeaderLine
}

// PublishOption changes how one message is published.
type PublishOption interface{ applyPublish(*Outgoing) }

type headerOption HeaderLine

func (h headerOption) applyPublish(o *Outgoing) {
	switch h.Name {
	case HeaderRetryCount, HeaderLosses, HeaderRetryGroup:
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

// Header adds a header to the message; of one name the last value counts. The counters of retries and the group of a
// copy ([HeaderRetryCount], [HeaderLosses], [HeaderRetryGroup]) are the library's own and are left out: a message that
// is published starts anew.
func Header(name, value string) PublishOption { return headerOption{name, value} }

// NewOutgoing applies the options to a body.
func NewOutgoing(body []byte, options ...PublishOption) Outgoing {
	o := Outgoing{Body: body}
	for _, option := range options {
		if option != nil {
			option.applyPublish(&o)
		}
	}
	return o
}
