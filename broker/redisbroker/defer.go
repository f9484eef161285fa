package redisbroker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// longestDeferral is how long a message that nobody knows waits at most until the next process looks at it.
const longestDeferral = 5 * time.Minute

// deferredSet is where messages wait that nobody here knows, where the source has no delay set.
func deferredSet(key string) string { return base(key) + ":deferred" }

// settleDeferred settles a batch in which deferrals are delays: how long they last and whether they may go on is known
// once the server has been asked what time it is. A batch without deferrals costs nothing.
func settleDeferred(ctx context.Context, client redis.UniversalClient, batch []*broker.Settlement, settle func(context.Context, []*broker.Settlement)) {
	deferrals := 0
	for _, st := range batch {
		if st.Action == broker.Defer {
			deferrals++
		}
	}
	if deferrals == 0 {
		settle(ctx, batch)
		return
	}
	now, err := client.Time(ctx).Result()
	delays := make(map[*broker.Settlement]*broker.Settlement, deferrals)
	inner := make([]*broker.Settlement, 0, len(batch))
	for _, st := range batch {
		switch {
		case st.Action != broker.Defer:
			inner = append(inner, st)
		case err != nil:
			st.Result, st.Err = 0, fmt.Errorf("%s of entry %s: TIME: %w", st.Action, st.Delivery.ID, err)
		default:
			delay, overdue := putOff(st, now)
			st.Edits = delay.Edits // what is written again has the same time, and is the same member
			if overdue {
				st.Result, st.Err = broker.Overdue, nil
				continue
			}
			delays[st] = delay
			inner = append(inner, delay)
		}
	}
	settle(ctx, inner)
	for st, delay := range delays {
		st.Result, st.Err, st.Repeated, st.Written = delay.Result, delay.Err, delay.Repeated, delay.Written
	}
}

func isUnknownSince(h broker.HeaderLine) bool { return h.Name == broker.HeaderUnknownSince }

// putOff is the delay that a deferral amounts to at that time: as long again as the message has been unknown, so that
// each wait is about twice the one before. overdue: it has been unknown for too long.
func putOff(st *broker.Settlement, now time.Time) (delay *broker.Settlement, overdue bool) {
	d := *st
	d.Action = broker.Delay
	if st.Written || slices.ContainsFunc(st.Edits.Set, isUnknownSince) {
		return &d, false // a try before this one has failed
	}
	if text, ok := st.Delivery.Header(broker.HeaderUnknownSince); ok {
		if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms > 0 && ms <= now.UnixMilli() {
			unknown := time.Duration(min(now.UnixMilli()-ms, longestDelay.Milliseconds())) * time.Millisecond
			d.Delay = min(st.Delay+unknown, max(longestDeferral, st.Delay))
			return &d, unknown >= st.Limit
		}
	}
	since := broker.HeaderLine{Name: broker.HeaderUnknownSince, Value: strconv.FormatInt(now.UnixMilli(), 10)}
	d.Edits.Set = append(append([]broker.HeaderLine(nil), st.Edits.Set...), since)
	return &d, false
}
