package redisbroker

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

const (
	// One call moves so many members at most, so that the server answers others meanwhile. It is told of more at once.
	moveEntries = 500
	dueEntries  = 4 * moveEntries
	dueBytes    = 1 << 20
	// moveSleep is the longest sleep of the mover: what other processes delay is noticed so late at worst.
	moveSleep = time.Second
	// moveLease keeps a member that this process cannot move out of the way for a while.
	moveLease = 30 * time.Second
	// The mover waits so long after an error, doubling.
	firstPause, longestPause = 100 * time.Millisecond, 5 * time.Second
)

// mover moves due members of a delay set to where they came from. Any number of processes may run one: a member is moved
// by whoever is first, in one step.
type mover struct {
	client redis.UniversalClient
	log    *slog.Logger
	set    string
	// moveMembers moves members that were due. One that is not there any more is no error.
	moveMembers func(ctx context.Context, members []string) error
	pulse       broker.Pulse
	wake        chan time.Time
}

func newMover(client redis.UniversalClient, config broker.Config, set string, moveMembers func(context.Context, []string) error) *mover {
	return &mover{
		client: client, log: config.Logger, set: set, moveMembers: moveMembers,
		pulse: config.Pulse.Of(broker.CheckSweep, moveSleep), wake: make(chan time.Time, 1),
	}
}

// expect tells the mover that this process has just delayed a message by so much. It never blocks.
func (m *mover) expect(d time.Duration) {
	due := time.Now().Add(min(d, longestDelay))
	for {
		select {
		case m.wake <- due:
			return
		default:
		}
		// One note is enough: the earlier one.
		select {
		case other := <-m.wake:
			if other.Before(due) {
				due = other
			}
		default:
		}
	}
}

// run moves until ctx ends.
func (m *mover) run(ctx context.Context) {
	pause := time.Duration(0)
	// The last batch was full, so that more is due.
	more := false
	for ctx.Err() == nil {
		var wait time.Duration
		var err error
		wait, more, err = m.move(ctx, more)
		if err != nil {
			err = fmt.Errorf("moving what is due in %q: %w", m.set, err)
		}
		m.pulse(err)
		switch {
		case err == nil && pause > 0:
			pause = 0
			m.log.Info("delayed messages are moved again", "delay_set", m.set)
		case err != nil && ctx.Err() == nil:
			if pause == 0 {
				m.log.Warn("delayed messages cannot be moved", "delay_set", m.set, "error", err)
			}
			pause = min(max(2*pause, firstPause), longestPause)
			wait = pause/2 + rand.N(pause/2) //nolint:gosec // jitter
		}
		m.sleep(ctx, wait, err == nil)
	}
}

// sleep waits, or less where a message was delayed meanwhile that is due earlier.
func (m *mover) sleep(ctx context.Context, wait time.Duration, wakeable bool) {
	if wait <= 0 {
		return
	}
	until := time.Now().Add(wait)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	wake := m.wake
	if !wakeable {
		wake = nil
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case due := <-wake:
			if due.Before(until) {
				until = due
				timer.Reset(time.Until(due))
			}
		}
	}
}

// move moves one batch, and returns how long to wait before the next, and whether more is due for certain.
func (m *mover) move(ctx context.Context, more bool) (time.Duration, bool, error) {
	if !more {
		// On a set that is empty this is all that a mover costs.
		n, err := m.client.ZRange(ctx, m.set, 0, 0).Result()
		if err != nil || len(n) == 0 {
			return moveSleep, false, err
		}
	}
	reply, err := run(ctx, m.client, append(dueScript.args(2, m.set), dueEntries, dueBytes))
	if err != nil {
		return 0, false, err
	}
	parts, _ := reply.([]any)
	if len(parts) == 0 {
		return 0, false, errReply
	}
	next, _ := parts[0].(int64)
	members := make([]string, 0, len(parts)-1)
	for _, part := range parts[1:] {
		text, _ := part.(string)
		members = append(members, text)
	}
	if len(members) > 0 {
		if err := m.moveMembers(ctx, members); err != nil {
			return 0, false, err
		}
	}
	if next < 0 {
		return moveSleep, false, nil
	}
	return min(time.Duration(next)*time.Millisecond, moveSleep), next == 0, nil
}
