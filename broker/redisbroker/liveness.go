package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// liveness keeps the key that tells the peers that this consumer is alive, and keeps what it holds from looking idle.
type liveness struct {
	s     *subscription
	key   string
	token string
	ttl   time.Duration

	mu sync.Mutex // guards what follows; not held over I/O
	// since is when the key was last made; it has stood without a gap from then on.
	since time.Time
	// until is when the key ends as far as this process knows.
	until time.Time
	// refreshed is when what is held was last kept from looking idle, and steady since when that was never late.
	refreshed, steady time.Time
}

// errConsumerTaken is what reads fail with when another process holds this consumer's name.
var errConsumerTaken = errors.New("another process reads under the same consumer name")

func newLiveness(s *subscription, token string, ttl time.Duration) *liveness {
	return &liveness{s: s, key: alivePrefix(s.source) + s.consumer, token: token, ttl: ttl}
}

// alivePrefix is what stands before a consumer's name in its liveness key.
func alivePrefix(source broker.Source) string {
	return base(source.Key) + ":alive:" + source.Group + ":"
}

// open writes the key, before the first read. A key that another process holds is waited for one TTL: the process may
// have just ended.
func (l *liveness) open(ctx context.Context) error {
	deadline := time.Now().Add(l.ttl + l.ttl/10)
	for {
		holder, err := l.beat(ctx)
		if err != nil {
			return err
		}
		if holder == "" {
			return nil
		}
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("consumer %q is alive elsewhere (held by %s): give each process a name of its own, or none", l.s.consumer, holder)
		}
		if err := wait(ctx, min(left, time.Second)); err != nil {
			return err
		}
	}
}

// beat prolongs or makes the key. It returns the holder where another process has it.
func (l *liveness) beat(ctx context.Context) (holder string, err error) {
	// The key counts from before the command: the server may have carried it out at once.
	now := time.Now()
	reply, err := run(ctx, l.s.client, append(aliveScript.args(2, l.key), l.token, milliseconds(l.ttl)))
	if err != nil {
		return "", fmt.Errorf("liveness key: %w", err)
	}
	switch text, _ := reply.(string); text {
	case "kept":
	case "made":
		l.mu.Lock()
		repaired := !l.since.IsZero()
		// From after the command: it has stood for a TTL at least.
		l.since = time.Now()
		l.mu.Unlock()
		if repaired {
			l.s.log.Warn("the liveness key was gone; made it again", "subscription", l.s.name, "key", l.key)
		}
	default:
		l.mu.Lock()
		l.since, l.until = time.Time{}, time.Time{}
		l.mu.Unlock()
		return text, nil
	}
	l.mu.Lock()
	l.until = now.Add(l.ttl)
	l.mu.Unlock()
	return "", nil
}

// mayJudge tells whether the key has stood for a whole TTL: long enough for every living peer to have written its own
// after whatever took all keys away (a restart of the server, a start of everyone).
func (l *liveness) mayJudge() bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.since.IsZero() && now.Sub(l.since) >= l.ttl && now.Before(l.until)
}

// stoodSince tells whether the key has stood without a gap since then, so that nobody can have taken anything. Who claims
// asks for no key, but takes nothing that was refreshed in time.
func (l *liveness) stoodSince(then time.Time) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.s.source.Claim > 0 && (l.late(now) || l.steady.After(then)) {
		return false
	}
	return !l.since.IsZero() && !l.since.After(then) && now.Before(l.until)
}

// late tells whether an entry in hand may have been idle for the claim time by now: it is refreshed within a third of it
// after the round that came too early for it.
func (l *liveness) late(now time.Time) bool { return now.Sub(l.refreshed) > l.s.source.Claim*2/3 }

// roundEnded notes that everything that is held was refreshed by a round that began then.
func (l *liveness) roundEnded(began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late(time.Now()) {
		l.steady = time.Now()
	}
	l.refreshed = began
}

// run beats every third of the TTL, and keeps what is held from looking idle, until ctx ends. After an error it tries
// again sooner.
func (l *liveness) run(ctx context.Context) {
	interval := l.ttl / 3
	refresh := interval
	if claim := l.s.source.Claim; claim > 0 {
		refresh = min(refresh, claim/3)
	}
	failing := false
	l.roundEnded(time.Now())
	beatAt := time.Now().Add(interval)
	var late []broker.Held
	for {
		pause := refresh
		if failing {
			pause = min(refresh, time.Second)
		}
		if wait(ctx, pause) != nil {
			return
		}
		var errs error
		if now := time.Now(); !now.Before(beatAt) {
			holder, err := l.beat(ctx)
			switch {
			case err != nil:
				errs = err
			case holder != "":
				errs = fmt.Errorf("%w: %q is held by %s", errConsumerTaken, l.s.consumer, holder)
			default:
				beatAt = now.Add(interval)
			}
		}
		began := time.Now()
		late = append(late, l.s.config.Holder.Held(refresh)...)
		if err := l.refresh(ctx, late); err != nil {
			errs = errors.Join(errs, err)
		} else {
			late = late[:0]
			l.roundEnded(began)
		}
		if errs != nil && !failing && ctx.Err() == nil {
			l.s.log.Warn("this consumer cannot show that it is alive", "subscription", l.s.name, "error", errs)
		}
		if errs == nil && failing {
			l.s.log.Info("this consumer shows again that it is alive", "subscription", l.s.name)
		}
		failing = errs != nil
	}
}

// refreshEntries is how many entries one call refreshes.
const refreshEntries = 500

// refresh resets the idle time of entries in hand, and tells the engine which of them it has lost.
func (l *liveness) refresh(ctx context.Context, held []broker.Held) error {
	s := l.s
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
		var lost []string
		results, _ := reply.([]any)
		for i, result := range results {
			if text, _ := result.(string); text == "lost" && i < n {
				lost = append(lost, held[i].ID)
			}
		}
		if len(lost) > 0 {
			s.config.Holder.Lost(lost)
		}
		held = held[n:]
	}
	return nil
}

// wait sleeps, and returns early with the context's error.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
