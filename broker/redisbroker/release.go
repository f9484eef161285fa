package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// Release moves everything that the server lists under this consumer to the one that holds what is free, gives the
// entries in hand their count and rest back, and removes the consumer.
func (s *subscription) Release(ctx context.Context, held []broker.Held) error {
	defer s.reader.close() //nolint:errcheck // nothing is read any more
	atOnce := max(s.alive.ttl, s.source.Claim)
	waiting := "0"
	if s.claims != nil {
		waiting = "1"
	}
	args := make([]any, 0, 6+3*len(held))
	args = append(args, s.source.Group, s.consumer, freeConsumer, milliseconds(atOnce), waiting, s.alive.token)
	for _, h := range held {
		// A peer takes an entry once it has been idle for the whole time: what should rest gets the difference.
		rest := min(max(h.Due, 0), atOnce)
		args = append(args, h.ID, h.Count, (atOnce-rest)/time.Millisecond)
	}
	args = append(releaseScript.args(len(args), s.source.Key, s.alive.key), args...)
	for {
		reply, err := run(ctx, s.client, args)
		if isNoGroup(err) {
			return nil // nothing is listed where there is no group
		}
		if errors.Is(err, net.ErrClosed) && ctx.Err() == nil {
			// A connection from the pool that an aborted command had closed: nothing was sent, the pool has dropped it, and
			// handing back twice changes nothing.
			continue
		}
		if err != nil {
			return fmt.Errorf("handing back entries of stream %q at %s: %w", s.source.Key, s.address, err)
		}
		if left, _ := reply.(int64); left == 0 {
			return nil
		}
	}
}
