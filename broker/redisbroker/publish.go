package redisbroker

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-go/millrace/broker"
)

// Publish appends the message to a stream (XADD). It is sent once: after a lost reply it returns the error, and the
// message may or may not stand there.
func (b *Broker) Publish(ctx context.Context, to broker.Destination, m broker.Outgoing) error {
	if to.Key() == "" {
		return errors.New("publish: the destination has no key; write broker.Stream(\"name\")")
	}
	if to.Structure() != broker.StructureStream {
		return fmt.Errorf("publish to %s: only streams can be published to", to)
	}
	for _, h := range m.Headers {
		if h.Name == "" {
			return fmt.Errorf("publish to %s: a header with the value %q has no name", to, h.Value)
		}
	}
	client, err := b.pool()
	if err != nil {
		return fmt.Errorf("publish to %s: %w", to, err)
	}
	args := make([]any, 0, 5+2*len(m.Headers))
	args = append(args, "XADD", b.ResolveKey(to.Key()), "*", fieldPayload, m.Body)
	for _, h := range m.Headers {
		args = append(args, headerPrefix+h.Name, h.Value)
	}
	if err := client.Do(ctx, args...).Err(); err != nil {
		return fmt.Errorf("publish to %s at %s: %w", to, b.Address(), err)
	}
	return nil
}
