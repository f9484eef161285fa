package broker

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

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
	sharded   bool
	key       string
}

// Stream is the stream of that key (without the broker's prefix).
func Stream(key string) Destination { return Destination{structure: StructureStream, key: key} }

// List is the list of that key: publishing is LPUSH, consumers take from the right.
func List(key string) Destination { return Destination{structure: StructureList, key: key} }

// Channel is the channel of that name. Who is not subscribed at the moment does not get the message.
func Channel(name string) Destination { return Destination{structure: StructureChannel, key: name} }

// ShardedChannel is the sharded channel of that name (SPUBLISH), which is another one than [Channel] of the same name. On a
// cluster it lives on one server, by its hash slot. Redis 7.0 and later have them.
func ShardedChannel(name string) Destination {
	return Destination{structure: StructureChannel, sharded: true, key: name}
}

// Structure returns the kind of the destination, 0 for the zero Destination.
func (d Destination) Structure() Structure { return d.structure }

// Sharded reports whether it is a sharded channel.
func (d Destination) Sharded() bool { return d.sharded }

// Key returns the key as it was given.
func (d Destination) Key() string { return d.key }

// String returns the destination for logs and errors: "stream refunds".
func (d Destination) String() string {
	if d.sharded {
		return "sharded " + d.structure.String() + " " + d.key
	}
	return d.structure.String() + " " + d.key
}

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
	// wrong are the options that say nothing that could be done.
	wrong []error
}

// Problem returns what keeps the message from being published whatever the server says, nil where nothing does. The text
// names the option and the fix. A transport asks it before it sends anything.
func (o *Outgoing) Problem() error {
	problems := slices.Clip(o.wrong)
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	switch o.To.structure {
	case StructureStream, StructureList, StructureChannel:
		if o.To.key == "" {
			wrong("the destination has no key; write broker.Stream(\"name\")")
		}
	default:
		wrong("the destination is zero; write broker.Stream(\"name\"), broker.List or broker.Channel")
	}
	for _, h := range o.Headers {
		if h.Name == "" {
			wrong("broker.Header(\"\", %q) has no name; give it one", h.Value)
		}
	}
	trims := ""
	switch {
	case o.MaxLen != 0 && o.MinID != "":
		wrong("broker.MaxLen(%d) and broker.MinID(%q) exclude each other; leave one out", o.MaxLen, o.MinID)
	case o.MaxLen != 0:
		trims = fmt.Sprintf("broker.MaxLen(%d)", o.MaxLen)
	case o.MinID != "":
		trims = fmt.Sprintf("broker.MinID(%q)", o.MinID)
	}
	if trims != "" && o.To.structure != StructureStream {
		wrong("%s trims streams, and a %s is none; leave it out", trims, o.To.structure)
	}
	switch {
	case o.DelaySet != "" && o.To.structure == StructureChannel:
		wrong("broker.After(%q, %s): nothing can wait for a channel; publish to a stream or a list, or leave it out", o.DelaySet, o.Delay)
	case o.DelaySet == "" && o.Delay > 0:
		wrong("broker.After(\"\", %s) names no set for the message to wait in; give the key of a subscription's delay-set", o.Delay)
	case o.Waits() && trims != "":
		wrong("%s trims when the message is appended, which broker.After leaves to others; leave one out", trims)
	}
	return errors.Join(problems...)
}

// Waits reports whether the message goes to its delay set first.
func (o *Outgoing) Waits() bool { return o.DelaySet != "" && o.Delay > 0 }

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
// moves the message, and to its own source. A message that was published so has no group and goes to all. A d of 0 or less
// is at once; more than a hundred years is cut to that. Where the set expires (delay-ttl), it does so later by as much as
// the message is due later than all others.
func After(delaySet string, d time.Duration) PublishOption {
	return publishOption(func(o *Outgoing) { o.DelaySet, o.Delay = delaySet, d })
}

// MaxLen trims the stream to about n entries in the step that appends this one (XADD MAXLEN ~ n), unread and pending
// ones included: see Retain on the mount for a way that spares them. At least 1; anything less is an error of the publish.
func MaxLen(n int64) PublishOption {
	return publishOption(func(o *Outgoing) {
		if n < 1 {
			o.wrong = append(o.wrong, fmt.Errorf("broker.MaxLen(%d) would leave nothing; give at least 1, or leave it out", n))
			return
		}
		o.MaxLen = n
	})
}

// MinID trims entries with a lower id in the step that appends this one (XADD MINID ~ id), unread and pending ones
// included. It is an id such as 1526919030474-0, or its first part; anything else is an error of the publish.
func MinID(id string) PublishOption {
	return publishOption(func(o *Outgoing) {
		if !isEntryID(id) {
			o.wrong = append(o.wrong, fmt.Errorf("broker.MinID(%q) is no entry id; give one such as 1526919030474-0, or leave it out", id))
			return
		}
		o.MinID = id
	})
}

func isEntryID(id string) bool {
	ms, seq, two := strings.Cut(id, "-")
	return isNumber(ms) && (!two || isNumber(seq))
}

// isNumber reports whether s is a number of 64 bits, digits alone.
func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}

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
