package redisbroker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// shelf is how scripts find the records of a dead letter.
type shelf interface {
	// scripts are the one that moves records or deletes them, and the one that claims them.
	scripts() (move, claim *script)
	// find are the arguments that name a record to the scripts.
	find(*broker.Letter) []any
	// away notes that a record of the last page is not there any more.
	away(*broker.Letter)
	// names tells that no two records ever have the same id.
	names() bool
}

// letterMover moves the records of one walk.
type letterMover struct {
	from      *letters
	shelf     shelf
	structure broker.Structure
	// held is what TYPE answered for a source.
	held map[string]string
	// token is whose turn it is at moves between cluster slots.
	token string
}

func newLetterMover(from *letters, structure broker.Structure, s shelf) *letterMover {
	return &letterMover{from: from, shelf: s, structure: structure, held: make(map[string]string), token: rand.Text()}
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
	if err := m.calls(ctx, whole); err != nil {
		return err
	}
	return m.steps(ctx, inSteps)
}

// batch is how many of the moves one script call takes.
func batch(moves []*outgoing) int {
	n, bytes := 0, 0
	for n < len(moves) && n < callEntries && (n == 0 || bytes+moves[n].bytes <= callBytes) {
		bytes += moves[n].bytes
		n++
	}
	return n
}

// calls moves records in scripts.
func (m *letterMover) calls(ctx context.Context, moves []*outgoing) error {
	for len(moves) > 0 {
		n := batch(moves)
		later, err := m.call(ctx, moves[:n])
		if err != nil {
			return err
		}
		moves = slices.Concat(later, moves[n:])
	}
	return nil
}

// call moves records in one script, and returns those that it left to another call.
func (m *letterMover) call(ctx context.Context, moves []*outgoing) (later []*outgoing, err error) {
	keys := []string{m.from.key}
	var arguments []any
	for _, out := range moves {
		index := 0
		if out.key != "" {
			if index = slices.Index(keys, out.key); index < 0 {
				index, keys = len(keys), append(keys, out.key)
			}
			index++ // Lua counts from 1
		}
		arguments = append(arguments, m.shelf.find(out.Letter)...)
		arguments = append(arguments, out.writing(index)...)
	}
	move, _ := m.shelf.scripts()
	statuses, err := m.statuses(ctx, move, keys, arguments)
	if err == nil && len(statuses) != len(moves) {
		err = m.from.failed("moving records", errReply)
	}
	if err != nil {
		return nil, err
	}
	for i, out := range moves {
		if statuses[i] == "later" {
			later = append(later, out)
			continue
		}
		err = errors.Join(err, m.answer(out, statuses[i]))
	}
	return later, err
}

// writing are the arguments of the scripts' write, and how many they are. A move without a command only deletes.
func (o *outgoing) writing(index int) []any {
	if o.command == "" {
		return []any{0}
	}
	heard := 0
	if o.heard {
		heard = 1
	}
	return append([]any{3 + len(o.args), o.command, index, heard}, o.args...)
}

// statuses runs a script that answers with a list of texts.
func (m *letterMover) statuses(ctx context.Context, s *script, keys []string, arguments []any) ([]string, error) {
	reply, err := s.runOnce(ctx, m.from.client, append(s.args(len(arguments), keys...), arguments...))
	if err != nil {
		return nil, m.from.failed("moving records", err)
	}
	list, _ := reply.([]any)
	texts := make([]string, len(list))
	for i, status := range list {
		texts[i], _ = status.(string)
	}
	return texts, nil
}

// answer gives a move its result. It fails where the server takes no message at all, whichever record it is.
func (m *letterMover) answer(out *outgoing, status string) error {
	switch status {
	case "done":
		out.Result = broker.Done
		m.shelf.away(out.Letter)
	case "gone":
		out.Result = broker.Gone
		m.shelf.away(out.Letter)
	case "unheard":
		out.Result = broker.Unheard
	default:
		out.Err = out.failed(serverError(status))
	}
	if code, _, _ := strings.Cut(status, " "); takesNothing[code] {
		err := out.Err
		out.Err = nil
		return m.from.failed("moving records", err)
	}
	return nil
}

// takesNothing are the codes of a server that is full, a replica, cannot save what it takes, or has too few replicas.
var takesNothing = map[string]bool{"OOM": true, "READONLY": true, "MISCONF": true, "NOREPLICAS": true}

func (o *outgoing) failed(err error) error {
	return fmt.Errorf("record %s to %q: %w", o.Letter.ID, o.target(), err)
}

func (o *outgoing) target() any {
	if o.key == "" {
		return o.args[0]
	}
	return o.key
}

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
