package redisbroker

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// takeFrom takes pending entries of an owner that the keeper found dead, if it still is, or what is free. What nobody was
// charged with is as good as new, and may wait for a slot as new entries do.
func (s *subscription) takeFrom(ctx context.Context, owner string, want broker.Want) (taken, error) {
	if owner == s.consumer {
		// The predecessor under our own name: our key is the proof that it is gone. What is in hand by now is ours.
		return s.findOwn(ctx, ownSearch{most: want.Back, charged: true})
	}
	n, uncharged := want.Back, false
	if owner == freeConsumer && want.Back == 0 {
		n, uncharged = want.New, true
	}
	return s.take(ctx, search{owner: owner, idle: max(s.idleOfDead(), s.source.Claim), most: n, uncharged: uncharged},
		alivePrefix(s.source)+owner, s.alive.key)
}

// search says what to take.
type search struct {
	// owner is whom to take from, "" for anyone, and idle how long an entry has to have been idle.
	owner string
	idle  time.Duration
	most  int
	// uncharged: only what nobody was charged with.
	uncharged bool
	// from is the id behind which to begin, "" for the first.
	from string
}

// take takes pending entries. guard are the owner's liveness key and our own.
func (s *subscription) take(ctx context.Context, what search, guard ...string) (taken, error) {
	keys := append([]string{s.source.Key}, guard...)
	uncharged, from := 0, cmp.Or(what.from, "-")
	if what.uncharged {
		uncharged = 1
	}
	data, err := s.runRaw(ctx, append(takeScript.args(9, keys...),
		s.source.Group, s.consumer, what.owner, max(what.idle.Milliseconds(), 0), what.most, s.alive.token, alivePrefix(s.source), uncharged, from))
	return s.takenBack(ctx, data, err)
}

func (s *subscription) takenBack(ctx context.Context, data []byte, err error) (taken, error) {
	if err != nil {
		return taken{}, err
	}
	t, err := parseTaken(data)
	stamp(t.deliveries)
	if len(t.own) > 0 {
		// What is in hand is settled from its body; the rest was left pending and nobody has it.
		held := make(map[string]bool)
		for _, h := range s.config.Holder.Held(0) {
			held[h.ID] = true
		}
		s.discardVanished(ctx, slices.DeleteFunc(t.own, func(id string) bool { return held[id] }))
	}
	for _, id := range t.vanished {
		s.vanished(id)
	}
	return t, err
}

// discardVanished acknowledges entries that were trimmed or deleted while they were pending: there is nothing to handle.
func (s *subscription) discardVanished(ctx context.Context, ids []string) {
	if len(ids) == 0 {
		return
	}
	if err := s.client.XAck(ctx, s.source.Key, s.source.Group, ids...).Err(); err != nil {
		return // they come back with the next claim
	}
	for _, id := range ids {
		s.vanished(id)
	}
}

func (s *subscription) vanished(id string) {
	s.log.Warn("a pending entry has vanished from the stream; acknowledged", "stream", s.source.Key, "id", id)
	s.config.Discarded("vanished")
}
