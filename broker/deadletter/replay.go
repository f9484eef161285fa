package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/millrace-go/millrace/broker"
)

var (
	// ErrReplayedTooOften refuses a message that was replayed as often as MaxReplays allows.
	ErrReplayedTooOften = errors.New("replayed too often")
	// ErrForeign refuses an entry that is no dead letter.
	ErrForeign = errors.New("the entry is no dead letter: nothing in it says that it was buried")
	// ErrUnheard refuses a message for a channel that nobody listens to.
	ErrUnheard = errors.New("nobody listens to the channel")
)

// Replay gives the records that the filter lets through another chance: each is moved, in one atomic step, from the dead
// letter to where it was buried from, the oldest first. Records that come in meanwhile are left out, so that what dies again
// at once is not replayed again.
//
// The message is the original, byte for byte, with these changes: what its last burial appended (dlq_*) is gone, the header
// "replays" is raised by one, its counters are reset (see [KeepCounters]), and on a stream the header "retry-group" names the
// group that buried it, so that no other group takes it for new (see [AllGroups]). history stays.
//
// A record that cannot be replayed stays where it is, is counted as refused, and does not end the call; a server that takes no
// messages at all (it is full, or a replica) does, and so does a user who may not delete from the dead letter. After an error, or the
// end of ctx (whose cause is the error then), the report says what has been done: calling again, with its cursor or without,
// goes on. Nothing is lost and nothing is written twice, even if this process is killed, and however many replay at once.
func (q *Queue) Replay(ctx context.Context, filter Filter, options ...Option) (Report, error) {
	p := &plan{maxReplays: DefaultMaxReplays}
	for _, o := range options {
		if o != nil {
			o.applyReplay(p)
		}
	}
	if filter.Foreign {
		p.refuse("entries that are no dead letters are never replayed; leave Foreign out of the filter")
	}
	r := &replay{run: run{queue: q, plan: p}}
	r.step = r.move
	return r.do(ctx, filter)
}

// replay is one call of Replay.
type replay struct{ run }

// move moves records of the last page.
func (r *replay) move(ctx context.Context, walk broker.LetterWalk, letters []*broker.Letter) error {
	moves := make([]*broker.Move, 0, len(letters))
	for _, l := range letters {
		m, err := r.prepare(l)
		switch {
		case errors.Is(err, ErrForeign) && len(r.filter.IDs) == 0:
			r.report.Foreign++
		case err != nil:
			r.report.refuse(l.ID, err)
		default:
			moves = append(moves, m)
		}
	}
	if r.plan.dryRun {
		r.report.Done += len(moves)
		return nil
	}
	err := walk.Move(ctx, moves)
	for _, m := range moves {
		switch {
		case m.Err != nil:
			r.report.refuse(m.Letter.ID, m.Err)
		case m.Result == broker.Done:
			r.report.Done++
		case m.Result == broker.Gone:
			r.report.Gone++
		case m.Result == broker.Unheard:
			r.report.refuse(m.Letter.ID, fmt.Errorf("%w %q", ErrUnheard, r.plan.to.Key()))
		}
	}
	return err
}

// prepare says where a record goes and what changes on the way.
func (r *replay) prepare(l *broker.Letter) (*broker.Move, error) {
	if l.Burial == nil {
		return nil, ErrForeign
	}
	before := replays(l)
	if before >= r.plan.maxReplays {
		return nil, fmt.Errorf("%w: %d times, and %d are allowed; raise MaxReplays, or purge it", ErrReplayedTooOften, before, r.plan.maxReplays)
	}
	m := &broker.Move{Letter: l, Delay: r.plan.delay}
	if r.plan.delaySet != "" {
		m.DelaySet = r.queue.broker.ResolveKey(r.plan.delaySet)
	}
	back := true
	if to := r.plan.to; to.Structure() != 0 {
		m.To = withKey(to, r.queue.broker.ResolveKey(to.Key()))
		back = m.To.Structure() == broker.StructureStream && m.To.Key() == l.Burial.Source
	}
	r.edit(m, before, back)
	return m, nil
}

func withKey(to broker.Destination, key string) broker.Destination {
	switch {
	case to.Structure() == broker.StructureStream:
		return broker.Stream(key)
	case to.Structure() == broker.StructureList:
		return broker.List(key)
	case to.Sharded():
		return broker.ShardedChannel(key)
	default:
		return broker.Channel(key)
	}
}

// edit says how the headers change. back: it goes to where it was buried from.
func (r *replay) edit(m *broker.Move, replays int, back bool) {
	b := m.Letter.Burial
	set := func(name, value string) {
		m.Edits.Set = append(m.Edits.Set, broker.HeaderLine{Name: name, Value: value})
	}
	set(broker.HeaderReplays, strconv.Itoa(replays+1))
	m.Edits.Remove = []string{broker.HeaderRetryGroup}
	if back && !r.plan.allGroups && b.Group != "" {
		set(broker.HeaderRetryGroup, b.Group)
	}
	if r.plan.keepCounters {
		if b.Losses > 0 {
			set(broker.HeaderLosses, strconv.FormatInt(b.Losses, 10))
		}
		return
	}
	m.Edits.Remove = slices.Concat(m.Edits.Remove, []string{broker.HeaderLosses, broker.HeaderUnknownSince})
	if earlier := m.Letter.Earlier; earlier != nil && earlier.Attempts > 0 {
		// It becomes the dead letter again that it was, with the failures that it had died of.
		set(broker.HeaderRetryCount, strconv.FormatInt(earlier.Attempts, 10))
		return
	}
	m.Edits.Remove = append(m.Edits.Remove, broker.HeaderRetryCount)
}
