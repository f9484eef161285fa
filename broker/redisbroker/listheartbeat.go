package redisbroker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// keep is what the heartbeat of a reliable list does besides prolonging the liveness key: it writes the in-flight lists
// into the registry again, looks whether they hold what this process has in hand, and leaves old ones that are empty.
func (l *reliableList) keep(ctx context.Context, _ time.Duration) error {
	if err := l.register(ctx); err != nil {
		return err
	}
	for _, in := range l.flown() {
		if err := l.compare(ctx, in); err != nil {
			return err
		}
		if err := l.leave(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

// register writes the in-flight lists into the registry of the owners.
func (l *reliableList) register(ctx context.Context) error {
	l.flight()
	var members []any
	for _, in := range l.flown() {
		members = append(members, in.member)
	}
	if err := l.client.SAdd(ctx, l.base+ownersKind, members...).Err(); err != nil {
		return fmt.Errorf("SADD %s: %w", l.base+ownersKind, err)
	}
	return nil
}

// compare looks whether an in-flight list holds as many items as it should, and only where it does not at the items. The
// server may have lost what it was told: with a failover to a replica that lagged, or a restart from an older state.
func (l *reliableList) compare(ctx context.Context, in *flight) error {
	expected, expectedAside := l.inflight.listed(in)
	var there, aside *redis.IntCmd
	_, err := l.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		there, aside = p.LLen(ctx, in.list), p.LLen(ctx, in.aside)
		return nil
	})
	if err != nil {
		return err
	}
	if int(aside.Val()) > expectedAside {
		moved, err := l.bringBack(ctx, in)
		if err != nil || moved {
			return err
		}
	}
	switch {
	case int(there.Val()) > expected:
		// Something was just taken, or the reply that named it was lost: only the reader can tell.
		l.surplus.Store(true)
	case int(there.Val()) < expected:
		_, missing, err := l.inflight.look(ctx, l.client, in)
		if err != nil {
			return err
		}
		l.lost(missing)
	}
	return nil
}

// bringBack moves what stands aside on the server, and not here, into flight again. What is in hand is where it should be
// then, and the next look at the in-flight list finds the rest.
func (l *reliableList) bringBack(ctx context.Context, in *flight) (moved bool, err error) {
	there, err := l.client.LRange(ctx, in.aside, 0, -1).Result()
	if err != nil {
		return false, err
	}
	known := l.inflight.standsAside(in) // after the look: what has come there meanwhile is not in question
	args := listBackScript.args(len(there), in.list, in.aside)
	for _, item := range there {
		if known[item] > 0 {
			known[item]--
			continue
		}
		args, moved = append(args, item), true
	}
	if !moved {
		return false, nil
	}
	_, err = run(ctx, l.client, args)
	return err == nil, err
}

// leave forgets an old in-flight list that holds nothing. A read that began before it was left may still bring something
// for half a TTL.
func (l *reliableList) leave(ctx context.Context, in *flight) error {
	l.mu.Lock()
	waits := in.left.IsZero() || time.Since(in.left) < l.alive.ttl
	l.mu.Unlock()
	if listed, _ := l.inflight.listed(in); waits || listed > 0 {
		return nil
	}
	reply, err := run(ctx, l.client, append(listRetireScript.args(3, l.base+ownersKind, in.list, in.aside, l.alive.key, l.settledKey()),
		in.member, l.token, "1"))
	if err != nil {
		return err
	}
	if removed, _ := reply.(int64); removed > 0 {
		l.mu.Lock()
		l.flights = slices.DeleteFunc(l.flights, func(f *flight) bool { return f == in })
		l.mu.Unlock()
	}
	return nil
}
