package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// letterMover moves the records of one walk.
type letterMover struct {
	from      *letters
	structure broker.Structure
	// held is what TYPE answered for a source.
	held map[string]string
}

func newLetterMover(from *letters, structure broker.Structure) *letterMover {
	return &letterMover{from: from, structure: structure, held: make(map[string]string)}
}

// outgoing is a move and the command that writes it: [command, key, arguments...].
type outgoing struct {
	*broker.Move
	command string
	// key is "" where the command's first argument is a channel.
	key  string
	args []any
	// heard: an answer of 0 means that nobody received it.
	heard bool
	bytes int
}

// move carries the moves out: those that a script can do in calls of at most a hundred records, and the others one by one.
func (m *letterMover) move(ctx context.Context, moves []*broker.Move) error {
	if err := m.look(ctx, moves); err != nil {
		return err
	}
	var whole, inSteps []*outgoing
	for _, mv := range moves {
		mv.Result, mv.Err = 0, nil
		out, err := m.prepare(mv)
		switch {
		case err != nil:
			mv.Err = err
		case out.key != "" && apart(m.from.client, m.from.key, out.key), len(out.args) > 2*wideFields:
			inSteps = append(inSteps, out)
		default:
			whole = append(whole, out)
		}
	}
	for len(whole) > 0 {
		n, bytes := 0, 0
		for n < len(whole) && n < callEntries && (n == 0 || bytes+whole[n].bytes <= callBytes) {
			bytes += whole[n].bytes
			n++
		}
		if err := m.call(ctx, whole[:n]); err != nil {
			return err
		}
		whole = whole[n:]
	}
	for _, out := range inSteps {
		if err := m.step(ctx, out); err != nil {
			return err
		}
	}
	return nil
}

// call moves records in one script.
func (m *letterMover) call(ctx context.Context, batch []*outgoing) error {
	keys := []string{m.from.key}
	var arguments []any
	for _, out := range batch {
		index, heard := 0, 0
		if out.key != "" {
			if index = slices.Index(keys, out.key); index < 0 {
				index, keys = len(keys), append(keys, out.key)
			}
			index++ // Lua counts from 1
		}
		if out.heard {
			heard = 1
		}
		arguments = append(arguments, out.Letter.ID, 3+len(out.args), out.command, index, heard)
		arguments = append(arguments, out.args...)
	}
	reply, err := letterMoveScript.runOnce(ctx, m.from.client, append(letterMoveScript.args(len(arguments), keys...), arguments...))
	if err != nil {
		return m.from.failed("moving records", err)
	}
	statuses, _ := reply.([]any)
	if len(statuses) != len(batch) {
		return m.from.failed("moving records", errReply)
	}
	for i, out := range batch {
		text, _ := statuses[i].(string)
		out.answered(text)
	}
	return nil
}

func (o *outgoing) answered(status string) {
	switch status {
	case "done":
		o.Result = broker.Done
	case "gone":
		o.Result = broker.Gone
	case "unheard":
		o.Result = broker.Unheard
	default:
		o.Err = o.failed(serverError(status))
	}
}

func (o *outgoing) failed(err error) error {
	return fmt.Errorf("record %s to %q: %w", o.Letter.ID, o.target(), err)
}

func (o *outgoing) target() any {
	if o.key == "" {
		return o.args[0]
	}
	return o.key
}

// step moves one record that no script can: it writes, and then deletes. A crash in between leaves both.
func (m *letterMover) step(ctx context.Context, out *outgoing) error {
	there, err := m.from.entries(ctx, out.Letter.ID, out.Letter.ID, 1)
	if err != nil {
		return err
	}
	if len(there) == 0 {
		out.Result = broker.Gone
		return nil
	}
	args := append([]any{out.command, out.key}, out.args...)
	if out.command == "ZADD" {
		args = append(afterScript.args(2, out.key), out.args...)
	}
	reply, err := run(ctx, m.from.client, args)
	if text, ok := reply.(string); err == nil && ok && out.command == "ZADD" && text != "done" {
		err = serverError(text)
	}
	if err != nil {
		if isRefused(err) {
			out.Err = out.failed(err)
			return nil
		}
		return out.failed(err)
	}
	if err := m.from.client.XDel(ctx, m.from.key, out.Letter.ID).Err(); err != nil {
		return m.from.failed("XDEL", err)
	}
	out.Result = broker.Done
	return nil
}

// look asks for the TYPE of every source that was not asked for yet, in one round trip.
func (m *letterMover) look(ctx context.Context, moves []*broker.Move) error {
	types := make(map[string]*redis.StatusCmd)
	pipe := m.from.client.Pipeline()
	for _, mv := range moves {
		if mv.To.Structure() != 0 || mv.Letter.Burial == nil {
			continue
		}
		source := mv.Letter.Burial.Source
		if _, known := m.held[source]; !known && types[source] == nil && source != "" {
			types[source] = pipe.Type(ctx, source)
		}
	}
	if len(types) == 0 {
		return nil
	}
	if _, err := pipe.Exec(ctx); err != nil && !isRefused(err) {
		return m.from.failed("TYPE of the sources", err)
	}
	for source, held := range types {
		if err := held.Err(); err != nil {
			return m.from.failed(fmt.Sprintf("TYPE of the source %q", source), err)
		}
		m.held[source] = held.Val()
	}
	return nil
}

var errNoSource = errors.New("the record does not say where it was buried from; name a target")

// destination is where a move goes: the structure of its target, 0 for the delay set that it came from, and its key.
func (m *letterMover) destination(mv *broker.Move) (broker.Destination, error) {
	if mv.To.Structure() != 0 {
		return mv.To, nil
	}
	b := mv.Letter.Burial
	if b == nil || b.Source == "" {
		return broker.Destination{}, errNoSource
	}
	switch held := m.held[b.Source]; held {
	case redisTypes[broker.StructureStream]:
		return broker.Stream(b.Source), nil
	case redisTypes[broker.StructureList]:
		return broker.List(b.Source), nil
	case redisTypes[broker.StructureSortedSet]:
		return broker.Destination{}, nil
	case "none":
		switch {
		case fromDelaySet(b):
			return broker.Destination{}, nil
		case m.structure == broker.StructureList:
			return broker.List(b.Source), nil
		case b.Group != "":
			return broker.Stream(b.Source), nil
		}
		return broker.Destination{}, fmt.Errorf("nothing stands at its source %q, which was no stream; name a target", b.Source)
	default:
		return broker.Destination{}, fmt.Errorf("its source %q is a %s by now; name a target", b.Source, held)
	}
}

// fromDelaySet tells a member of a delay set that could not be decoded: no entry of a stream or list was buried.
func fromDelaySet(b *broker.Burial) bool { return b.ID == "" && b.Reason == broker.ReasonMalformed }

// prepare makes the command of a move.
func (m *letterMover) prepare(mv *broker.Move) (*outgoing, error) {
	to, err := m.destination(mv)
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", mv.Letter.ID, err)
	}
	out := &outgoing{Move: mv, key: to.Key(), bytes: mv.Letter.Size()}
	if to.Key() == m.from.key || mv.DelaySet == m.from.key {
		return nil, fmt.Errorf("record %s: its target is the dead letter %q itself; name another one", mv.Letter.ID, m.from.key)
	}
	switch to.Structure() {
	case 0:
		// The member goes back as it was: it is its bytes that nobody could decode.
		out.command, out.key, out.args = "ZADD", mv.Letter.Burial.Source, []any{0, mv.Letter.Body}
	case broker.StructureStream:
		fields, err := movedFields(mv)
		if err != nil {
			return nil, fmt.Errorf("record %s: %w", mv.Letter.ID, err)
		}
		out.command, out.args = "XADD", entryArguments(fields)
		if mv.DelaySet != "" {
			member, err := sealStreamMember(m.memberKey(mv), fields)
			if err != nil {
				return nil, fmt.Errorf("record %s: delayed member: %w", mv.Letter.ID, err)
			}
			out.wait(member)
		}
	default:
		e, err := movedEnvelope(mv)
		if err != nil {
			return nil, fmt.Errorf("record %s: %w", mv.Letter.ID, err)
		}
		if mv.DelaySet != "" {
			out.wait(e.sealMember(m.memberKey(mv)))
			break
		}
		out.send(to, e.seal(), m.onCluster())
	}
	return out, nil
}

// memberKey makes the member of a delay set unique, and the same when it is written again.
func (m *letterMover) memberKey(mv *broker.Move) string {
	return "replay|" + m.from.key + "|" + mv.Letter.ID
}

func (m *letterMover) onCluster() bool {
	_, ok := m.from.client.(*redis.ClusterClient)
	return ok
}

// wait has the member wait in the delay set.
func (o *outgoing) wait(member []byte) {
	o.command, o.key, o.args = "ZADD", o.DelaySet, []any{delayMilliseconds(o.Delay), member}
}

// send has the message pushed or published. How many receive it a cluster does not tell.
func (o *outgoing) send(to broker.Destination, message []byte, onCluster bool) {
	switch {
	case to.Structure() == broker.StructureList:
		o.command, o.args = "LPUSH", []any{message}
	case to.Sharded():
		o.command, o.args, o.heard = "SPUBLISH", []any{message}, !onCluster
	default:
		o.command, o.key, o.args, o.heard = "PUBLISH", "", []any{to.Key(), message}, !onCluster
	}
}
