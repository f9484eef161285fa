package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/millrace-go/millrace/broker"
)

// releaseEntries is how many entries one call hands back at most.
const releaseEntries = 500

// handBack is the state in which an entry is handed back.
type handBack struct{ count, idle int64 }

// Release moves everything that the server lists under this consumer to the one that holds what is free, gives the
// entries their count and rest back, and removes the consumer. The first call finds what is there, each of the others
// hands it back and finds more.
func (s *subscription) Release(ctx context.Context, held []broker.Held) error {
	defer s.reader.close() //nolint:errcheck // nothing is read any more
	states := s.handBacks(held)
	listed, err := s.release(ctx, nil)
	for err == nil && len(listed) > 0 {
		entries := make([]any, 0, 4*len(listed))
		for _, p := range listed {
			parts, _ := p.([]any)
			if len(parts) != 4 {
				return errReply
			}
			id, _ := parts[0].(string)
			idle, _ := parts[2].(int64)
			count, _ := parts[3].(int64)
			back := states(id, count, idle)
			entries = append(entries, id, count, back.count, back.idle)
		}
		listed, err = s.release(ctx, entries)
	}
	if isNoGroup(err) {
		return nil // nothing is listed where there is no group
	}
	if err != nil {
		return fmt.Errorf("handing back entries of stream %q at %s: %w", s.source.Key, s.address, err)
	}
	return nil
}

// handBacks returns how an entry that is listed with this count and idle time is handed back.
func (s *subscription) handBacks(held []broker.Held) func(id string, count, idle int64) handBack {
	atOnce := max(s.alive.ttl, s.source.Claim)
	inHand := make(map[string]handBack, len(held))
	for _, h := range held {
		// A peer takes an entry once it has been idle for the whole time: what should rest gets the difference.
		rest := min(max(h.Due, 0), atOnce)
		inHand[h.ID] = handBack{h.Count, (atOnce - rest).Milliseconds()}
	}
	waiting := make(map[string]int64)
	if s.claims != nil {
		for _, e := range s.claims.waiting.entries() {
			waiting[e.id] = e.count
		}
	}
	return func(id string, count, idle int64) handBack {
		if back, ok := inHand[id]; ok {
			return back
		}
		if left, ok := waiting[id]; ok && left == count {
			return handBack{count, idle} // It rests until its next attempt, wherever that is.
		}
		// It was given out and never seen here.
		return handBack{max(count-1, 0), atOnce.Milliseconds()}
	}
}

// release hands entries back and returns what is listed.
func (s *subscription) release(ctx context.Context, entries []any) ([]any, error) {
	args := append(releaseScript.args(5+len(entries), s.source.Key, s.alive.key),
		s.source.Group, s.consumer, freeConsumer, s.alive.token, releaseEntries)
	args = append(args, entries...)
	for {
		reply, err := run(ctx, s.client, args)
		if errors.Is(err, net.ErrClosed) && ctx.Err() == nil {
			// A connection from the pool that an aborted command had closed: nothing was sent, the pool has dropped it, and
			// handing back twice changes nothing.
			continue
		}
		listed, _ := reply.([]any)
		return listed, err
	}
}
