package redisbroker

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // see ListLetter
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/broker"
)

// Letter takes a record of a dead letter apart that stands in a stream with these fields. It cannot fail: one that says
// nothing of a burial is no dead letter, and has none.
func Letter(id string, fields []broker.Field) *broker.Letter {
	var d broker.Delivery
	l := &broker.Letter{ID: id, Fields: fields}
	for _, f := range fields {
		if string(f.Name) == broker.FieldReason && d.Burial != nil {
			earlier := *d.Burial
			l.Earlier = &earlier
		}
		takeField(&d, f, len(fields))
	}
	l.Body, l.HasBody, l.Headers, l.Burial = d.Body, d.HasBody, d.Headers, d.Burial
	return l
}

// ListLetter takes a record of a dead letter apart that is an item of a list or was received on a channel. It cannot fail. Its
// ID is the SHA-1 of its bytes.
func ListLetter(item []byte) *broker.Letter {
	e, err := openEnvelope(item)
	if err != nil {
		e = newEnvelope(nil, item)
	}
	sum := sha1.Sum(item) //nolint:gosec // it names the item; nothing is secured by it
	l := Letter(hex.EncodeToString(sum[:]), e.fields())
	l.Raw = item
	if again, err := envelopeOf(l.Fields); err == nil && !e.newer() {
		l.Whole = bytes.Equal(again.seal(), item)
	}
	return l
}

// fields are the message as a stream would hold it. The body of a later version's is not known.
func (e *envelope) fields() []broker.Field {
	fields := make([]broker.Field, 0, len(e.headers)+1)
	for _, h := range e.headers {
		name := h.Name
		if !isBurialHeader(h) {
			name = headerPrefix + name
		}
		fields = append(fields, field(name, h.Value))
	}
	if !e.newer() {
		fields = append(fields, broker.Field{Name: []byte(fieldPayload), Value: e.body})
	}
	return fields
}

// envelopeOf is the way back. It fails where a field is neither a header nor the body.
func envelopeOf(fields []broker.Field) (envelope, error) {
	var headers []broker.HeaderLine
	var body []byte
	for _, f := range fields {
		name := string(f.Name)
		switch header, ok := strings.CutPrefix(name, headerPrefix); {
		case ok:
			headers = append(headers, broker.HeaderLine{Name: header, Value: string(f.Value)})
		case strings.HasPrefix(name, burialPrefix):
			headers = append(headers, broker.HeaderLine{Name: name, Value: string(f.Value)})
		case name == fieldPayload:
			body = f.Value
		default:
			return envelope{}, fmt.Errorf("its field %q is neither the payload nor a header, which only a stream can hold; name a stream as its target", name)
		}
	}
	return newEnvelope(headers, body), nil
}

// burialFields are the names of one burial.
var burialFields = func() map[string]bool {
	names := map[string]bool{broker.FieldAt: true}
	for _, f := range new(broker.Burial).Fields() {
		names[f.Name] = true
	}
	return names
}()

// unburied returns the fields without those that the last burial appended. What an earlier one appended stays.
func unburied(fields []broker.Field) []broker.Field {
	last := -1
	for i, f := range fields {
		if string(f.Name) == broker.FieldReason {
			last = i
		}
	}
	if last < 0 {
		return slices.Clone(fields)
	}
	left := slices.Clone(fields[:last])
	for _, f := range fields[last:] {
		if !burialFields[string(f.Name)] {
			left = append(left, f)
		}
	}
	return left
}

var errLaterItem = errors.New("a later version of this library wrote it, so that only a list can take it; name a list as its target")

// movedFields are the fields of a record that goes to a stream.
func movedFields(m *broker.Move) ([]broker.Field, error) {
	if isLater(m.Letter.Raw) {
		return nil, errLaterItem
	}
	return editFields(unburied(m.Letter.Fields), m.Edits, 0), nil
}

// movedEnvelope is a record that goes to a list or a channel.
func movedEnvelope(m *broker.Move) (envelope, error) {
	fields := editFields(unburied(m.Letter.Fields), m.Edits, 0)
	if !isLater(m.Letter.Raw) {
		return envelopeOf(fields)
	}
	e, err := openEnvelope(m.Letter.Raw)
	if err != nil {
		return e, err
	}
	headers, err := envelopeOf(fields)
	e.headers = headers.headers
	return e, err
}

// isLater tells that a later version of this library wrote the item of a list.
func isLater(item []byte) bool {
	if !bytes.HasPrefix(item, memberMark) {
		return false
	}
	e, err := openEnvelope(item)
	return err == nil && e.newer()
}
