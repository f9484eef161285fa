package redisbroker

import (
	"cmp"
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

const (
	// unseenEvery is how often a subscription looks for entries that it was given and never saw, while there may be some.
	unseenEvery = time.Second
	// unseenMargin is how long a server may take to notice that a connection is gone whose read has ended.
	unseenMargin = time.Second
	// ownPage is how many entries one look at what is pending under this consumer lists, and ownFetch how many of them one
	// call fetches at most: there may be nothing left of any but the last.
	ownPage  = 1000
	ownFetch = 100
)

// unseen says when to look for entries that are pending under this consumer although it never saw them. A connection
// that broke may live on at the server for as long as its read blocks, and be given entries meanwhile, so that one look is
// not enough. It belongs to the goroutine that reads.
type unseen struct {
	next, until time.Time
	// from is the id behind which the look goes on, "" for the first.
	from string
}

// suspect notes that a read that blocks for so long has ended without a reply.
func (u *unseen) suspect(block time.Duration) {
	u.next, u.from = time.Now(), ""
	u.until = u.next.Add(block + unseenMargin)
}

func (u *unseen) due() bool { return !u.next.IsZero() && !time.Now().Before(u.next) }

// putOff has the look wait for a moment.
func (u *unseen) putOff() { u.next = time.Now().Add(backPoll) }

// looked notes that nothing was found.
func (u *unseen) looked() {
	now := time.Now()
	if !now.Before(u.until) {
		u.next = time.Time{}
		return
	}
	u.next = now.Add(unseenEvery)
	if u.next.After(u.until) {
		u.next = u.until
	}
}

// bound shortens a read so that it ends when it is time to look.
func (u *unseen) bound(block time.Duration) time.Duration {
	if block <= 0 || u.next.IsZero() {
		return block
	}
	return min(block, max(time.Until(u.next), time.Millisecond))
}

// readOwn hands out what is pending under this consumer and not in hand: what the server gave it with a reply that was lost,
// and what the server lost the outcome of.
func (s *subscription) readOwn(ctx context.Context, n int) ([]*broker.Delivery, error) {
	strays, unseen := s.strays.Swap(false), s.unseen.due()
	if !strays && !unseen {
		return nil, nil
	}
	if s.keeper.inDoubt() || s.keeper.takes(s.consumer) {
		// One that was settled and put back is no longer in hand, and would look like one that was never seen. What a
		// predecessor left is taken as from a dead owner.
		if unseen {
			s.unseen.putOff()
		}
		return nil, nil // the keeper finds the strays again
	}
	if strays {
		t, err := s.findOwn(ctx, ownSearch{idle: s.alive.ttl, most: n})
		if err != nil || len(t.deliveries) > 0 {
			s.strays.Store(true)
			return t.deliveries, err
		}
	}
	if unseen {
		t, err := s.findOwn(ctx, ownSearch{most: n, from: s.unseen.from})
		s.unseen.from = t.next
		if err != nil || len(t.deliveries) > 0 {
			return t.deliveries, err
		}
		s.unseen.looked()
	}
	return nil, nil
}

// ownSearch says what to find among the entries that are pending under this consumer.
type ownSearch struct {
	// idle is how long an entry has to have been idle, 0 for any.
	idle time.Duration
	most int
	// charged raises the delivery count: the entries were a predecessor's.
	charged bool
	// from is the id behind which to begin, "" for the first.
	from string
}

// findOwn fetches what is pending under this consumer and not in hand. It never does so while a read is under way.
func (s *subscription) findOwn(ctx context.Context, what ownSearch) (taken, error) {
	raise := 0
	if what.charged {
		raise = 1
	}
	for {
		found, next, err := s.notInHand(ctx, what)
		if err != nil {
			return taken{next: what.from}, err
		}
		if len(found) > 0 {
			args := append(unseenScript.args(4+2*len(found), s.source.Key), s.source.Group, s.consumer, raise, what.most)
			for _, h := range found {
				args = append(args, h.ID, h.Count)
			}
			data, err := s.runRaw(ctx, args)
			t, err := s.takenBack(ctx, data, err)
			if s.claims != nil {
				s.claims.waiting.back(t.deliveries)
			}
			if err != nil || len(t.deliveries) > 0 {
				t.next = cmp.Or(t.next, next)
				return t, err
			}
		}
		if next == "" {
			return taken{}, nil
		}
		what.from = next
	}
}

// notInHand looks at one page of what is pending under this consumer, and returns what of it is neither in hand nor left
// until it is claimed again, and the id behind which to go on, "" where it saw all. One that was left with another count
// has been claimed again, and the reply was lost.
func (s *subscription) notInHand(ctx context.Context, what ownSearch) (found []broker.Held, next string, err error) {
	page, err := s.client.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: s.source.Key, Group: s.source.Group, Consumer: s.consumer,
		Idle: what.idle, Start: cmp.Or(what.from, "-"), End: "+", Count: ownPage,
	}).Result()
	if err != nil || len(page) == 0 {
		return nil, "", err
	}
	// After the look at the server: what is handed out comes into hand before the next read, and what has left it meanwhile is
	// no longer pending with this count, if the server knows of it.
	held := make(map[string]bool)
	for _, h := range s.config.Holder.Held(0) {
		held[h.ID] = true
	}
	waiting := make(map[string]int64)
	if s.claims != nil {
		for _, e := range s.claims.waiting.entries() { // after the look at what is held, which becomes what waits
			waiting[e.id] = e.count
		}
	}
	for _, p := range page {
		if len(found) == ownFetch {
			return found, next, nil
		}
		if count, waits := waiting[p.ID]; p.ID != what.from && !held[p.ID] && !(waits && count == p.RetryCount) {
			found = append(found, broker.Held{ID: p.ID, Count: p.RetryCount})
		}
		next = p.ID
	}
	if len(page) < ownPage {
		next = ""
	}
	return found, next, nil
}
