package redisbroker

import (
	"context"
	"errors"

	"github.com/millrace-go/millrace/broker"
)

// errPutBack makes the engine settle once more.
var errPutBack = errors.New("the group had forgotten the entry; it was put back")

// settleForgotten settles an entry that is no longer pending although nobody can have taken it: our key has stood all
// the while. The group was lost and made again by somebody else, or the whole stream was.
func (s *subscription) settleForgotten(ctx context.Context, st *broker.Settlement) (broker.Result, error) {
	put, err := s.keeper.putBackAll(ctx, []abandoned{{owner: s.consumer, held: broker.Held{ID: st.Delivery.ID, Count: st.Delivery.Count}}})
	switch {
	case err != nil:
		return 0, err
	case put > 0:
		return 0, errPutBack
	}
	n, err := s.client.XRangeN(ctx, s.source.Key, st.Delivery.ID, st.Delivery.ID, 1).Result()
	if err != nil {
		return 0, err
	}
	switch {
	case len(n) > 0 || len(st.Delivery.Fields) == 0:
		return broker.Gone, nil
	case st.Action == broker.Keep:
		return broker.Vanished, nil // there is nothing to stay pending
	}
	if !st.Written {
		// The entry is gone with its stream, and the only copy of the message is the one in hand.
		_, now, err := s.fenced(ctx, checkScript, nil)
		if err != nil {
			return 0, err
		}
		s.write(ctx, []*broker.Settlement{st}, now)
	}
	if !st.Written {
		return 0, st.Err
	}
	return broker.Done, nil
}
