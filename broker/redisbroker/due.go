package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// The targets of the move script, by index of its keys.
const (
	moveLater   = -1
	moveNowhere = 0
	moveSource  = 2
	moveBuried  = 3
)

// moves takes the due members of a delay set to where they came from: it appends them to a stream, or pushes them to a
// list.
type moves struct {
	client redis.UniversalClient
	config broker.Config
	set    string
	// command writes a message: XADD or LPUSH.
	command string
	// open takes a member apart and returns what the command writes behind the key, and letter what it writes for a dead letter.
	open   func(member string) ([]any, error)
	letter func(malformed *broker.Burial, member string) []any
	// tally, unless nil, is told of each member that the target has got or that was discarded.
	tally   func()
	letters *letterBounds
	// unremoved are members that were moved in steps, the last of which failed.
	unremoved leftovers
}

// due is one member of a delay set whose time has come.
type due struct {
	member string
	target int
	// arguments are what is written behind the target's key.
	arguments []any
	// inSteps: the script that removes the member cannot write it as well. It only leases the member, which keeps the other
	// movers off while it is written and removed.
	inSteps bool
}

// moveCall is what one call of the move script moves.
type moveCall struct {
	args []any
	all  []due
}

// move writes due members to the source, in one script call for each few hundred where that can be. The next call is made
// ready while the server carries out the one before.
func (m *moves) move(ctx context.Context, members []string) error {
	if err := m.removeMoved(ctx); err != nil {
		return err
	}
	under := make(chan error, 1)
	under <- nil
	for part := range slices.Chunk(members, moveEntries) {
		b, err := m.prepare(ctx, part)
		if err = errors.Join(<-under, err); err != nil {
			return err
		}
		go func() { under <- m.send(ctx, b) }()
	}
	return <-under
}

// prepare makes a call of the move script.
func (m *moves) prepare(ctx context.Context, members []string) (*moveCall, error) {
	keys := [...]string{m.set, m.set, m.set} // a key in another slot is not the script's to touch
	source, deadLetter := m.config.Source.Key, m.config.DeadLetter
	sourceApart, deadLetterApart := apart(m.client, m.set, source), apart(m.client, m.set, deadLetter)
	if !sourceApart {
		keys[moveSource-1] = source
	}
	if deadLetter != "" && !deadLetterApart {
		keys[moveBuried-1] = deadLetter
	}
	b := &moveCall{append(moveScript.args(12*len(members), keys[:]...), milliseconds(moveLease), m.command), make([]due, len(members))}
	for i, member := range members {
		d, err := m.due(ctx, member)
		if err != nil {
			return nil, err
		}
		d.inSteps = d.target == moveSource && (sourceApart || len(d.arguments) > 1+2*wideFields) || d.target == moveBuried && deadLetterApart
		b.all[i] = d
		if d.inSteps {
			b.args = append(b.args, member, moveLater, 0)
			continue
		}
		b.args = append(append(b.args, member, d.target, len(d.arguments)), d.arguments...)
	}
	return b, nil
}

// send carries a batch out.
func (m *moves) send(ctx context.Context, b *moveCall) error {
	began := time.Now()
	reply, err := run(ctx, m.client, b.args)
	if err != nil {
		return err
	}
	leased, err := m.moved(reply, b.all)
	err = errors.Join(err, m.moveInSteps(ctx, leased, began))
	if slices.ContainsFunc(b.all, func(d due) bool { return d.target == moveBuried }) {
		_, failure := m.letters.bound(ctx, m.config.DeadLetter)
		err = errors.Join(err, failure)
	}
	return err
}

// due decides where a member goes. One that is buried is, as everything is, at a time by the server's clock.
func (m *moves) due(ctx context.Context, member string) (due, error) {
	arguments, err := m.open(member)
	switch {
	case errors.Is(err, errNewerMember):
		m.config.Logger.Warn("a delayed message was written by a later version of this library; left for a process that knows it",
			"delay_set", m.set)
		return due{member: member, target: moveLater}, nil
	case err != nil && m.config.DeadLetter == "":
		m.config.Logger.Error("a delayed message cannot be decoded and there is no dead letter; discarded",
			"delay_set", m.set, "bytes", len(member), "error", err)
		return due{member: member, target: moveNowhere}, nil
	case err != nil:
		now, timeErr := m.client.Time(ctx).Result()
		if timeErr != nil {
			return due{}, timeErr
		}
		malformed := broker.Burial{
			Reason: broker.ReasonMalformed, Detail: err.Error(), Error: err.Error(),
			Source: m.set, Group: m.config.Source.Group, Handler: m.config.Name, At: now,
		}
		return due{member: member, target: moveBuried, arguments: m.letter(&malformed, member)}, nil
	}
	return due{member: member, target: moveSource, arguments: arguments}, nil
}

// moved counts what the script buried or discarded, and returns what it leased and the first error.
func (m *moves) moved(reply any, all []due) (leased []due, failure error) {
	list, _ := reply.([]any)
	if len(list) != len(all) {
		return nil, errReply
	}
	for i, r := range list {
		switch text, _ := r.(string); {
		case text == "done" && all[i].inSteps:
			leased = append(leased, all[i])
		case text == "done":
			m.countMoved(all[i])
		case text != "gone" && failure == nil:
			failure = fmt.Errorf("%s to %q: %w", m.command, m.target(all[i]), serverError(text))
		}
	}
	return leased, failure
}

// target is the key that a member is written to.
func (m *moves) target(d due) string {
	if d.target == moveBuried {
		return m.config.DeadLetter
	}
	return m.config.Source.Key
}

func (m *moves) countMoved(d due) {
	if m.tally != nil {
		m.tally()
	}
	switch d.target {
	case moveBuried:
		m.config.Buried(broker.ReasonMalformed)
	case moveNowhere:
		m.config.Discarded(broker.ReasonMalformed)
	}
}

// moveInSteps writes members that were leased after began, and then removes them: a crash in between leaves a message
// twice and never loses it. What was certainly not written is due again at once; what may have been, once its lease has
// run out.
func (m *moves) moveInSteps(ctx context.Context, leased []due, began time.Time) error {
	// A process that stood still may have lost its leases meanwhile.
	if len(leased) == 0 || time.Since(began) > moveLease/2 {
		return nil
	}
	commands := make([]*redis.Cmd, len(leased))
	pipe := m.client.Pipeline()
	for i, d := range leased {
		commands[i] = pipe.Do(ctx, append([]any{m.command, m.target(d)}, d.arguments...)...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	var written []any
	var back []redis.Z
	var failure error
	for i, d := range leased {
		err := commands[i].Err()
		if err == nil {
			m.countMoved(d)
			written = append(written, d.member)
			continue
		}
		if failure == nil {
			failure = fmt.Errorf("%s to %q: %w", m.command, m.target(d), err)
		}
		if !mayHaveArrived(err) {
			back = append(back, redis.Z{Score: float64(time.Now().UnixMilli()), Member: d.member})
		}
	}
	if len(back) > 0 {
		failure = errors.Join(failure, m.client.ZAddXX(ctx, m.set, back...).Err())
	}
	m.unremoved.add(written)
	return errors.Join(failure, m.removeMoved(ctx))
}

// removeMoved takes the members off the delay set that stand at the source by now, and those that an error left there.
func (m *moves) removeMoved(ctx context.Context) error {
	members := m.unremoved.take()
	if len(members) == 0 {
		return nil
	}
	err := m.client.ZRem(ctx, m.set, members...).Err()
	if err != nil {
		m.unremoved.add(members)
	}
	return err
}

// leftovers are members that were moved and have to be removed. Safe for concurrent use.
type leftovers struct {
	mu      sync.Mutex
	members []any
}

func (l *leftovers) add(members []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.members = slices.Concat(l.members, members)
}

func (l *leftovers) take() []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	members := l.members
	l.members = nil
	return members
}

// streamMoves append the fields of a member to the stream.
func streamMoves(client redis.UniversalClient, config broker.Config, set string) *moves {
	return &moves{
		client: client, config: config, set: set, command: "XADD", letters: newLetterBounds(client, config, false),
		open: func(member string) ([]any, error) {
			fields, err := decodeMember([]byte(member))
			return entryArguments(fields), err
		},
		letter: func(malformed *broker.Burial, member string) []any {
			fields := []broker.Field{field(fieldPayload, member)}
			fields = appendLines(fields, "", malformed.Fields()...)
			return entryArguments(fields)
		},
	}
}

// entryArguments are what XADD takes behind the key.
func entryArguments(fields []broker.Field) []any {
	return appendFields(append(make([]any, 0, 1+2*len(fields)), "*"), fields)
}

// listMoves push the message of a member to the list. One of a later version goes there like any other: whoever reads it
// puts it off again.
func listMoves(client redis.UniversalClient, config broker.Config, set string) *moves {
	return &moves{
		client: client, config: config, set: set, command: "LPUSH", letters: newLetterBounds(client, config, true),
		open: func(member string) ([]any, error) {
			e, err := openListMember([]byte(member))
			return []any{e.seal()}, err
		},
		letter: func(malformed *broker.Burial, member string) []any {
			e := newEnvelope(malformed.Fields(), []byte(member))
			return []any{e.seal()}
		},
	}
}
