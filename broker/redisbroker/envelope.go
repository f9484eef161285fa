package redisbroker

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/millrace-go/millrace/broker"
)

// envelope is a message of a list or a channel. Without headers it is sent as its bare body. With headers it is sent
// behind the mark as a CBOR array [version, headers, body], each header a pair of byte strings, order and repeated names
// kept. A body that itself begins with the mark is always wrapped, so that whatever does not begin with it is a bare body,
// other people's CBOR included. In a delay set the array has one more element at its end, which makes the member unique.
//
// Later versions keep the first two elements, and in a delay set the last: their headers can be read and changed here,
// and everything else is passed on byte for byte.
type envelope struct {
	version uint64
	headers []broker.HeaderLine
	body    []byte
	// later are the elements behind the headers, as a later version wrote them, and n is how many there are.
	later []byte
	n     int
}

// envelopeVersion is the version of the array behind the mark (see memberMark).
const envelopeVersion = 1

var errEnvelope = errors.New("the envelope is damaged: behind the mark d9d9f7da4d4c5231 stands no CBOR array of version, headers and body")

// newEnvelope is a message of our own version.
func newEnvelope(headers []broker.HeaderLine, body []byte) envelope {
	return envelope{version: envelopeVersion, headers: headers, body: body}
}

// newer tells that a later version of this library wrote the message.
func (e *envelope) newer() bool { return e.version > envelopeVersion }

// openEnvelope takes a message apart. The body points into data.
func openEnvelope(data []byte) (envelope, error) {
	wrapped, ok := bytes.CutPrefix(data, memberMark)
	if !ok {
		return newEnvelope(nil, data), nil
	}
	return unwrap(wrapped, 3)
}

// openListMember takes a member of a list's delay set apart.
func openListMember(data []byte) (envelope, error) {
	wrapped, ok := bytes.CutPrefix(data, memberMark)
	if !ok {
		return envelope{}, errNotAMember
	}
	return unwrap(wrapped, 4)
}

// unwrap reads the array, which has so many elements in our version: the fourth is the key of a member, and left out.
func unwrap(data []byte, elements int) (envelope, error) {
	major, n, data, ok := cborHead(data)
	if !ok || major != cborArray || n < 2 {
		return envelope{}, errEnvelope
	}
	var e envelope
	if major, e.version, data, ok = cborHead(data); !ok || major != cborUnsigned {
		return envelope{}, errEnvelope
	}
	if e.headers, data, ok = cborHeaders(data); !ok {
		return envelope{}, errEnvelope
	}
	if e.newer() {
		return e, e.keepLater(data, int(min(n, 1<<20))-2, elements-3)
	}
	if n != uint64(elements) { //nolint:gosec // a small constant
		return envelope{}, fmt.Errorf("%w: %d elements instead of %d", errEnvelope, n, elements)
	}
	if e.body, data, ok = cborText(data); !ok {
		return envelope{}, errEnvelope
	}
	if elements > 3 {
		if _, data, ok = cborText(data); !ok {
			return envelope{}, errEnvelope
		}
	}
	if len(data) > 0 {
		return envelope{}, fmt.Errorf("%w: %d bytes follow it", errEnvelope, len(data))
	}
	return e, nil
}

// keepLater keeps the n elements of a later version that stand behind the headers, without the last few.
func (e *envelope) keepLater(data []byte, n, without int) error {
	rest := data
	for i := range n {
		if i == n-without {
			data = data[:len(data)-len(rest)]
		}
		var element cbor.RawMessage
		var err error
		if rest, err = cbor.UnmarshalFirst(rest, &element); err != nil {
			return fmt.Errorf("%w: %w", errEnvelope, err)
		}
	}
	if len(rest) > 0 || n < without {
		return errEnvelope
	}
	e.later, e.n = data, n-without
	return nil
}

// seal returns the message as it stands in a list or is published.
func (e *envelope) seal() []byte {
	if !e.newer() && len(e.headers) == 0 && !bytes.HasPrefix(e.body, memberMark) {
		return e.body
	}
	return e.wrap("")
}

// sealMember returns the message as it stands in a delay set. The key, never empty, makes it unique.
func (e *envelope) sealMember(key string) []byte { return e.wrap(key) }

// sealAround returns the message in two parts, for a script that puts the server's time between them: the value of one
// more header, stampDigits digits long. A member has a key, a message none.
func (e *envelope) sealAround(header, key string) (before, after []byte) {
	stamped := *e
	stamped.headers = append(slices.Clip(e.headers), broker.HeaderLine{Name: header, Value: noTime})
	b, end := stamped.layOut(key)
	return b[:end-stampDigits], b[end:]
}

// stampDigits is how long the server's time in ms is, until the year 2286.
const (
	noTime      = "0000000000000"
	stampDigits = len(noTime)
)

func (e *envelope) wrap(key string) []byte {
	b, _ := e.layOut(key)
	return b
}

// layOut returns the bytes and where the headers end in them.
func (e *envelope) layOut(key string) (b []byte, headersEnd int) {
	size := len(memberMark) + 40 + len(e.body) + len(e.later) + len(key)
	for _, h := range e.headers {
		size += 20 + len(h.Name) + len(h.Value)
	}
	n := 3
	if e.newer() {
		n = 2 + e.n
	}
	if key != "" {
		n++
	}
	b = append(make([]byte, 0, size), memberMark...)
	b = appendCBORHead(b, cborArray, n)
	b = appendCBORUint(b, cborUnsigned, e.version)
	b = appendCBORHead(b, cborArray, len(e.headers))
	for _, h := range e.headers {
		b = appendCBORHead(b, cborArray, 2)
		b = append(appendCBORHead(b, cborBytes, len(h.Name)), h.Name...)
		b = append(appendCBORHead(b, cborBytes, len(h.Value)), h.Value...)
	}
	headersEnd = len(b)
	if e.newer() {
		b = append(b, e.later...)
	} else {
		b = append(appendCBORHead(b, cborBytes, len(e.body)), e.body...)
	}
	if key != "" {
		b = append(appendCBORHead(b, cborString, len(key)), key...)
	}
	return b, headersEnd
}

// edit changes the headers in place of the message: those that the edits name are left out and set, everything else
// stands as it stood, repeated names and order kept.
func (e *envelope) edit(edits broker.Edits) {
	headers := make([]broker.HeaderLine, 0, len(e.headers)+len(edits.Set)+1)
	for _, h := range e.headers {
		if !touches(edits, h.Name) {
			headers = append(headers, h)
		}
	}
	e.headers = append(headers, edits.Set...)
}

// identify gives a message without an id this one.
func (e *envelope) identify(id string) {
	named := slices.ContainsFunc(e.headers, func(h broker.HeaderLine) bool { return isMessageID(h) && h.Value != "" })
	if !named {
		e.headers = append(e.headers, broker.HeaderLine{Name: broker.HeaderMessageID, Value: id})
	}
}

// envelopeDelivery is the delivery of a message of a list or a channel. It cannot fail: what is wrong with the message is
// the delivery's Fault, and its body is then the whole of it.
func envelopeDelivery(id string, data []byte) *broker.Delivery {
	d := new(broker.Delivery)
	openDelivery(d, id, data)
	return d
}

// openDelivery is envelopeDelivery into a place that stands ready.
func openDelivery(d *broker.Delivery, id string, data []byte) {
	d.ID, d.Count, d.Raw = id, 1, data
	e, err := openEnvelope(data)
	if err != nil {
		d.Body, d.HasBody, d.Fault = data, true, err
		return
	}
	d.Newer = e.newer()
	d.Body, d.HasBody = e.body, !d.Newer
	d.Headers = e.headers
	if slices.ContainsFunc(e.headers, isBurialHeader) {
		d.Headers = make([]broker.HeaderLine, 0, len(e.headers))
		for _, h := range e.headers {
			if isBurialHeader(h) {
				setBurial(d, broker.Field{Name: []byte(h.Name), Value: []byte(h.Value)})
			} else {
				d.Headers = append(d.Headers, h)
			}
		}
	}
}

func isBurialHeader(h broker.HeaderLine) bool { return strings.HasPrefix(h.Name, burialPrefix) }

// editedEnvelope is what a settlement writes of the message: its headers edited, and a message-id if it had none. A
// damaged one is the body, untouched.
func editedEnvelope(d *broker.Delivery, edits broker.Edits) envelope {
	e, err := openEnvelope(d.Raw)
	if err != nil {
		e = newEnvelope(nil, d.Raw)
	}
	e.edit(edits)
	e.identify(d.ID)
	return e
}

// burialEnvelope is the dead letter of a settlement, without its time (broker.FieldAt) where the burial has none: that is
// the server's (see sealAround).
func burialEnvelope(st *broker.Settlement) envelope {
	e := editedEnvelope(st.Delivery, st.Edits)
	e.headers = append(e.headers, st.Burial.Fields()...)
	return e
}
