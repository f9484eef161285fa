package redisbroker

import "time"

const (
	// unseenEvery is how often a subscription looks for entries that it was given and never saw, while there may be some.
	unseenEvery = time.Second
	// unseenMargin is how long a server may take to notice that a connection is gone whose read has ended.
	unseenMargin = time.Second
)

// unseen says when to look for entries that are pending under this consumer although it never saw them. A connection
// that broke may live on at the server for as long as its read blocks, and be given entries meanwhile, so that one look is
// not enough. It belongs to the goroutine that reads.
type unseen struct{ next, until time.Time }

// suspect notes that a read that blocks for so long has ended without a reply.
func (u *unseen) suspect(block time.Duration) {
	u.next = time.Now()
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
