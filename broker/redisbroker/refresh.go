package redisbroker

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// refreshEntries is how many entries one call refreshes.
const refreshEntries = 500

// keep resets the idle time of everything that has been in hand for so long. What a failed round has left over is the next
// one's: the holder names each entry once.
func (s *subscription) keep(ctx context.Context, since time.Duration) error {
	s.late = append(s.late, s.config.Holder.Held(since)...)
	if err := s.refresh(ctx, s.late); err != nil {
		return err
	}
	s.late = s.late[:0]
	return nil
}

// refresh resets the idle time of entries in hand, and tells the engine which of them it has lost.
func (s *subscription) refresh(ctx context.Context, held []broker.Held) error {
	retaken := 0
	if s.claims != nil {
		retaken = 1
	}
	for len(held) > 0 {
		n := min(len(held), refreshEntries)
		args := append(refreshScript.args(3+2*n, s.source.Key), s.source.Group, s.consumer, retaken)
		for _, h := range held[:n] {
			args = append(args, h.ID, h.Count)
		}
		reply, err := run(ctx, s.client, args)
		if err != nil {
			return s.lost(fmt.Errorf("refreshing entries in hand: %w", err))
		}
		var lost []broker.Held
		results, _ := reply.([]any)
		for i, result := range results {
			if text, _ := result.(string); text == "lost" && i < n {
				lost = append(lost, held[i])
			}
		}
		if len(lost) > 0 {
			s.config.Holder.Lost(lost)
		}
		held = held[n:]
	}
	return nil
}
