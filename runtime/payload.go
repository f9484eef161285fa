package streamrt

import (
	"bytes"
	"encoding/json"
	"reflect"

	"github.com/fxamacker/cbor/v2"
)

// PayloadCodec turns values into bodies and back. Implementations are safe for concurrent use.
type PayloadCodec interface {
	// Name is the codec's name in errors, and the content-type of what is published with it.
	Name() string
	// Marshal encodes v.
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes data into v, which is never nil: a pointer to the payload, and where a handler takes a *Order, that
	// *Order. It must not keep data, which the handler may own. An error says that the message is malformed: it is not run
	// again. A panic is a failure of the delivery.
	Unmarshal(data []byte, v any) error
}

// nullable is a codec whose bodies can say that there is no value.
type nullable interface{ isNull(body []byte) bool }

// JSONCodec is encoding/json as a [PayloadCodec].
type JSONCodec struct{}

// Name returns "json".
func (JSONCodec) Name() string { return "json" }

// Marshal is json.Marshal.
func (JSONCodec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// Unmarshal is json.Unmarshal.
func (JSONCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }

func (JSONCodec) isNull(body []byte) bool {
	return string(bytes.Trim(body, " \t\r\n")) == "null"
}

// CBORCodec is CBOR (RFC 8949) as a [PayloadCodec]. It reads the struct tags cbor and, where there is none, json. Times
// are text with nanoseconds, as in JSON, and what is decoded into an interface has maps with string keys. Refused are a
// key that a map has twice, anything behind the value, text that is not UTF-8, more than 256 levels of nesting, and
// arrays and maps of more than 1,048,576 elements.
type CBORCodec struct{}

const (
	maxCBORLevels   = 256
	maxCBORElements = 1 << 20
)

var (
	cborEncoding = must(cbor.EncOptions{
		Time:          cbor.TimeRFC3339Nano,
		TextMarshaler: cbor.TextMarshalerTextString,
	}.EncMode())
	cborDecoding = must(cbor.DecOptions{
		DupMapKey:        cbor.DupMapKeyEnforcedAPF,
		MaxNestedLevels:  maxCBORLevels,
		MaxArrayElements: maxCBORElements,
		MaxMapPairs:      maxCBORElements,
		DefaultMapType:   reflect.TypeFor[map[string]any](),
		TextUnmarshaler:  cbor.TextUnmarshalerTextString,
	}.DecMode())
)

// must is for options that are constants.
func must[M any](mode M, err error) M {
	if err != nil {
		panic(err)
	}
	return mode
}

// Name returns "cbor".
func (CBORCodec) Name() string { return "cbor" }

// Marshal encodes v.
func (CBORCodec) Marshal(v any) ([]byte, error) { return cborEncoding.Marshal(v) }

// Unmarshal decodes data into v.
func (CBORCodec) Unmarshal(data []byte, v any) error { return cborDecoding.Unmarshal(data, v) }

// isNull knows CBOR's null and its undefined, which decode alike.
func (CBORCodec) isNull(body []byte) bool {
	return len(body) == 1 && (body[0] == 0xf6 || body[0] == 0xf7)
}
