package redisbroker

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/fxamacker/cbor/v2"

	"github.com/millrace-go/millrace/broker"
)

// memberMark are the first eight bytes of everything that we wrap: CBOR's self-described tag 55799 and our own tag.
var memberMark = []byte{0xd9, 0xd9, 0xf7, 0xda, 0x4d, 0x4c, 0x52, 0x31}

// memberVersion is the version of the array behind the mark. Later versions keep its first two elements.
const memberVersion = 1

var errNotAMember = errors.New("the member was not written by this library")

// member is one delayed message: an array [version, fields, key], each field an array [name, value].
type member struct {
	_       struct{} `cbor:",toarray"`
	Version uint64
	Fields  []memberField
	// Key makes the member unique, so that equal messages never collapse into one, and writing it again changes nothing.
	Key string
}

type memberField struct {
	_           struct{} `cbor:",toarray"`
	Name, Value []byte
}

// encodeMember wraps the fields of a delayed message. The key names the entry and the delivery that asked for the delay.
func encodeMember(stream, group string, d *broker.Delivery, fields []broker.Field) ([]byte, error) {
	return sealStreamMember(stream+"|"+group+"|"+d.ID+"|"+strconv.FormatInt(d.Count, 10), fields)
}

// sealStreamMember wraps the fields of a delayed message under a key of its own.
func sealStreamMember(key string, fields []broker.Field) ([]byte, error) {
	m := member{Version: memberVersion, Fields: make([]memberField, len(fields)), Key: key}
	for i, f := range fields {
		m.Fields[i] = memberField{Name: orEmpty(f.Name), Value: orEmpty(f.Value)}
	}
	body, err := cbor.Marshal(m)
	if err != nil {
		return nil, err
	}
	return append(bytes.Clone(memberMark), body...), nil
}

// orEmpty keeps an empty field from becoming CBOR's null.
func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// decodeMember is the way back. A newer version than ours is an error as well, but not a malformed member: see
// [errNewerMember].
func decodeMember(data []byte) ([]broker.Field, error) {
	body, ok := bytes.CutPrefix(data, memberMark)
	if !ok {
		return nil, errNotAMember
	}
	// The array may be longer in a later version, so that its elements are read one by one.
	var elements []cbor.RawMessage
	if err := cbor.Unmarshal(body, &elements); err != nil {
		return nil, err
	}
	if len(elements) < 2 {
		return nil, errNotAMember
	}
	var version uint64
	if err := cbor.Unmarshal(elements[0], &version); err != nil {
		return nil, fmt.Errorf("version: %w", err)
	}
	if version > memberVersion {
		return nil, errNewerMember
	}
	var pairs []memberField
	if err := cbor.Unmarshal(elements[1], &pairs); err != nil {
		return nil, fmt.Errorf("fields: %w", err)
	}
	if len(pairs) == 0 {
		return nil, errors.New("the member has no fields")
	}
	fields := make([]broker.Field, len(pairs))
	for i, p := range pairs {
		fields[i] = broker.Field(struct{ Name, Value []byte }{p.Name, p.Value})
	}
	return fields, nil
}

// errNewerMember says that a later version of this library wrote the member. It is left for a process that knows it.
var errNewerMember = errors.New("the member was written by a later version of this library")
