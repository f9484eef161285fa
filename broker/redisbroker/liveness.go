package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// liveness keeps the key that tells the peers that this consumer is alive, and keeps what it holds from looking idle.
type liveness struct {
	client   redis.UniversalClient
	log      *slog.Logger
	consumer string
	key      string
	token    string
	ttl      time.Duration
	claim    time.Duration // 0 unless claiming
	// keep keeps everything that has been in hand for so long from looking idle.
	keep  func(ctx context.Context, since time.Duration) error
	pulse broker.Pulse

	mu sync.Mutex // guards what follows; not held over I/O
	// made is how often the key was made, and not prolonged.
	made int
	// since is when the key was last made; it has stood without a gap from then on.
	since time.Time
	// until is when the key ends as far as this process knows.
	until time.Time
	// refreshed is when what is held was last kept from looking idle, and steady since when that was never late.
	refreshed, steady time.Time
}

// errConsumerTaken is what reads fail with when another process holds this consumer's name.
var errConsumerTaken = errors.New("another process reads under the same consumer name")

func newLiveness(client redis.UniversalClient, config broker.Config, consumer, token string, ttl time.Duration,
	keep func(context.Context, time.Duration) error,
) *liveness {
	return &liveness{
		client: client, log: config.Logger, consumer: consumer, key: alivePrefix(config.Source) + consumer,
		token: token, ttl: ttl, claim: config.Source.Claim, keep: keep, pulse: config.Pulse.Of(broker.CheckHeartbeat, ttl/3),
	}
}

// alivePrefix is what stands before a consumer's name in its liveness key.
func alivePrefix(source broker.Source) string {
	return base(source.Key) + aliveKind + source.Group + ":"
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
			return fmt.Errorf("consumer %q is alive elsewhere (held by %s): give each process a name of its own, or none", l.consumer, holder)
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
	reply, err := run(ctx, l.client, append(aliveScript.args(2, l.key), l.token, milliseconds(l.ttl)))
	if err != nil {
		return "", fmt.Errorf("liveness key: %w", err)
	}
	switch text, _ := reply.(string); text {
	case "kept":
	case "made":
		l.mu.Lock()
		repaired := l.made > 0
		l.made++
		// From after the command: it has stood for a TTL at least.
		l.since = time.Now()
		l.mu.Unlock()
		if repaired {
			l.log.Warn("the liveness key was gone; made it again", "key", l.key)
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

// gaps is how often the key has been made again after it was gone.
func (l *liveness) gaps() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.made-1, 0)
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
	if l.claim > 0 && (l.late(now) || l.steady.After(then)) {
		return false
	}
	return !l.since.IsZero() && !l.since.After(then) && now.Before(l.until)
}

// late tells whether an entry in hand may have been idle for the claim time by now: it is refreshed within a third of it
// after the round that came too early for it.
func (l *liveness) late(now time.Time) bool { return now.Sub(l.refreshed) > l.claim*2/3 }

// isLate is late by now.
func (l *liveness) isLate() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.late(time.Now())
}

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
	if claim := l.claim; claim > 0 {
		refresh = min(refresh, claim/3)
	}
	failing := false
	l.roundEnded(time.Now())
	beatAt := time.Now().Add(interval)
	for {
		pause := refresh
		if failing {
			pause = min(refresh, time.Second)
		}
		if wait(ctx, pause) != nil {
			return
		}
		var errs error
		now := time.Now()
		due := !now.Before(beatAt)
		if due {
			holder, err := l.beat(ctx)
			switch {
			case err != nil:
				errs = err
			case holder != "":
				errs = fmt.Errorf("%w: %q is held by %s", errConsumerTaken, l.consumer, holder)
			default:
				beatAt = now.Add(interval)
			}
		}
		began := time.Now()
		if err := l.keep(ctx, refresh); err != nil {
			errs = errors.Join(errs, err)
		} else {
			l.roundEnded(began)
		}
		if errs != nil && !failing && ctx.Err() == nil {
			l.log.Warn("this consumer cannot show that it is alive", "error", errs)
		}
		if errs == nil && failing {
			l.log.Info("this consumer shows again that it is alive")
		}
		if due || failing || errs != nil {
			l.pulse(errs) // a round in which nothing is due may ask nothing of the server
		}
		failing = errs != nil
	}
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
