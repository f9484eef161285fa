package redisbroker

import (
	"context"
	"fmt"
	"slices"
	"time"
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

// compare looks whether an in-flight list holds as many items as it should, and only where it does not at the items.
func (l *reliableList) compare(ctx context.Context, in *flight) error {
	expected := l.inflight.listed(in)
	there, err := l.client.LLen(ctx, in.list).Result()
	switch {
	case err != nil:
		return err
	case int(there) > expected:
		// Something was just taken, or the reply that named it was lost: only the reader can tell.
		l.surplus.Store(true)
	case int(there) < expected:
		_, missing, err := l.inflight.look(ctx, l.client, in)
		if err != nil {
			return err
		}
		l.lost(missing)
	}
	return nil
}

// leave forgets an old in-flight list that holds nothing. A read that began before it was left may still bring something
// for half a TTL.
func (l *reliableList) leave(ctx context.Context, in *flight) error {
	l.mu.Lock()
	waits := in.left.IsZero() || time.Since(in.left) < l.alive.ttl
	l.mu.Unlock()
	if waits || l.inflight.listed(in) > 0 {
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
