package streamrt

import (
	"context"
	"errors"

	"github.com/millrace-go/millrace/outcome"
)

// Subscription is a directive bound to its handler: the value that an app mounts. It is immutable and may be mounted
// in several apps.
type Subscription struct {
	spec    Spec
	codec   string
	err     error
	prepare func(in *Incoming, fallback PayloadCodec) (func(context.Context) outcome.HandlerOutcome, error)
}

// Spec returns what the directive declared.
func (s Subscription) Spec() Spec { return s.spec }

// Codec returns the name of the codec that the directive chose, or "" where the mount or the broker decides.
func (s Subscription) Codec() string { return s.codec }

// Err returns why no message can ever be decoded, such as a payload type that the codec cannot fill, and nil where
// nothing is wrong. An app does not start with such a subscription. streamgen refuses most of this; Subscribe may be
// called by hand.
func (s Subscription) Err() error { return s.err }

// ReadsFields reports whether in.Message.Fields must be filled in for Prepare and the handler: always for codec=fields,
// and for codec=raw where in has no body.
func (s Subscription) ReadsFields(in *Incoming) bool {
	return s.codec == codecFields || s.codec == codecRaw && !in.HasBody
}

// IsZero reports whether s was not made by a Subscribe function.
func (s Subscription) IsZero() bool { return s.prepare == nil }

// Prepare decodes the message and returns its handler call. The error says that the body cannot be decoded: the
// message is malformed and there is nothing to call. fallback decodes where the directive names no codec. Prepare is
// safe for concurrent use; the returned call runs once.
func (s Subscription) Prepare(in *Incoming, fallback PayloadCodec) (func(context.Context) outcome.HandlerOutcome, error) {
	return s.prepare(in, fallback)
}

// NeedsWith is a subscription whose handler needs state or a receiver. It cannot be mounted as it is: call With with
// the value, and mount what that returns.
type NeedsWith[S any] struct {
	bind func(S) Subscription
}

// With binds the state or the receiver that every call of the handler gets. The value is shared by concurrent calls.
func (n NeedsWith[S]) With(s S) Subscription { return n.bind(s) }

// State hands a handler the value that its subscription was given by With.
type State[S any] struct{ Value S }

// Subscribe binds func(ctx, T) outcome.HandlerOutcome.
func Subscribe[T any](spec Spec, codec func() Codec[T], h func(context.Context, T) outcome.HandlerOutcome) Subscription {
	return bind(spec, codec(), h)
}

// SubscribeErr binds func(ctx, T) error: nil is Ack, an error is a failure with the mount's backoff.
func SubscribeErr[T any](spec Spec, codec func() Codec[T], h func(context.Context, T) error) Subscription {
	return bind(spec, codec(), func(ctx context.Context, v T) outcome.HandlerOutcome { return outcome.Of(h(ctx, v)) })
}

// SubscribeState binds func(ctx, State[S], T) outcome.HandlerOutcome.
func SubscribeState[S, T any](spec Spec, codec func() Codec[T], h func(context.Context, State[S], T) outcome.HandlerOutcome) NeedsWith[S] {
	return NeedsWith[S]{func(s S) Subscription {
		state := State[S]{s}
		return bind(spec, codec(), func(ctx context.Context, v T) outcome.HandlerOutcome { return h(ctx, state, v) })
	}}
}

// SubscribeStateErr binds func(ctx, State[S], T) error.
func SubscribeStateErr[S, T any](spec Spec, codec func() Codec[T], h func(context.Context, State[S], T) error) NeedsWith[S] {
	return SubscribeState(spec, codec, func(ctx context.Context, s State[S], v T) outcome.HandlerOutcome {
		return outcome.Of(h(ctx, s, v))
	})
}

// SubscribeMethod binds the method expression of func (s *S) H(ctx, T) outcome.HandlerOutcome.
func SubscribeMethod[S, T any](spec Spec, codec func() Codec[T], h func(*S, context.Context, T) outcome.HandlerOutcome) NeedsWith[*S] {
	return NeedsWith[*S]{func(s *S) Subscription {
		return bind(spec, codec(), func(ctx context.Context, v T) outcome.HandlerOutcome { return h(s, ctx, v) })
	}}
}

// SubscribeMethodErr binds the method expression of func (s *S) H(ctx, T) error.
func SubscribeMethodErr[S, T any](spec Spec, codec func() Codec[T], h func(*S, context.Context, T) error) NeedsWith[*S] {
	return SubscribeMethod(spec, codec, func(s *S, ctx context.Context, v T) outcome.HandlerOutcome {
		return outcome.Of(h(s, ctx, v))
	})
}

var errFieldsSource = errors.New("codec=fields reads the entries of a stream: set Spec.Stream, or take another codec")

// bind implies Foreign for codec=fields here, so that a Spec written by hand cannot forget it.
func bind[T any](spec Spec, codec Codec[T], h func(context.Context, T) outcome.HandlerOutcome) Subscription {
	err := codec.err
	if codec.name == codecFields {
		if spec.Stream == "" {
			err = errors.Join(errFieldsSource, err)
		}
		spec.Foreign = true
	}
	return Subscription{
		spec:  spec,
		codec: codec.name,
		err:   err,
		prepare: func(in *Incoming, fallback PayloadCodec) (func(context.Context) outcome.HandlerOutcome, error) {
			v := new(T)
			if err := codec.decode(in, fallback, v); err != nil {
				return nil, err
			}
			return func(ctx context.Context) outcome.HandlerOutcome { return h(ctx, *v) }, nil
		},
	}
}
