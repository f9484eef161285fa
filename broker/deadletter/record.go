package deadletter

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// Record is one record of a dead letter. What the last burial says is in the fields that are named like app.DeadLetterFacts;
// of one that died twice the earlier facts are still in Fields.
type Record struct {
	// ID names the record in its dead letter: the entry's id in a stream; in a list, which has none, the SHA-1 of the item's
	// bytes in hex.
	ID string
	// MessageID is the message's own id, the same through retries, burials and replays.
	MessageID string
	// Foreign: nothing in the entry says that it was buried, so that it is no dead letter: somebody else wrote it. It is
	// listed and counted, and never replayed. All that follows is empty but for Body, Headers, Fields and Raw.
	Foreign bool

	// Reason is one of the broker's Reason constants.
	Reason string
	// Detail is the final error, with its stack for a panic; Error is its text alone.
	Detail, Error string
	// Source is the full key of the stream, list, channel or delay set that it was buried from, SourceID the entry there,
	// Group the consumer group and Handler the subscription.
	Source, SourceID, Group, Handler string
	// Attempts are the failures, Losses the owners that died with it, Deliveries the hand-outs.
	Attempts, Losses, Deliveries int64
	// At is when it was buried, by the server's clock.
	At time.Time

	// Replays is how often the message was replayed before it was buried.
	Replays int
	// Body is the payload. HasBody tells an empty one from none, which only a foreign stream's entries have.
	Body    []byte
	HasBody bool
	// Headers are the message's headers, in their order.
	Headers []broker.HeaderLine
	// Fields is the whole record as a stream holds it, repeated names and order kept. A list's has its headers here as
	// h:name, and its body as _payload.
	Fields []broker.Field
	// Raw is the whole record as a list holds it, envelope included; nil in a stream.
	Raw []byte
}

// Header returns the value of a header, "" where the message has none of that name.
func (r *Record) Header(name string) string {
	for _, h := range slices.Backward(r.Headers) {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// newRecord is a record that shares the letter's bytes.
func newRecord(l *broker.Letter) *Record {
	r := &Record{
		ID: l.ID, Foreign: l.Burial == nil, Body: l.Body, HasBody: l.HasBody, Headers: l.Headers, Fields: l.Fields, Raw: l.Raw,
		Replays: replays(l),
	}
	r.MessageID, _ = l.Header(broker.HeaderMessageID)
	if b := l.Burial; b != nil {
		r.Reason, r.Detail, r.Error = b.Reason, b.Detail, b.Error
		r.Source, r.SourceID, r.Group, r.Handler = b.Source, b.ID, b.Group, b.Handler
		r.Attempts, r.Losses, r.Deliveries, r.At = b.Attempts, b.Losses, b.Deliveries, b.At
	}
	return r
}

// clone returns the record with bytes of its own: those that it was read with belong to a whole page.
func (r *Record) clone() Record {
	c := *r
	c.Body, c.Raw = bytes.Clone(r.Body), bytes.Clone(r.Raw)
	c.Fields = make([]broker.Field, len(r.Fields))
	for i, f := range r.Fields {
		c.Fields[i] = broker.Field{Name: bytes.Clone(f.Name), Value: bytes.Clone(f.Value)}
	}
	return c
}

// replays reads the header; anything but a plain number counts as 0, and one that is too large as the largest.
func replays(l *broker.Letter) int {
	text, _ := l.Header(broker.HeaderReplays)
	n, err := strconv.Atoi(text)
	if n < 0 || err != nil && n == 0 {
		return 0
	}
	return n
}
