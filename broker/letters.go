package broker

import (
	"context"
	"errors"
	"time"
)

// ErrNoLetters is returned by [LetterBroker.Letters] where nothing stands at the key.
var ErrNoLetters = errors.New("no such key")

// ErrInvalid is an id or a cursor that no dead letter of its structure can have.
var ErrInvalid = errors.New("invalid argument")

// A LetterBroker is a [Broker] whose dead letters can be read, moved and deleted one by one: what package deadletter works
// with.
type LetterBroker interface {
	Broker
	// Letters opens the dead letter at that full key, whose structure it reads from the server. Where nothing stands at the
	// key it is taken for what missing says; 0 makes that an error that is [ErrNoLetters]. A key that holds neither a stream
	// nor a list is an error.
	Letters(ctx context.Context, key string, missing Structure) (Letters, error)
}

// Letters are the records of one dead letter. Its methods are safe for concurrent use.
type Letters interface {
	// Structure is that of the key: a stream or a list.
	Structure() Structure
	// Len counts the records, those included that are no dead letters.
	Len(ctx context.Context) (int64, error)
	// Now is the server's clock, which the times of burials are read from.
	Now(ctx context.Context) (time.Time, error)
	// Walk goes over the records that stand there now, the oldest first, or over those with these ids. A cursor of an earlier
	// walk goes on behind where that one stopped, and ends where that one would have.
	Walk(ctx context.Context, cursor string, ids []string) (LetterWalk, error)
	// Add writes records as they are, in their order: all fields, or the raw item of a list. It returns how many of them
	// certainly stand there after an error.
	Add(ctx context.Context, letters []*Letter) (int, error)
}

// A LetterWalk is one pass over the records of a dead letter. It is used by one goroutine. Others may write and delete
// meanwhile: what stands there from the beginning to the end is seen, on a list perhaps more than once.
type LetterWalk interface {
	// Next returns the next page of at most n records; none is the end. It is not called while a page's Move or Remove runs.
	Next(ctx context.Context, n int) ([]*Letter, error)
	// Move carries out moves of records of the last page, each in one atomic step, and sets their Result and Err: Done, Gone
	// (somebody else was there first) or Unheard (a channel that nobody listens to). What has an Err stands where it stood.
	// Where the keys are in different slots of a cluster it writes first and then deletes. An error of its own is one of the
	// connection: moves without a Result may have been carried out, and may be tried again.
	Move(ctx context.Context, moves []*Move) error
	// Remove deletes records of the last page and returns how many of them it found.
	Remove(ctx context.Context, letters []*Letter) (int, error)
	// Cursor is where a later walk goes on so that it begins behind that record of the last page, or behind the whole page
	// where it is nil. It is "" before the first page.
	Cursor(behind *Letter) string
}

// Letter is one record of a dead letter.
type Letter struct {
	// ID names the record: its entry in a stream, the SHA-1 of its bytes in a list, which has no ids.
	ID string
	// Fields are the record as it stands in a stream, repeated names and order kept. A record of a list has its headers and
	// its body here under the names that a stream would give them.
	Fields []Field
	// Raw is the item of a list, envelope included; nil in a stream.
	Raw []byte
	// Whole: the item of a list is what its Fields say and no more. One of a later version is not.
	Whole bool
	// Body, HasBody and Headers are the message's, as in a [Delivery]: without the fields of burials.
	Body    []byte
	HasBody bool
	Headers []HeaderLine
	// Burial is the last one, Earlier the one before it. Burial is nil where the record is no dead letter.
	Burial, Earlier *Burial
	// Place is the transport's own.
	Place int64
}

// Header returns the value of the named header and whether the message has it.
func (l *Letter) Header(name string) (string, bool) { return lastHeader(l.Headers, name) }

// Size is about how many bytes the record has.
func (l *Letter) Size() int {
	if l.Raw != nil {
		return len(l.Raw)
	}
	n := 0
	for _, f := range l.Fields {
		n += len(f.Name) + len(f.Value)
	}
	return n
}

// Move is one record on its way out of a dead letter.
type Move struct {
	Letter *Letter
	// Edits change the headers, after the fields of the last burial are gone.
	Edits Edits
	// To has a full key. The zero Destination is back to where the message was buried from.
	To Destination
	// DelaySet is the full key of a sorted set in which the message waits for Delay before it goes there; "" is at once.
	DelaySet string
	Delay    time.Duration

	Result Result
	Err    error
}
