// Package deadletter works with what was buried: it lists, counts, replays, deletes, exports and imports the records of a
// dead letter, a stream or a list.
//
//	letters := deadletter.Open(b, "refunds.dlq")
//	for record, err := range letters.All(ctx, deadletter.Filter{Reason: broker.ReasonMaxAttempts}) { … }
//	report, err := letters.Replay(ctx, deadletter.Filter{Handler: "refunds.ProcessRefund"}, deadletter.Rate(500))
//
// Records are read in pages, so that memory does not depend on how many there are. A record is replayed or deleted in one
// atomic step: however often a replay is interrupted, and however many run at once, no record is lost and none is written
// twice. (On a cluster, where source and dead letter have no hash tag in common, it is written first and then deleted, one at
// a time: a crash in between leaves it in both.)
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/millrace-go/millrace/broker"
)

var (
	// ErrNoKey is what every method returns (wrapped, with the key) where nothing stands at the dead letter's key. A list
	// that has been emptied is no key any more; a stream stays.
	ErrNoKey = broker.ErrNoLetters
	// ErrNoRecord is what [Queue.Get] returns (wrapped) where no record has the id.
	ErrNoRecord = errors.New("no such record")
	// ErrInvalid is what every method returns (wrapped, with the reason) where the call makes no sense whatever the server
	// holds: a filter, an option, an id or a cursor. Nothing was done then.
	ErrInvalid = broker.ErrInvalid
)

// Queue is one dead letter. Its methods are safe for concurrent use, by any number of processes.
type Queue struct {
	broker broker.Broker
	key    string
}

// Open names a dead letter: the key that app.DeadLetter has, without the broker's prefix. The broker is one of redisbroker's
// or the embedded one, and stays the caller's to close. Open does no I/O; whether the key holds what it should is found
// out by the first call, and once again by every call after it. A key that holds neither a stream nor a list is an error
// that says what it holds; no key is [ErrNoKey].
func Open(b broker.Broker, key string) *Queue { return &Queue{b, key} }

// Key returns the full key, prefix included.
func (q *Queue) Key() string { return q.broker.ResolveKey(q.key) }

// Len counts the records (XLEN, LLEN), those included that are no dead letters.
func (q *Queue) Len(ctx context.Context) (int64, error) {
	letters, err := q.open(ctx, 0)
	if err != nil {
		return 0, err
	}
	return letters.Len(ctx)
}

// Get returns one record by its [Record.ID]. One that is not there is [ErrNoRecord]. In a list it is looked for from the
// oldest on.
func (q *Queue) Get(ctx context.Context, id string) (Record, error) {
	for record, err := range q.All(ctx, Filter{IDs: []string{id}}) {
		return record, err
	}
	return Record{}, fmt.Errorf("dead letter %q: record %s: %w", q.Key(), id, ErrNoRecord)
}

// All iterates over the records that the filter lets through, the oldest first, in pages; those that are no dead letters
// included (see [Record.Foreign]). It ends after an error, which it yields with a zero Record. Records that come in
// meanwhile are left out. One that stands there all the time is seen; on a list that others delete from at the same time
// perhaps twice.
func (q *Queue) All(ctx context.Context, filter Filter) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for p, err := range q.pages(ctx, filter, "") {
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, l := range p.letters {
				if record := newRecord(l); p.matches(record) && !yield(record.clone(), nil) {
					return
				}
			}
		}
	}
}

// open opens the dead letter on the server.
func (q *Queue) open(ctx context.Context, missing broker.Structure) (broker.Letters, error) {
	lb, ok := q.broker.(broker.LetterBroker)
	if !ok {
		return nil, fmt.Errorf("dead letter %q: a %T keeps no dead letters; open it with a broker of redisbroker or embedded", q.key, q.broker)
	}
	if q.key == "" {
		return nil, errors.New("deadletter.Open: the key is empty; name the dead letter of a mount")
	}
	if err := errors.Join(lb.Problems()...); err != nil {
		return nil, err
	}
	return lb.Letters(ctx, q.Key(), missing)
}

const (
	// The first page is small, so that a look at the first records costs little; the next ones grow.
	firstPage, longestPage = 64, 256
	// pageBytes is about how many bytes a page should have.
	pageBytes = 2 << 20
)

// page is one page of records, and the walk that brought it.
type page struct {
	*condition
	walk    broker.LetterWalk
	letters []*broker.Letter
}

// pages walks over the dead letter from the cursor on.
func (q *Queue) pages(ctx context.Context, filter Filter, cursor string) iter.Seq2[*page, error] {
	return func(yield func(*page, error) bool) {
		p, err := q.walk(ctx, filter, cursor)
		if err != nil {
			yield(nil, err)
			return
		}
		for size := firstPage; ; {
			if p.letters, err = p.walk.Next(ctx, size); err != nil {
				yield(nil, err)
				return
			}
			if len(p.letters) == 0 || !yield(p, nil) {
				return
			}
			size = p.next(size)
		}
	}
}

// next is how long the next page may be.
func (p *page) next(size int) int {
	bytes := 0
	for _, l := range p.letters {
		bytes += l.Size()
	}
	fits := pageBytes * len(p.letters) / max(bytes, 1)
	return max(1, min(2*size, longestPage, fits))
}

func (q *Queue) walk(ctx context.Context, filter Filter, cursor string) (*page, error) {
	if err := filter.problem(); err != nil {
		return nil, fmt.Errorf("dead letter %q: %w: %w", q.key, ErrInvalid, err)
	}
	letters, err := q.open(ctx, 0)
	if err != nil {
		return nil, err
	}
	c, err := filter.condition(ctx, q, letters)
	if err != nil {
		return nil, err
	}
	walk, err := letters.Walk(ctx, cursor, filter.IDs)
	if err != nil {
		return nil, err
	}
	return &page{condition: c, walk: walk}, nil
}
