package redisbroker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-go/millrace/broker"
)

// listLetters are the dead letters in a list.
type listLetters struct{ letters }

func (l *listLetters) Structure() broker.Structure { return broker.StructureList }

// Len is LLEN.
func (l *listLetters) Len(ctx context.Context) (int64, error) {
	n, err := l.client.LLen(ctx, l.key).Result()
	return n, l.failed("LLEN", err)
}

// Add is LPUSH.
func (l *listLetters) Add(ctx context.Context, records []*broker.Letter) (int, error) {
	return l.add(ctx, records, func(r *broker.Letter) ([]any, error) {
		if r.Raw != nil {
			return []any{"LPUSH", l.key, r.Raw}, nil
		}
		e, err := envelopeOf(r.Fields)
		return []any{"LPUSH", l.key, e.seal()}, err
	})
}

// Walk begins at the right, where the oldest item is, and leaves out what is pushed from now on. A cursor is how many records
// were seen and left, the time at which the walk began (ms), and the id of the last record seen.
func (l *listLetters) Walk(ctx context.Context, cursor string, _ []string) (broker.LetterWalk, error) {
	w := &listWalk{list: &l.letters}
	w.mover = newLetterMover(w.list, broker.StructureList, w)
	pipe := l.client.Pipeline()
	length, now := pipe.LLen(ctx, l.key), pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, l.failed("LLEN", err)
	}
	// The time of a burial is rounded up to the millisecond.
	w.length, w.began = length.Val(), now.Val().UnixMilli()+1
	if cursor != "" {
		if err := w.resume(cursor); err != nil {
			return nil, fmt.Errorf("dead letter %q: %w: %q is no cursor of a list; give the one that the report has", l.key, broker.ErrInvalid, cursor)
		}
	}
	return w, nil
}

const (
	// seenItems is how many of the last items a walk remembers, and seenBack how far back it looks for them.
	seenItems, seenBack = 512, 2048
)

// listWalk reads pages with LRANGE. A list has no ids, and a place in it changes whenever somebody takes an item off: the walk
// remembers what it has seen last, and looks for it when it is not where it was. Where nothing of it is left, it begins anew.
type listWalk struct {
	list  *letters
	mover *letterMover
	// seen is how many items to the right of the next page were seen and left; last are the ids of the last of them.
	seen int64
	last []string
	// length is how many items there are at most that stood there when the walk began, at that time of the server.
	length, began int64

	page []*broker.Letter
	gone []bool
}

func (w *listWalk) Next(ctx context.Context, n int) ([]*broker.Letter, error) {
	w.turnPage()
	for w.seen < w.length {
		page, found, err := w.read(ctx, min(int64(n), w.length-w.seen))
		if err != nil {
			return nil, err
		}
		if !found {
			if err := w.lookBack(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if len(page) == 0 {
			return nil, nil
		}
		w.page, w.gone = page, make([]bool, len(page))
		for i, l := range page {
			l.Place = int64(i)
		}
		old := slices.DeleteFunc(slices.Clone(page), func(l *broker.Letter) bool {
			return l.Burial != nil && l.Burial.At.UnixMilli() > w.began
		})
		if len(old) > 0 {
			return old, nil
		}
		w.turnPage()
	}
	return nil, nil
}

// turnPage leaves the page behind.
func (w *listWalk) turnPage() {
	for i, l := range w.page {
		if w.gone[i] {
			w.length--
			continue
		}
		w.seen++
		w.last = append(w.last, l.ID)
	}
	if extra := len(w.last) - seenItems; extra > 0 {
		w.last = slices.Delete(w.last, 0, extra)
	}
	w.page, w.gone = nil, nil
}

// read reads n items to the left of those that were seen, and finds out whether the last one of those is still in its place.
func (w *listWalk) read(ctx context.Context, n int64) (page []*broker.Letter, found bool, err error) {
	overlap := min(w.seen, 1)
	if page, err = w.items(ctx, w.seen-overlap, w.seen+n); err != nil || overlap == 0 {
		return page, true, err
	}
	if len(page) == 0 || page[0].ID != w.last[len(w.last)-1] {
		return nil, false, nil
	}
	return page[1:], true, nil
}

// lookBack looks for the last item that was seen and is still there.
func (w *listWalk) lookBack(ctx context.Context) error {
	begin := max(0, w.seen-1-seenBack)
	items, err := w.items(ctx, begin, w.seen-1)
	if err != nil {
		return err
	}
	places := make(map[string]int64, len(items))
	for i, l := range slices.Backward(items) {
		places[l.ID] = begin + int64(i)
	}
	for i, id := range slices.Backward(w.last) {
		if place, ok := places[id]; ok {
			w.seen, w.last = place+1, w.last[:i+1]
			return nil
		}
	}
	w.seen, w.last = 0, nil
	return nil
}

// items reads the items between two places, counted from the right.
func (w *listWalk) items(ctx context.Context, begin, end int64) ([]*broker.Letter, error) {
	if begin >= end {
		return nil, nil
	}
	data, err := rawReply(ctx, w.list.client, []any{"LRANGE", w.list.key, -end, -begin - 1})
	if err != nil {
		return nil, w.list.failed("LRANGE", err)
	}
	all, err := items(data)
	if err != nil {
		return nil, w.list.failed("LRANGE", err)
	}
	letters := make([]*broker.Letter, 0, len(all))
	for _, item := range slices.Backward(all) {
		letters = append(letters, ListLetter(item))
	}
	return letters, nil
}

// behind are how many items there are up to one of the page, without those that are gone, and the id of the last of them.
func (w *listWalk) behind(l *broker.Letter) (seen int64, last string) {
	seen, end := w.seen, len(w.page)
	if len(w.last) > 0 {
		last = w.last[len(w.last)-1]
	}
	if l != nil {
		end = int(l.Place) + 1
	}
	for i, l := range w.page[:end] {
		if !w.gone[i] {
			seen, last = seen+1, l.ID
		}
	}
	return seen, last
}

func (w *listWalk) Cursor(behind *broker.Letter) string {
	seen, last := w.behind(behind)
	return strconv.FormatInt(seen, 10) + "/" + strconv.FormatInt(w.began, 10) + "/" + last
}

func (w *listWalk) resume(cursor string) (err error) {
	seen, rest, _ := strings.Cut(cursor, "/")
	began, last, ok := strings.Cut(rest, "/")
	if w.seen, err = strconv.ParseInt(seen, 10, 64); err != nil {
		return err
	}
	if w.began, err = strconv.ParseInt(began, 10, 64); err != nil {
		return err
	}
	if !ok || w.seen < 0 || (w.seen > 0) != (last != "") {
		return errReply
	}
	if last != "" {
		w.last = []string{last}
	}
	return nil
}

func (w *listWalk) Move(ctx context.Context, moves []*broker.Move) error {
	return w.mover.move(ctx, moves)
}

// Remove deletes items in scripts, as a move does that writes nothing.
func (w *listWalk) Remove(ctx context.Context, records []*broker.Letter) (int, error) {
	deletions := make([]*outgoing, len(records))
	for i, l := range records {
		deletions[i] = &outgoing{Move: &broker.Move{Letter: l}, key: w.list.key, bytes: l.Size()}
	}
	err := w.mover.calls(ctx, deletions)
	n := 0
	for _, d := range deletions {
		if d.Result == broker.Done {
			n++
		}
	}
	return n, err
}

func (w *listWalk) scripts() (move, claim *script) {
	return letterMoveItemScript, letterClaimItemScript
}

// find are an item's index from the right, and the item.
func (w *listWalk) find(l *broker.Letter) []any {
	before := w.seen
	for _, gone := range w.gone[:l.Place] {
		if !gone {
			before++
		}
	}
	return []any{-before - 1, l.Raw}
}

func (w *listWalk) away(l *broker.Letter) { w.gone[l.Place] = true }

func (w *listWalk) names() bool { return false }
