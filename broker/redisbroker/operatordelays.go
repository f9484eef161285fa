package redisbroker

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// Delayed is one message in a delay set.
type Delayed struct {
	// Member is the message as it stands in the set.
	Member []byte
	// Due is when it is to be moved, by the server's clock.
	Due time.Time
	// Message is the member taken apart: its Fault is set where that cannot be done, and it is Newer where a later version of
	// the library wrote it. It has no ID.
	Message *broker.Delivery
	// Structure is what it goes back to, a stream or a list, 0 where the member does not tell.
	Structure broker.Structure
	// Source, Group and EntryID are the stream or list that it was taken from, the group and the entry, each "" where the
	// member does not tell: one that was published with broker.After names none.
	Source, Group, EntryID string
}

// delayedPage is how many members of a set are read at a time.
const delayedPage = 100

// Delayed returns the messages of the delay set, those that are due first at first, a page at a time. What comes to the set
// or leaves it meanwhile may or may not be among them.
func (o *Operator) Delayed(ctx context.Context, set string) iter.Seq2[Delayed, error] {
	return func(yield func(Delayed, error) bool) {
		from, seen := "-inf", int64(0) // seen: how many of those with the score from were returned
		for {
			page, err := o.client.ZRangeByScoreWithScores(ctx, set,
				&redis.ZRangeBy{Min: from, Max: "+inf", Offset: seen, Count: delayedPage}).Result()
			if err != nil {
				yield(Delayed{}, fmt.Errorf("delay set %q: %w", set, err))
				return
			}
			for _, z := range page {
				member, _ := z.Member.(string)
				d := OpenDelayed([]byte(member))
				d.Due = time.UnixMicro(int64(z.Score * 1000)).UTC()
				if !yield(d, nil) {
					return
				}
				if score := strconv.FormatFloat(z.Score, 'f', -1, 64); score != from {
					from, seen = score, 0
				}
				seen++
			}
			if len(page) < delayedPage {
				return
			}
		}
	}
}

// IsDelayed tells whether the bytes are a member of a delay set of this library's.
func IsDelayed(member []byte) bool { return bytes.HasPrefix(member, memberMark) }

// OpenDelayed takes a member of a delay set apart. It cannot fail, see [Delayed].
func OpenDelayed(data []byte) Delayed {
	d := Delayed{Member: data}
	_, elements, _, ok := cborHead(bytes.TrimPrefix(data, memberMark))
	if ok && elements == 4 && IsDelayed(data) {
		d.openOfList()
	} else {
		d.openOfStream()
	}
	return d
}

// openOfStream takes [version, fields, key] apart; the key is stream|group|id|count.
func (d *Delayed) openOfStream() {
	fields, err := decodeMember(d.Member)
	if err != nil {
		d.Message = &broker.Delivery{Body: d.Member, HasBody: true, Fault: err}
		if err == errNewerMember { //nolint:errorlint // it is never wrapped
			d.Message.Fault, d.Message.Newer = nil, true
		}
		return
	}
	d.Message, d.Structure = delivery("", 1, fields), broker.StructureStream
	rest, _, ok := cutLast(memberKey(d.Member))
	rest, id, ok2 := cutLast(rest)
	stream, group, ok3 := strings.Cut(rest, "|")
	// Names may hold the bar themselves; then nobody knows where one ends.
	if ok && ok2 && ok3 && !strings.Contains(group, "|") {
		d.Source, d.Group, d.EntryID = stream, group, id
	}
}

// openOfList takes [version, headers, body, key] apart; the key is list|id.
func (d *Delayed) openOfList() {
	e, err := openListMember(d.Member)
	if err != nil {
		d.Message = &broker.Delivery{Body: d.Member, HasBody: true, Fault: err}
		return
	}
	d.Message, d.Structure = envelopeDelivery("", e.seal()), broker.StructureList
	if key := memberKey(d.Member); !strings.HasPrefix(key, publishedKey) {
		d.Source, d.EntryID, _ = cutLast(key)
	}
}

// memberKey is the last element of a member's array, "" where it is none.
func memberKey(data []byte) string {
	var elements []cbor.RawMessage
	if err := cbor.Unmarshal(bytes.TrimPrefix(data, memberMark), &elements); err != nil || len(elements) == 0 {
		return ""
	}
	var key string
	if err := cbor.Unmarshal(elements[len(elements)-1], &key); err != nil {
		return ""
	}
	return key
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '|')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// DeferredSet is where messages of the stream or list wait whose task nobody knows yet, unless its subscription has a delay
// set; for a reliable list without a delay set, every delay.
func DeferredSet(key string) string { return deferredSet(key) }

// MoveDelayed moves members of the delay set to the stream or list now, due or not, and returns how many. It is the step
// that subscriptions take when they are due: a member that is not in the set any more is left out, and none is moved
// twice, whoever else moves meanwhile. A member that cannot be taken apart, or that a later version of the library wrote,
// stays. A user who may not do all of it moves nothing. On a cluster where set and target are in different slots, each is
// made due, written and removed: a crash in between leaves a message twice and loses none.
func (o *Operator) MoveDelayed(ctx context.Context, set string, to broker.Destination, members [][]byte) (moved int, err error) {
	config := broker.Config{
		Source: broker.Source{Structure: to.Structure(), Key: to.Key()},
		Logger: slog.New(slog.DiscardHandler), Discarded: func(string) {}, Buried: func(string) {},
	}
	var m *moves
	switch to.Structure() {
	case broker.StructureStream:
		m = streamMoves(o.client, config, set)
	case broker.StructureList:
		m = listMoves(o.client, config, set)
	default:
		return 0, fmt.Errorf("delayed messages go to a stream or a list, not to a %s", to.Structure())
	}
	m.tally = func() { moved++ }
	if err := o.mayMove(ctx, set, to); err != nil {
		return 0, fmt.Errorf("moving from delay set %q to %s: %w", set, to, err)
	}
	var batch []string
	size := 0
	flush := func() error {
		defer func() { batch, size = nil, 0 }()
		if len(batch) == 0 {
			return nil
		}
		if apart(o.client, set, to.Key()) {
			if err := o.makeDue(ctx, set, batch); err != nil {
				return err
			}
		}
		return m.move(ctx, batch)
	}
	for _, member := range members {
		if _, err := m.open(string(member)); err != nil {
			continue
		}
		if len(batch) == dueEntries || size+len(member) > dueBytes {
			if err := flush(); err != nil {
				return moved, fmt.Errorf("moving from delay set %q to %s: %w", set, to, err)
			}
		}
		batch, size = append(batch, string(member)), size+len(member)
	}
	if err := flush(); err != nil {
		return moved, fmt.Errorf("moving from delay set %q to %s: %w", set, to, err)
	}
	return moved, nil
}

// mayMove refuses what the user may not finish: a script is not rolled back, and what is written and not removed would be
// there twice.
func (o *Operator) mayMove(ctx context.Context, set string, to broker.Destination) error {
	write := []string{"XADD", to.Key(), "*", "", ""}
	if to.Structure() == broker.StructureList {
		write = []string{"LPUSH", to.Key(), ""}
	}
	refused, err := refusedCommands(ctx, o.client, [][]string{
		write, {"TIME"}, {"ZMSCORE", set, ""}, {"ZADD", set, "0", ""}, {"ZREM", set, ""},
	})
	if err == nil && len(refused) > 0 {
		err = serverError("NOPERM the user may not run " + strings.Join(refused, ", "))
	}
	return err
}

// makeDue has members count as due: a mover leases only what is.
func (o *Operator) makeDue(ctx context.Context, set string, members []string) error {
	now, err := o.client.Time(ctx).Result()
	if err != nil {
		return err
	}
	due := make([]redis.Z, len(members))
	for i, member := range members {
		due[i] = redis.Z{Score: float64(now.UnixMilli()), Member: member}
	}
	return o.client.ZAddArgs(ctx, set, redis.ZAddArgs{XX: true, LT: true, Members: due}).Err()
}
