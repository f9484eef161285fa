package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millrace-go/millrace/broker"
)

// Publisher sends messages. Handlers and services take it rather than *[Mounts], which implements it.
type Publisher interface {
	// Publish encodes value and sends it, see [Mounts.Publish].
	Publish(ctx context.Context, to broker.Destination, value any, options ...broker.PublishOption) error
}

var _ Publisher = (*Mounts)(nil)

// Publish sends one message. Bytes ([]byte and [json.RawMessage]) go out as they are; anything else is encoded with the
// codec that was given to [App.Broker], else as JSON, and says so in its content-type. The message gets an id unless
// the options set the header message-id. Publish connects at its first use and needs no Run. A nil error means that
// the message was written, once.
func (m *Mounts) Publish(ctx context.Context, to broker.Destination, value any, options ...broker.PublishOption) error {
	if m.broker == nil {
		return errors.New("app: Publish: App.Broker was given no broker")
	}
	out, err := m.outgoing(Outgoing{to, value, options})
	if err == nil {
		err = m.app.telemetry().Publish(ctx, m.broker, []broker.Outgoing{out})[0]
	}
	if err != nil {
		return fmt.Errorf("app: %w", err)
	}
	return nil
}

// Outgoing is one message of [Mounts.PublishBatch].
type Outgoing struct {
	To      broker.Destination
	Value   any
	Options []broker.PublishOption
}

// PublishBatch sends messages as [Mounts.Publish] does, in as few round trips as the server allows. What cannot be
// encoded or sent stops none of the others. The error, nil when all were written, joins one [*PublishError] for each that
// was not, in their order: after an error that came from the connection that one may have been written all the same. Nothing is sent
// twice.
func (m *Mounts) PublishBatch(ctx context.Context, messages ...Outgoing) error {
	if m.broker == nil {
		return errors.New("app: PublishBatch: App.Broker was given no broker")
	}
	failed := make([]error, len(messages))
	batch, index := make([]broker.Outgoing, 0, len(messages)), make([]int, 0, len(messages))
	for i, message := range messages {
		out, err := m.outgoing(message)
		if err != nil {
			failed[i] = &PublishError{i, err}
			continue
		}
		batch, index = append(batch, out), append(index, i)
	}
	if len(batch) > 0 {
		for i, err := range m.app.telemetry().Publish(ctx, m.broker, batch) {
			if err != nil {
				failed[index[i]] = &PublishError{index[i], err}
			}
		}
	}
	return errors.Join(failed...)
}

// PublishError is why one message of a batch was not written.
type PublishError struct {
	// Index is the message's place in the batch, from 0.
	Index int
	Err   error
}

// Error names the message by its place.
func (e *PublishError) Error() string { return fmt.Sprintf("app: message %d: %v", e.Index, e.Err) }

// Unwrap returns Err.
func (e *PublishError) Unwrap() error { return e.Err }

// outgoing encodes a message. On lists and channels the library's own headers are added only where there are headers
// anyway: a message without any is the bare body there, which every other program can read.
func (m *Mounts) outgoing(message Outgoing) (broker.Outgoing, error) {
	body, contentType, err := m.encode(message.Value)
	if err != nil {
		return broker.Outgoing{}, fmt.Errorf("publish to %s: encoding a %T: %w", message.To, message.Value, err)
	}
	out := broker.NewOutgoing(message.To, body, message.Options...)
	if message.To.Structure() != broker.StructureStream && len(out.Headers) == 0 {
		return out, nil
	}
	if contentType != "" {
		addHeader(&out, broker.HeaderContentType, contentType)
	}
	addHeader(&out, broker.HeaderMessageID, rand.Text())
	return out, nil
}

func (m *Mounts) encode(value any) (body []byte, contentType string, err error) {
	switch v := value.(type) {
	case []byte:
		return v, "", nil
	case json.RawMessage:
		return v, "", nil
	}
	body, err = m.codec.Marshal(value)
	return body, m.codec.Name(), err
}

// addHeader adds a header that the message does not have.
func addHeader(out *broker.Outgoing, name, value string) {
	for _, h := range out.Headers {
		if h.Name == name {
			return
		}
	}
	out.Headers = append(out.Headers, broker.HeaderLine{Name: name, Value: value})
}
