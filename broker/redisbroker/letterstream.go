package redisbroker

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-go/millrace/broker"
)

// streamLetters are the dead letters in a stream.
type streamLetters struct{ letters }

func (l *streamLetters) Structure() broker.Structure { return broker.StructureStream }

// Len is XLEN.
func (l *streamLetters) Len(ctx context.Context) (int64, error) {
	n, err := l.client.XLen(ctx, l.key).Result()
	return n, l.failed("XLEN", err)
}

// Add is XADD.
func (l *streamLetters) Add(ctx context.Context, records []*broker.Letter) (int, error) {
	return l.add(ctx, records, func(r *broker.Letter) ([]any, error) {
		fields := r.Fields
		if len(fields) == 0 {
			fields = ListLetter(r.Raw).Fields
		}
		if isLater(r.Raw) {
			return nil, errLaterItem
		}
		return append([]any{"XADD", l.key}, entryArguments(fields)...), nil
	})
}

// Walk ends at the entry that is the last one now. A cursor is the id of the last record seen, a slash, and that of the last one to be seen.
func (l *streamLetters) Walk(ctx context.Context, cursor string, ids []string) (broker.LetterWalk, error) {
	w := &streamWalk{named: len(ids) > 0}
	w.mover = newLetterMover(&l.letters, broker.StructureStream, w)
	w.ids = slices.SortedFunc(slices.Values(ids), compareIDs)
	for _, id := range ids {
		if !isEntryID(id) {
			return nil, fmt.Errorf("dead letter %q: %w: %q is no id of a record; a stream's are like 1526919030474-0", l.key, broker.ErrInvalid, id)
		}
	}
	if cursor != "" {
		seen, end, ok := strings.Cut(cursor, "/")
		if !ok || !isEntryID(seen) || !isEntryID(end) {
			return nil, fmt.Errorf("dead letter %q: %w: %q is no cursor of a stream; give the one that the report has", l.key, broker.ErrInvalid, cursor)
		}
		w.seen, w.end = seen, end
		return w, nil
	}
	last, err := l.client.XRevRangeN(ctx, l.key, "+", "-", 1).Result()
	if err != nil {
		return nil, l.failed("XREVRANGE", err)
	}
	if len(last) > 0 {
		w.end = last[0].ID
	}
	return w, nil
}

func isEntryID(id string) bool {
	ms, seq, ok := strings.Cut(id, "-")
	return ok && isUint(ms) && isUint(seq)
}

func isUint(s string) bool {
	_, err := strconv.ParseUint(s, 10, 64)
	return err == nil
}

// streamWalk reads pages with XRANGE. Its place is an id, so that nothing that others do moves it.
type streamWalk struct {
	mover *letterMover
	// seen is the last id of the pages so far, "" before the first; end is the last one to be seen, "" where there is none.
	seen, end string
	// ids are those that are still to be read where only they are wanted.
	ids   []string
	named bool
}

func (w *streamWalk) Next(ctx context.Context, n int) ([]*broker.Letter, error) {
	if w.named {
		return w.nextNamed(ctx, n)
	}
	if w.end == "" {
		return nil, nil
	}
	l := w.mover.from
	begin := "-"
	if w.seen != "" {
		var ok bool
		if begin, ok = nextID(w.seen); !ok {
			return nil, nil
		}
	}
	if compareIDs(begin, w.end) > 0 {
		return nil, nil
	}
	page, err := l.entries(ctx, begin, w.end, n)
	if err != nil {
		return nil, err
	}
	if len(page) > 0 {
		w.seen = page[len(page)-1].ID
	}
	return page, nil
}

// nextNamed reads the records that are wanted by name, each with an XRANGE of its own.
func (w *streamWalk) nextNamed(ctx context.Context, n int) (page []*broker.Letter, err error) {
	for len(w.ids) > 0 && len(page) < n {
		id := w.ids[0]
		w.ids = w.ids[1:]
		if w.seen != "" && compareIDs(id, w.seen) <= 0 {
			continue // one that was named twice, or that an earlier walk has seen
		}
		found, err := w.mover.from.entries(ctx, id, id, 1)
		if err != nil {
			return nil, err
		}
		w.seen = id
		page = append(page, found...)
	}
	return page, nil
}

// entries reads at most n records.
func (l *letters) entries(ctx context.Context, begin, end string, n int) ([]*broker.Letter, error) {
	data, err := rawReply(ctx, l.client, []any{"XRANGE", l.key, begin, end, "COUNT", n})
	if err != nil {
		return nil, l.failed("XRANGE", err)
	}
	r := &reply{data: data}
	length, err := r.length()
	if err != nil {
		return nil, l.failed("XRANGE", err)
	}
	page := make([]*broker.Letter, 0, max(length, 0))
	var room []broker.Field
	for range length {
		if _, err := r.length(); err != nil {
			return nil, l.failed("XRANGE", err)
		}
		id, err := r.text()
		if err != nil {
			return nil, l.failed("XRANGE", err)
		}
		start := len(room)
		if room, _, err = r.fields(room); err != nil {
			return nil, l.failed("XRANGE", err)
		}
		page = append(page, Letter(string(id), room[start:len(room):len(room)]))
	}
	return page, nil
}

// nextID is the id behind another one, which only the very last one lacks.
func nextID(id string) (string, bool) {
	ms, seq := splitID(id)
	switch {
	case seq < math.MaxUint64:
		seq++
	case ms < math.MaxUint64:
		ms, seq = ms+1, 0
	default:
		return "", false
	}
	return strconv.FormatUint(ms, 10) + "-" + strconv.FormatUint(seq, 10), true
}

func (w *streamWalk) Cursor(behind *broker.Letter) string {
	seen := w.seen
	if behind != nil {
		seen = behind.ID
	}
	if seen == "" {
		return ""
	}
	return seen + "/" + w.end
}

func (w *streamWalk) Move(ctx context.Context, moves []*broker.Move) error {
	return w.mover.move(ctx, moves)
}

func (w *streamWalk) scripts() (move, claim *script) { return letterMoveScript, letterClaimScript }

func (w *streamWalk) find(l *broker.Letter) []any { return []any{l.ID} }

func (w *streamWalk) away(*broker.Letter) {}

func (w *streamWalk) names() bool { return true }

// Remove is XDEL.
func (w *streamWalk) Remove(ctx context.Context, records []*broker.Letter) (int, error) {
	if len(records) == 0 {
		return 0, nil
	}
	ids := make([]string, len(records))
	for i, r := range records {
		ids[i] = r.ID
	}
	n, err := w.mover.from.client.XDel(ctx, w.mover.from.key, ids...).Result()
	return int(n), w.mover.from.failed("XDEL", err)
}
