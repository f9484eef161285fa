package streamrt

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// PayloadCodec turns bodies into values and back. Implementations are safe for concurrent use. Unmarshal must not keep
// data: the handler may own it.
type PayloadCodec interface {
	// Name is the codec's name in errors, and its content type's in published messages.
	Name() string
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

// Codec decodes the body of a message into a T. The generated call names one of the functions of this package that
// return it; inference finds T, so a codec that cannot produce the handler's payload type does not compile.
type Codec[T any] struct {
	name string
	// err is why decode can only fail.
	err    error
	decode func(in *Incoming, fallback PayloadCodec) (T, error)
}

// The names of the codecs that read an entry without help from a [PayloadCodec].
const (
	codecRaw    = "raw"
	codecFields = "fields"
)

var (
	errNoPayload = errors.New("the entry has no _payload field: it was not published by this library, and only codec=raw reads such entries")
	errNull      = errors.New("the payload is null")
)

// Default decodes with the codec of the mount or the broker, else as JSON.
func Default[T any]() Codec[T] {
	pointer := isPointer[T]()
	return Codec[T]{decode: func(in *Incoming, fallback PayloadCodec) (T, error) {
		if fallback == nil {
			fallback = JSONCodec{}
		}
		return unmarshal[T](in, fallback, pointer)
	}}
}

// JSON decodes with encoding/json. A null body is malformed where T is a pointer: the handler never sees a nil payload.
func JSON[T any]() Codec[T] {
	pointer := isPointer[T]()
	return Codec[T]{name: JSONCodec{}.Name(), decode: func(in *Incoming, _ PayloadCodec) (T, error) {
		return unmarshal[T](in, JSONCodec{}, pointer)
	}}
}

// Raw hands the body over as it is. The handler owns the bytes. An entry without a body gives an empty one.
func Raw[T ~[]byte]() Codec[T] {
	return Codec[T]{name: codecRaw, decode: func(in *Incoming, _ PayloadCodec) (T, error) { return T(in.Body), nil }}
}

func unmarshal[T any](in *Incoming, codec PayloadCodec, pointer bool) (T, error) {
	var v T
	if !in.HasBody {
		return v, errNoPayload
	}
	if err := codec.Unmarshal(in.Body, &v); err != nil {
		return v, fmt.Errorf("%s: %w", codec.Name(), err)
	}
	// Two nil pointers of one type are equal; a value of any other type is never compared, and so needs no reflection.
	if pointer && any(v) == any(*new(T)) {
		return v, errNull
	}
	return v, nil
}

// isPointer is asked once a subscription, when it is bound.
func isPointer[T any]() bool { return reflect.TypeFor[T]().Kind() == reflect.Pointer }

// JSONCodec is encoding/json as a [PayloadCodec].
type JSONCodec struct{}

// Name returns "json".
func (JSONCodec) Name() string { return "json" }

// Marshal is json.Marshal.
func (JSONCodec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// Unmarshal is json.Unmarshal.
func (JSONCodec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
