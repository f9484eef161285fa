package brokertest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// The names of fields on the wire, written out here: the suite checks what stands on the server and not what the library
// says it writes.
const (
	fieldPayload = "_payload"
	headerPrefix = "h:"
	burialPrefix = "dlq_"
)

// entry is one entry of a stream as it stands there, repeated names and order kept.
type entry struct {
	id     string
	fields []pair
}

type pair struct{ name, value string }

// entries returns a whole stream. The client's own parser would make a map of each entry.
func entries(ctx context.Context, client redis.UniversalClient, key string) ([]entry, error) {
	reply, err := client.Do(ctx, "XRANGE", key, "-", "+").Slice()
	if err != nil {
		return nil, fmt.Errorf("XRANGE %q: %w", key, err)
	}
	var all []entry
	for _, one := range reply {
		parts, ok := one.([]any)
		if !ok || len(parts) != 2 {
			return nil, fmt.Errorf("XRANGE %q: an entry is %v", key, one)
		}
		values, ok := parts[1].([]any)
		if !ok {
			return nil, fmt.Errorf("XRANGE %q: the fields are %v", key, parts[1])
		}
		e := entry{id: fmt.Sprint(parts[0])}
		for i := 0; i+1 < len(values); i += 2 {
			e.fields = append(e.fields, pair{fmt.Sprint(values[i]), fmt.Sprint(values[i+1])})
		}
		all = append(all, e)
	}
	return all, nil
}

// all returns every value of a name, in their order.
func (e entry) all(name string) []string {
	var values []string
	for _, f := range e.fields {
		if f.name == name {
			values = append(values, f.value)
		}
	}
	return values
}

// last returns the value of a name that counts, "" where there is none.
func (e entry) last(name string) string {
	values := e.all(name)
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

func (e entry) has(name string) bool { return len(e.all(name)) > 0 }

// header is last for the name of a header.
func (e entry) header(name string) string { return e.last(headerPrefix + name) }

func (e entry) hasHeader(name string) bool { return e.has(headerPrefix + name) }

// own are the headers that the library adds to a message on its way.
var own = []string{
	headerPrefix + broker.HeaderRetryCount, headerPrefix + broker.HeaderLosses, headerPrefix + broker.HeaderRetryGroup,
	headerPrefix + broker.HeaderHistory, headerPrefix + broker.HeaderMessageID,
}

// theirs returns what of the entry is the application's: everything that the library did not add, in its order.
func (e entry) theirs() []pair {
	return slices.DeleteFunc(slices.Clone(e.fields), func(f pair) bool {
		return slices.Contains(own, f.name) || strings.HasPrefix(f.name, burialPrefix)
	})
}

// historyLines counts the failed attempts that the entry tells of.
func (e entry) historyLines() int {
	history := e.header(broker.HeaderHistory)
	if history == "" {
		return 0
	}
	return strings.Count(history, "\n") + 1
}

// retryCounts is the header retry-count of each entry, "" where there is none.
func retryCounts(all []entry) []string {
	var counts []string
	for _, e := range all {
		counts = append(counts, e.header(broker.HeaderRetryCount))
	}
	return counts
}

// state is what a group and its delay set hold at one moment.
type state struct {
	pending, delayed, length int64
	// unread: the group has not been given the newest entry.
	unread bool
}

// atRest tells that nothing is left that could ever be delivered again.
func (s state) atRest() bool { return s.pending == 0 && s.delayed == 0 && s.length > 0 && !s.unread }

// look reads the state. The stream and its delay set may be in different slots of a cluster, which no transaction can read
// at one moment: the stream is looked at before and after the set, so that a message on its way from one to the other is
// never missed.
func look(ctx context.Context, client redis.UniversalClient, stream, group, delaySet string) (state, error) {
	before, first, err := lookAtStream(ctx, client, stream, group)
	if err != nil {
		return state{}, err
	}
	delayed, err := client.ZCard(ctx, delaySet).Result()
	if err != nil {
		return state{}, fmt.Errorf("looking at %q: %w", delaySet, err)
	}
	s, last, err := lookAtStream(ctx, client, stream, group)
	s.delayed = delayed
	s.pending = max(s.pending, before.pending)
	s.unread = s.unread || before.unread || first != last
	return s, err
}

// lookAtStream reads what a stream and its group hold, and the id of the newest entry, in one transaction.
func lookAtStream(ctx context.Context, client redis.UniversalClient, stream, group string) (s state, last string, err error) {
	var (
		pending *redis.XPendingCmd
		newest  *redis.XMessageSliceCmd
		groups  *redis.XInfoGroupsCmd
		length  *redis.IntCmd
	)
	_, err = client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		pending = p.XPending(ctx, stream, group)
		newest = p.XRevRangeN(ctx, stream, "+", "-", 1)
		groups = p.XInfoGroups(ctx, stream)
		length = p.XLen(ctx, stream)
		return nil
	})
	if err != nil {
		return state{}, "", fmt.Errorf("looking at %q: %w", stream, err)
	}
	if len(newest.Val()) == 1 {
		last = newest.Val()[0].ID
	}
	s = state{pending: pending.Val().Count, length: length.Val(), unread: true}
	for _, g := range groups.Val() {
		if g.Name == group && last != "" {
			s.unread = g.LastDeliveredID != last
		}
	}
	return s, last, nil
}
