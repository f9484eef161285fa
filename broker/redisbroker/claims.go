package redisbroker

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// claims is how a claiming subscription reads: pending entries that have been idle for the claim time come back among
// the new ones.
type claims struct {
	s *subscription
	// native: the server knows XREADGROUP … CLAIM (Redis 8.4). Elsewhere a script looks for idle entries (XPENDING IDLE)
	// and takes them (XCLAIM), which is XAUTOCLAIM with the delivery count in its answer.
	native bool
	// filled: the last read brought pending entries, so that the next one asks for new ones alone. Entries that are always
	// retried would else keep the new ones out.
	filled bool

	mu   sync.Mutex // guards kept; not held over I/O
	kept []time.Time
}

// claimPoll is how long a read blocks at most where the server does not wake it for an entry that has become idle.
const claimPoll = time.Second

// probeClaims asks the server, rather than its version, whether it knows CLAIM.
func probeClaims(ctx context.Context, s *subscription) (*claims, error) {
	c := &claims{s: s}
	if err := c.probe(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *claims) probe(ctx context.Context) error {
	// The key does not exist, so that nothing is read: a server that knows the option misses the group, another one the
	// option.
	err := c.s.client.Do(ctx, "XREADGROUP", "GROUP", c.s.source.Group, c.s.consumer, "COUNT", 1, "CLAIM", 1,
		"STREAMS", base(c.s.source.Key)+":probe", ">").Err()
	switch {
	case isNoGroup(err) || err == nil:
		c.native = true
	case isRefused(err) && strings.HasPrefix(err.Error(), "ERR"):
		c.native = false
	default:
		return err
	}
	how := "XREADGROUP CLAIM"
	if !c.native {
		how = "XPENDING IDLE and XCLAIM (the server has no CLAIM)"
	}
	c.s.log.Info("claiming idle entries", "subscription", c.s.name, "stream", c.s.source.Key, "claim", c.s.source.Claim, "with", how)
	return nil
}

func (c *claims) read(ctx context.Context, n int) ([]*broker.Delivery, error) {
	if c.filled {
		c.filled = false
		deliveries, _, err := c.s.readNew(ctx, n, 0, 0)
		if err != nil || len(deliveries) > 0 {
			return deliveries, err
		}
	}
	if c.native {
		deliveries, pending, err := c.s.readNew(ctx, n, c.s.source.Block, c.s.source.Claim)
		if err != nil && strings.Contains(err.Error(), "syntax error") {
			// The server was replaced by an older one.
			return nil, c.probe(ctx)
		}
		c.filled = pending > 0
		return deliveries, err
	}
	// What becomes due after this moment is the next read's, however long taking takes.
	wait := c.wait(time.Now())
	deliveries, err := c.s.take(ctx, "", c.s.source.Claim, n)
	if err != nil || len(deliveries) > 0 {
		c.filled = len(deliveries) > 0
		c.taken(len(deliveries))
		return deliveries, err
	}
	deliveries, _, err = c.s.readNew(ctx, n, min(c.s.source.Block, wait), 0)
	return deliveries, err
}

// keep notes that entries were left pending now, and will have to be taken back after the claim time.
func (c *claims) keep(n int) {
	if c.native {
		return
	}
	due := time.Now().Add(c.s.source.Claim)
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n {
		c.kept = append(c.kept, due)
	}
}

// taken forgets the entries that came back first.
func (c *claims) taken(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = c.kept[min(n, len(c.kept)):]
}

// wait returns how long a read may block until the next entry that this process left pending is due. The server counts
// idle time in whole milliseconds, so that an entry may seem due here before it is there: it is asked for a little longer.
func (c *claims) wait(now time.Time) time.Duration {
	const patience = 5 * time.Millisecond
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.kept) > 0 && now.Sub(c.kept[0]) > patience {
		c.kept = c.kept[1:]
	}
	if len(c.kept) == 0 {
		return claimPoll
	}
	return min(max(c.kept[0].Sub(now), time.Millisecond), claimPoll)
}
