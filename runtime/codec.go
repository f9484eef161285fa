package streamrt

import (
	"errors"
	"fmt"
	"reflect"
)

// Codec decodes a message into a T. The generated call names one of the functions of this package that return it;
// inference finds T, so a codec that cannot produce the handler's payload type does not compile.
type Codec[T any] struct {
	name string
	// err is why decode can only fail.
	err error
	// decode fills in v, which is zero.
	decode func(in *Incoming, fallback PayloadCodec, v *T) error
}

// The names of the codecs that read an entry without help from a [PayloadCodec].
const (
	codecRaw    = "raw"
	codecFields = "fields"
)

var (
	errNoPayload = errors.New("the entry has no _payload field: it was not published by this library, and only codec=fields and codec=raw read such entries")
	errNull      = errors.New("the payload is null")
)

// Default decodes with the codec of the mount or the broker, else as JSON.
func Default[T any]() Codec[T] {
	target := newTarget[T]()
	return Codec[T]{decode: func(in *Incoming, fallback PayloadCodec, v *T) error {
		if fallback == nil {
			fallback = JSONCodec{}
		}
		return target.unmarshal(in, fallback, v)
	}}
}

// JSON decodes with [JSONCodec]. A null body is malformed where T is a pointer: the handler never sees a nil payload.
func JSON[T any]() Codec[T] { return withPayloadCodec[T](JSONCodec{}) }

// CBOR decodes with [CBORCodec]. A null body is malformed where T is a pointer: the handler never sees a nil payload.
func CBOR[T any]() Codec[T] { return withPayloadCodec[T](CBORCodec{}) }

func withPayloadCodec[T any](codec PayloadCodec) Codec[T] {
	target := newTarget[T]()
	return Codec[T]{name: codec.Name(), decode: func(in *Incoming, _ PayloadCodec, v *T) error {
		return target.unmarshal(in, codec, v)
	}}
}

// Raw hands the body over as it is. The handler owns the bytes. An entry without a body gives an empty one, and its
// fields through [Message].
func Raw[T ~[]byte]() Codec[T] {
	return Codec[T]{name: codecRaw, decode: func(in *Incoming, _ PayloadCodec, v *T) error {
		*v = T(in.Body)
		return nil
	}}
}

// target is where payloads of type T are decoded into.
type target[T any] struct {
	// elem is what T points to, nil where T is no pointer. Only then a message needs reflection, to make a new one.
	elem reflect.Type
}

// newTarget is asked once a subscription, when it is bound.
func newTarget[T any]() target[T] {
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Pointer {
		return target[T]{elem: t.Elem()}
	}
	return target[T]{}
}

// unmarshal decodes the body. Where T is a pointer, the codec gets that pointer and not one to it, so that a codec for
// types with methods of their own (protocol buffers, for example) finds them.
func (t target[T]) unmarshal(in *Incoming, codec PayloadCodec, v *T) (err error) {
	if !in.HasBody {
		return errNoPayload
	}
	if t.elem == nil {
		err = codec.Unmarshal(in.Body, v)
	} else {
		if n, ok := codec.(nullable); ok && n.isNull(in.Body) {
			return errNull
		}
		p := reflect.New(t.elem)
		reflect.ValueOf(v).Elem().Set(p) // T may be a named pointer type, which an assertion would not find
		err = codec.Unmarshal(in.Body, p.Interface())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", codec.Name(), err)
	}
	return nil
}
