package app

import (
	"context"

	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// Handler is the call of one delivery as middleware sees it: the payload has been decoded, and [MessageFrom] tells the
// rest.
type Handler func(context.Context) outcome.HandlerOutcome

// State hands a handler the value that its subscription was given by With.
type State[S any] = streamrt.State[S]

// Message is what a handler can learn about the delivery that it runs in, besides the payload.
type Message = streamrt.Message

// Headers are the headers of a message.
type Headers = streamrt.Headers

// Field is one flat field of a stream entry, see [Message].
type Field = streamrt.Field

// DeadLetterFacts is how and where a message died.
type DeadLetterFacts = streamrt.DeadLetterFacts

// Codec turns payloads into bytes and back, see [WithCodec]. Where a handler takes a *Order, Unmarshal is given that
// *Order, so that types with methods of their own (protocol buffers, for example) are found.
type Codec = streamrt.PayloadCodec

// The codecs that come with the library.
var (
	// JSON is encoding/json, the default.
	JSON Codec = streamrt.JSONCodec{}
	// CBOR is RFC 8949: smaller than JSON, with bytes as bytes. It reads the struct tags cbor and json, and is strict: a key
	// that a map has twice, and anything behind the value, are malformed.
	CBOR Codec = streamrt.CBORCodec{}
)

// MessageFrom returns the message of the delivery that ctx belongs to, and the zero Message outside of one.
func MessageFrom(ctx context.Context) Message { return streamrt.MessageFrom(ctx) }
