package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

const (
	// look is how often a subscription looks at the consumers of its group.
	look = time.Second
	// lookAlone keeps the other processes from judging the group meanwhile; a little less than look, so that the next
	// look of the same process is not kept off by its own.
	lookAlone = 900 * time.Millisecond
	// positionEvery is how many looks pass between two at the group's position.
	positionEvery = 5
	// rememberLooks is how many looks what was seen under dead owners is worth remembering where other processes judge:
	// they may have taken and settled it.
	rememberLooks = 2
)

// keeper looks after the group: it finds what dead and stopped peers left, removes dead consumers that hold nothing,
// and remembers what a group that is lost must get back. It takes nothing itself: the reader knows how many slots are
// free.
type keeper struct {
	s     *subscription
	pulse broker.Pulse

	mu sync.Mutex // guards what follows; not held over I/O
	// owners are those that something can be taken from, the free one first.
	owners []string
	// abandoned is what the last judgement saw pending under dead owners, and looks how many looks have passed since.
	abandoned []abandoned
	looks     int
	// taken are the ids that were taken while a judgement was under way, whose answer is older than that.
	taken []string

	// straysAt is when to look for strays. It belongs to the keeper's own goroutine.
	straysAt time.Time

	// doubtful are own entries that were put back and may have been settled. They belong to the goroutine that reads.
	doubtful []broker.Held
}

// judgeKey keeps the processes of a group from judging it all at once.
func judgeKey(source broker.Source) string { return base(source.Key) + ":judge:" + source.Group }

func newKeeper(s *subscription) *keeper {
	k := &keeper{s: s}
	every := look
	if s.source.Claim > 0 {
		every = positionEvery * look // see needed
	}
	k.pulse = s.config.Pulse.Of(broker.CheckSweep, every)
	return k
}

// run looks once a second until ctx ends.
func (k *keeper) run(ctx context.Context) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	reapAt := time.Now().Add(k.s.alive.ttl / 3)
	for n := 0; ; n++ {
		if n%positionEvery != 0 && !k.needed() {
			if !next(ctx, ticker) {
				return
			}
			continue
		}
		consumers, err := k.s.client.XInfoConsumers(ctx, k.s.source.Key, k.s.source.Group).Result()
		if err == nil {
			err = k.judge(ctx, consumers)
		}
		if err == nil {
			err = k.strays(ctx, consumers)
		}
		if err == nil && n%positionEvery == 0 {
			err = k.position(ctx)
		}
		if now := time.Now(); err == nil && now.After(reapAt) {
			err = k.reap(ctx, consumers)
			reapAt = now.Add(k.s.alive.ttl / 3)
		}
		k.pulse(sweepError(k.s, err))
		if !next(ctx, ticker) {
			return
		}
	}
}

// sweepError says what failed, and notes where the group is gone.
func sweepError(s *subscription, err error) error {
	if err == nil {
		return nil
	}
	if s.source.Reclaim > 0 && strings.Contains(err.Error(), "no such key") {
		s.regroup.Store(true) // its reads would not find out: they ask for nothing new
	}
	return s.lost(fmt.Errorf("looking after group %q of stream %q: %w", s.source.Group, s.source.Key, err))
}

// needed reports whether the subscription depends on a look every second. One that claims takes from anyone what is idle
// for long enough, what was handed back included: it looks only to remember what a lost group must get back.
func (k *keeper) needed() bool { return k.s.claims == nil }

// next waits for the ticker, and reports false when ctx ended first.
func next(ctx context.Context, ticker *time.Ticker) bool {
	select {
	case <-ticker.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// judge asks which of the other consumers that hold something are dead, and tells the reader.
func (k *keeper) judge(ctx context.Context, consumers []redis.XInfoConsumer) error {
	s := k.s
	var names []any
	for _, c := range consumers {
		if c.Pending == 0 || c.Name == s.consumer {
			continue
		}
		switch {
		case c.Name == freeConsumer:
			names = append([]any{c.Name}, names...)
		case s.alive.mayJudge():
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		k.remember(nil, nil)
		return nil
	}
	k.judging()
	args := append(judgeScript.args(7+len(names), s.source.Key, s.alive.key, judgeKey(s.source)),
		s.source.Group, s.consumer, s.alive.token, alivePrefix(s.source), milliseconds(s.idleOfDead()), freeConsumer, milliseconds(lookAlone))
	reply, err := run(ctx, s.client, append(args, names...))
	if errors.Is(err, redis.Nil) {
		k.forget()
		return nil
	}
	if err != nil {
		return err
	}
	var owners []string
	var seen []abandoned
	dead, _ := reply.([]any)
	for _, d := range dead {
		parts, _ := d.([]any)
		if len(parts) != 3 {
			return errReply
		}
		owner, _ := parts[0].(string)
		if takeable, _ := parts[1].(int64); takeable > 0 && k.needed() {
			owners = append(owners, owner)
		}
		ids, _ := parts[2].([]any)
		for i := 0; i+2 < len(ids); i += 3 {
			id, _ := ids[i].(string)
			idle, _ := ids[i+1].(int64)
			count, _ := ids[i+2].(int64)
			seen = append(seen, abandoned{owner, broker.Held{ID: id, Count: count}, idle})
		}
	}
	k.remember(owners, seen)
	if len(owners) > 0 && !s.stopped.Load() {
		s.reader.interrupt(ctx)
	}
	return nil
}

// strays asks, every third of the TTL, what is pending under this consumer that it does not have in hand, and tells the
// reader. The server has lost its outcome: with a failover to a replica that lagged, or a restart from an older state. What
// is in hand is refreshed, so that strays are among what has been idle for a TTL. Peers leave it to its owner, which lives.
// Claiming takes it back as anything that is idle for long enough.
func (k *keeper) strays(ctx context.Context, consumers []redis.XInfoConsumer) error {
	s, now := k.s, time.Now()
	holds := func(c redis.XInfoConsumer) bool { return c.Name == s.consumer && c.Pending > 0 }
	if s.claims != nil || now.Before(k.straysAt) || !slices.ContainsFunc(consumers, holds) {
		return nil
	}
	k.straysAt = now.Add(s.alive.ttl / 3)
	for from := ""; ; {
		found, next, err := s.notInHand(ctx, ownSearch{idle: s.alive.ttl, most: 1, from: from})
		if err != nil {
			return err
		}
		if len(found) > 0 {
			s.strays.Store(true)
			if !s.stopped.Load() {
				s.reader.interrupt(ctx)
			}
			return nil
		}
		if next == "" {
			return nil
		}
		from = next
	}
}

// remember notes what a judgement found.
func (k *keeper) remember(owners []string, seen []abandoned) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !k.needed():
		owners = k.owners // what it began with
	case slices.Contains(k.owners, k.s.consumer):
		// The own name stays until nothing of the predecessor is left.
		owners = append(owners, k.s.consumer)
	}
	seen = slices.DeleteFunc(seen, func(a abandoned) bool { return slices.Contains(k.taken, a.held.ID) })
	k.owners, k.abandoned, k.looks, k.taken = owners, seen, 0, nil
}

// judging notes that a judgement begins.
func (k *keeper) judging() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.taken = nil
}

// took notes what was taken: it is this process's own from now on.
func (k *keeper) took(deliveries []*broker.Delivery) {
	if len(deliveries) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range deliveries {
		k.taken = append(k.taken, d.ID)
		k.abandoned = slices.DeleteFunc(k.abandoned, func(a abandoned) bool { return a.held.ID == d.ID })
	}
}

// forget notes that another process judged, and drops what it may have changed.
func (k *keeper) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.looks++; k.looks >= rememberLooks {
		k.abandoned = nil
	}
}

// position remembers how far the group has come, for when it has to be made again.
func (k *keeper) position(ctx context.Context) error {
	groups, err := k.s.client.XInfoGroups(ctx, k.s.source.Key).Result()
	if err != nil {
		return err
	}
	for _, g := range groups {
		if g.Name == k.s.source.Group {
			k.s.given.reached(g.LastDeliveredID)
		}
	}
	return nil
}

// reap removes consumers that have been silent for long, have no liveness key and hold nothing. Silence alone is no
// death: on older servers a read that brings nothing does not count as a sign of life.
func (k *keeper) reap(ctx context.Context, consumers []redis.XInfoConsumer) error {
	s := k.s
	if !s.alive.mayJudge() {
		return nil
	}
	var names []any
	for _, c := range consumers {
		// The embedded server does not know of every consumer how long it has been silent, and says -1.
		silent := c.Idle >= s.alive.ttl || c.Idle < 0
		if c.Pending == 0 && silent && c.Name != s.consumer && c.Name != freeConsumer {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	args := append(reapScript.args(3+len(names), s.source.Key), s.source.Group, s.consumer, alivePrefix(s.source))
	reply, err := run(ctx, s.client, append(args, names...))
	if err != nil {
		return fmt.Errorf("removing dead consumers: %w", err)
	}
	if removed, _ := reply.([]any); len(removed) > 0 {
		s.log.Info("removed consumers that were dead and held nothing", "group", s.source.Group, "consumers", len(removed))
	}
	return nil
}

// inherit has the first reads take what stopped processes handed back and, under a fixed name, what the predecessor left,
// as from a dead owner.
func (k *keeper) inherit(fixed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.owners = append(k.owners, freeConsumer)
	if fixed {
		k.owners = append(k.owners, k.s.consumer)
	}
}

// next returns the owner to take from now, "" for none.
func (k *keeper) next() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.owners) == 0 {
		return ""
	}
	return k.owners[0]
}

// takes reports whether something is still to be taken from the owner.
func (k *keeper) takes(owner string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.owners, owner)
}

// exhausted forgets an owner from whom nothing more could be taken.
func (k *keeper) exhausted(owner string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.owners) > 0 && k.owners[0] == owner {
		k.owners = k.owners[1:]
	}
}
