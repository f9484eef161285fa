package redisbroker

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// claims is how a claiming subscription reads: pending entries that have been idle for the claim time come back among
// the new ones. It looks for them with reads and scripts that do not wait, and waits for new entries alone: a read that
// waits is answered whether its process goes on or stands still, and would take what that process holds from itself, or
// what somebody else is to handle.
type claims struct {
	s *subscription
	// native: the server knows XREADGROUP … CLAIM (Redis 8.4). Elsewhere a script looks for idle entries (XPENDING IDLE)
	// and takes them (XCLAIM), which is XAUTOCLAIM with the delivery count in its answer.
	native atomic.Bool
	// sweepAt is when the next read looks for idle entries without CLAIM, which passes over those that have vanished.
	sweepAt time.Time
	// filled: the last read brought pending entries, so that the next one asks for new ones alone. Entries that are always
	// retried would else keep the new ones out.
	filled bool
	// from is the id behind which the next look without CLAIM goes on, "" for the first: one look sees only so many entries.
	from string

	waiting *waitingRoom
}

// claimPoll is how long a read blocks at most: it does not wake for an entry that has become idle.
const claimPoll = time.Second

// probeClaims asks the server, rather than its version, whether it knows CLAIM.
func probeClaims(ctx context.Context, s *subscription) (*claims, error) {
	c := &claims{s: s, waiting: newWaitingRoom(s.source.Claim)}
	if err := c.probe(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *claims) probe(ctx context.Context) error {
	native, err := knowsClaim(ctx, c.s.client, base(c.s.source.Key)+":probe", c.s.source.Group, c.s.consumer)
	if err != nil {
		return err
	}
	c.native.Store(native)
	how := "XREADGROUP CLAIM"
	if !c.native.Load() {
		how = "XPENDING IDLE and XCLAIM (the server has no CLAIM)"
	}
	c.s.log.Info("claiming idle entries", "stream", c.s.source.Key, "claim", c.s.source.Claim, "with", how)
	return nil
}

// knowsClaim asks whether XREADGROUP has CLAIM. The key does not exist, so that nothing is read: a server that knows the
// option misses the group, another one the option.
func knowsClaim(ctx context.Context, client redis.UniversalClient, key, group, consumer string) (bool, error) {
	err := client.Do(ctx, "XREADGROUP", "GROUP", group, consumer, "COUNT", 1, "CLAIM", 1, "STREAMS", key, ">").Err()
	switch {
	case isNoGroup(err) || err == nil:
		return true, nil
	case isRefused(err) && strings.HasPrefix(err.Error(), "ERR"):
		return false, nil
	default:
		return false, err
	}
}

func (c *claims) read(ctx context.Context, want broker.Want, block time.Duration, enough func() bool) ([]*broker.Delivery, error) {
	if c.filled {
		c.filled = false
		deliveries, _, err := c.s.readNew(ctx, want.New, 0, 0, c.s.stopped.Load)
		if err != nil || len(deliveries) > 0 {
			return deliveries, err
		}
	}
	// What becomes due after this moment is the next read's, however long taking takes.
	began := time.Now()
	wait := c.waiting.next(began)
	if want.Back > 0 {
		deliveries, err := c.look(ctx, want.Back, began)
		if err != nil || len(deliveries) > 0 {
			return deliveries, err
		}
		if c.from != "" {
			wait = time.Millisecond // There is more to look at.
		}
	}
	deliveries, _, err := c.s.readNew(ctx, want.New, min(block, wait), 0, enough)
	return deliveries, err
}

// look returns what has been idle for the claim time, most of them at most, and with CLAIM perhaps what is new.
func (c *claims) look(ctx context.Context, most int, began time.Time) ([]*broker.Delivery, error) {
	if c.s.alive.isLate() {
		// Whoever stood still would take what it holds from itself.
		if err := c.s.refresh(ctx, c.s.config.Holder.Held(0)); err != nil {
			return nil, err
		}
	}
	if native := c.native.Load(); !native || c.sweep(began) {
		deliveries, err := c.take(ctx, most, began)
		if err != nil || len(deliveries) > 0 || !native || c.from == "" {
			return deliveries, err
		}
	}
	deliveries, pending, err := c.s.readNew(ctx, most, 0, c.s.source.Claim, c.s.stopped.Load)
	if err != nil && strings.Contains(err.Error(), "syntax error") {
		// The server was replaced by an older one.
		return nil, c.probe(ctx)
	}
	if err == nil && pending < most {
		c.waiting.passed(began)
	}
	c.filled = pending > 0
	c.back(deliveries[:pending])
	return deliveries, err
}

// back notes what has come back: it is this process's own, in hand.
func (c *claims) back(deliveries []*broker.Delivery) {
	c.waiting.back(deliveries)
	c.s.keeper.took(deliveries)
}

// take looks without CLAIM.
func (c *claims) take(ctx context.Context, most int, began time.Time) ([]*broker.Delivery, error) {
	t, err := c.s.take(ctx, search{idle: c.s.source.Claim, most: most, from: c.from})
	if err != nil {
		return nil, err
	}
	if c.from == "" && t.next == "" {
		c.waiting.passed(began)
	}
	c.from = t.next
	c.filled = len(t.deliveries) > 0
	c.back(t.deliveries)
	return t.deliveries, nil
}

// sweepEvery is how often a subscription with a short claim time looks without CLAIM, which only clears what has vanished.
const sweepEvery = 2 * time.Second

// sweep tells whether it is time for a look without CLAIM.
func (c *claims) sweep(now time.Time) bool {
	if c.from == "" && now.Before(c.sweepAt) {
		return false
	}
	c.sweepAt = now.Add(max(c.s.source.Claim, sweepEvery))
	return true
}
