package redisbroker

import (
	"context"
	"fmt"

	"github.com/millrace-go/millrace/broker"
)

// abandoned is an entry, the owner that it is pending under, and how long it has been idle in milliseconds.
type abandoned struct {
	owner string
	held  broker.Held
	idle  int64
}

// putBack gives a group that was made anew what the old one had pending: what this process holds or has waiting, and what
// its last look saw under dead owners.
func (k *keeper) putBack(ctx context.Context) error {
	s := k.s
	var entries []abandoned
	for _, h := range s.config.Holder.Held(0) {
		// An outcome that is being written may have been carried out: putting its entry back would undo it. One that finds
		// the entry gone puts it back itself.
		if !h.Settling {
			entries = append(entries, abandoned{owner: s.consumer, held: h})
		}
	}
	if s.claims != nil {
		for _, e := range s.claims.waiting.entries() {
			entries = append(entries, abandoned{owner: s.consumer, held: broker.Held{ID: e.id, Count: e.count}})
		}
	}
	k.mu.Lock()
	entries = append(entries, k.abandoned...)
	k.mu.Unlock()
	back, err := k.restore(ctx, entries)
	k.doubt(back)
	if err == nil && len(back) > 0 {
		s.log.Warn("put entries back that the group had pending", "group", s.source.Group, "entries", len(back))
	}
	return err
}

// putBackAll makes entries pending again, each under its owner, and returns how many were not pending.
func (k *keeper) putBackAll(ctx context.Context, entries []abandoned) (back int64, err error) {
	put, err := k.restore(ctx, entries)
	return int64(len(put)), err
}

// restore makes entries pending again, each under its owner, and returns those that were not pending.
func (k *keeper) restore(ctx context.Context, entries []abandoned) (back []abandoned, err error) {
	s := k.s
	for len(entries) > 0 {
		n := min(len(entries), refreshEntries)
		args := append(putBackScript.args(2+4*n, s.source.Key), s.source.Group, s.consumer)
		for _, e := range entries[:n] {
			args = append(args, e.held.ID, e.held.Count, e.owner, e.idle)
		}
		reply, err := run(ctx, s.client, args)
		if err != nil {
			return back, s.lost(fmt.Errorf("putting entries back: %w", err))
		}
		put, _ := reply.([]any)
		for _, p := range put {
			i, _ := p.(int64)
			if i < 1 || int(i) > n {
				return back, errReply
			}
			back = append(back, entries[i-1])
		}
		entries = entries[n:]
	}
	return back, nil
}

// doubt remembers own entries that were put back: their outcomes may have been carried out just before.
func (k *keeper) doubt(back []abandoned) {
	for _, e := range back {
		if e.owner == k.s.consumer {
			k.doubtful = append(k.doubtful, e.held)
		}
	}
}

// inDoubt reports whether outcomes are awaited before it is known what was settled.
func (k *keeper) inDoubt() bool { return len(k.doubtful) > 0 }

// dispel takes those of the doubtful entries out again that have turned out to be settled, and keeps those in doubt whose
// outcome is still being written.
func (k *keeper) dispel(ctx context.Context) error {
	s := k.s
	if len(k.doubtful) == 0 {
		return nil
	}
	held := make(map[string]bool, len(k.doubtful))
	for _, h := range s.config.Holder.Held(0) {
		held[h.ID] = h.Settling
	}
	waiting := make(map[string]bool)
	if s.claims != nil {
		for _, e := range s.claims.waiting.entries() { // after the look at what is held, which becomes what waits
			waiting[e.id] = true
		}
	}
	var open []broker.Held
	var settled []any
	for _, h := range k.doubtful {
		settling, inHand := held[h.ID]
		switch {
		case settling:
			open = append(open, h)
		case !inHand && !waiting[h.ID]:
			settled = append(settled, h.ID, h.Count)
		}
	}
	for rest := settled; len(rest) > 0; {
		n := min(len(rest), 2*refreshEntries)
		args := append(ackScript.args(2+n, s.source.Key), s.source.Group, s.consumer)
		if _, err := run(ctx, s.client, append(args, rest[:n]...)); err != nil {
			return s.lost(fmt.Errorf("taking out entries that were settled: %w", err))
		}
		rest = rest[n:]
	}
	k.doubtful = open
	return nil
}
