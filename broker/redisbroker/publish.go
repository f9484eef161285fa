package redisbroker

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// Publish appends the messages to their streams (XADD), in one round trip. Each is sent once: after a lost reply its
// error is returned, and it may or may not stand there.
func (b *Broker) Publish(ctx context.Context, messages []broker.Outgoing) []error {
	errs := make([]error, len(messages))
	client, err := b.pool()
	pipe := redis.Pipeliner(nil)
	if err == nil {
		pipe = client.Pipeline()
	}
	sent := make([]*redis.Cmd, len(messages))
	for i := range messages {
		args, refused := b.publication(&messages[i])
		if refused == nil {
			refused = err
		}
		if refused != nil {
			errs[i] = fmt.Errorf("publish to %s: %w", messages[i].To, refused)
			continue
		}
		sent[i] = pipe.Do(ctx, args...)
	}
	if pipe == nil || pipe.Len() == 0 {
		return errs
	}
	_, _ = pipe.Exec(ctx) // Each command has its own error.
	for i, cmd := range sent {
		if cmd != nil && cmd.Err() != nil {
			errs[i] = fmt.Errorf("publish to %s at %s: %w", messages[i].To, b.Address(), cmd.Err())
		}
	}
	return errs
}

// publication is the command that writes the message, or why there is none.
func (b *Broker) publication(m *broker.Outgoing) ([]any, error) {
	if m.To.Key() == "" {
		return nil, errors.New("the destination has no key; write broker.Stream(\"name\")")
	}
	if m.To.Structure() != broker.StructureStream {
		return nil, errors.New("only streams can be published to")
	}
	for _, h := range m.Headers {
		if h.Name == "" {
			return nil, fmt.Errorf("a header with the value %q has no name", h.Value)
		}
	}
	args := make([]any, 0, 5+2*len(m.Headers))
	args = append(args, "XADD", b.ResolveKey(m.To.Key()), "*", fieldPayload, m.Body)
	for _, h := range m.Headers {
		args = append(args, headerPrefix+h.Name, h.Value)
	}
	return args, nil
}
