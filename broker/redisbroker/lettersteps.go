package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/broker"
)

const (
	// turnTTL is how long a process that was killed keeps others from moving records of the same dead letter in steps.
	turnTTL = 5 * time.Second
	// turnPoll is how often one that waits for its turn asks.
	turnPoll = 10 * time.Millisecond
	// writtenTTL is how long it is remembered that a record was written that may still stand in the dead letter: as long as
	// an interrupted replay is expected to be taken up again.
	writtenTTL = 7 * 24 * time.Hour
)

// steps moves records that no script can: those whose target is in another cluster slot, and those of more fields than a
// script can append. It claims them, writes them and deletes them, in a round trip each, and one process at a time.
//
// A crash after the second step leaves records in both places. Where a record has an id of its own, the target's slot
// remembers that it was written, and the next replay only deletes it. Elsewhere (in a list, or with too many fields) records
// are moved one by one, so that one at most is written twice.
func (m *letterMover) steps(ctx context.Context, moves []*outgoing) error {
	if len(moves) == 0 {
		return nil
	}
	for len(moves) > 0 {
		n := m.together(moves)
		if err := m.stepsOf(ctx, moves[:n]); err != nil {
			return err
		}
		moves = moves[n:]
	}
	_, err := letterTurnEndScript.runOnce(ctx, m.from.client, append(letterTurnEndScript.args(1, m.turnKey()), m.token))
	return m.from.failed("ending the turn", err)
}

// together is how many of the moves take the steps together.
func (m *letterMover) together(moves []*outgoing) int {
	if !m.remembers(moves[0]) {
		return 1
	}
	most, n := batch(moves), 1
	for n < most && moves[n].key == moves[0].key && m.remembers(moves[n]) {
		n++
	}
	return n
}

// remembers tells that the target's slot can remember the record.
func (m *letterMover) remembers(out *outgoing) bool {
	return m.shelf.names() && len(out.args) <= 2*wideFields
}

// turnKey says whose turn it is. It is in the dead letter's slot.
func (m *letterMover) turnKey() string { return base(m.from.key) + ":replay" }

// writtenKey has the ids of the records that were written to a target. It is in the target's slot.
func (m *letterMover) writtenKey(target string) string {
	return base(target) + ":replayed:" + m.from.key
}

func (m *letterMover) stepsOf(ctx context.Context, moves []*outgoing) error {
	began, err := m.claim(ctx, moves)
	if err != nil {
		return err
	}
	var there []*outgoing
	for _, out := range moves {
		if out.Result == 0 {
			there = append(there, out)
		}
	}
	if len(there) == 0 {
		return nil
	}
	if time.Since(began) > turnTTL/2 {
		return m.from.failed("moving records", fmt.Errorf("this process stood still for %s, and another may have moved them meanwhile; try again", time.Since(began)))
	}
	written, err := m.write(ctx, there)
	return errors.Join(err, m.remove(ctx, written))
}

// claim waits for the turn, and gives those records their result that are gone. It returns when it asked.
func (m *letterMover) claim(ctx context.Context, moves []*outgoing) (began time.Time, err error) {
	_, claim := m.shelf.scripts()
	for {
		began = time.Now()
		args := append(claim.args(2+2*len(moves), m.from.key, m.turnKey()), m.token, milliseconds(turnTTL))
		for _, out := range moves {
			args = append(args, m.shelf.find(out.Letter)...)
		}
		reply, err := claim.runOnce(ctx, m.from.client, args)
		if err != nil {
			return began, m.from.failed("claiming records", err)
		}
		there, _ := reply.([]any)
		if len(there) == len(moves) {
			for i, out := range moves {
				if n, _ := there[i].(int64); n == 0 {
					_ = m.answer(out, "gone") // is no failure
				}
			}
			return began, nil
		}
		if len(there) > 0 {
			return began, m.from.failed("claiming records", errReply)
		}
		timer := time.NewTimer(turnPoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return began, m.from.failed("another replay is at it", ctx.Err())
		}
	}
}

// write writes records of one target and returns those that stand there now, also where it fails.
func (m *letterMover) write(ctx context.Context, moves []*outgoing) (written []*outgoing, err error) {
	var statuses []string
	if m.remembers(moves[0]) {
		statuses, err = m.writeOnce(ctx, moves)
	} else {
		statuses, err = m.writeOne(ctx, moves[0])
	}
	if err == nil && len(statuses) != len(moves) {
		err = errReply
	}
	if err != nil {
		return nil, m.from.failed("writing records", err)
	}
	for i, out := range moves {
		if statuses[i] == "done" {
			written = append(written, out)
			continue
		}
		err = errors.Join(err, m.answer(out, statuses[i]))
	}
	return written, err
}

// writeOnce writes records that the target's slot remembers.
func (m *letterMover) writeOnce(ctx context.Context, moves []*outgoing) ([]string, error) {
	target := moves[0].key
	arguments := []any{milliseconds(writtenTTL)}
	for _, out := range moves {
		arguments = append(append(arguments, out.Letter.ID), out.writing(1)...)
	}
	return m.statuses(ctx, letterOnceScript, []string{target, m.writtenKey(target)}, arguments)
}

// writeOne writes one record, without a script: it may have too many fields for one.
func (m *letterMover) writeOne(ctx context.Context, out *outgoing) ([]string, error) {
	args := append([]any{out.command, out.key}, out.args...)
	if out.command == "ZADD" {
		args = append(afterScript.args(len(out.args), out.key), out.args...)
	}
	reply, err := run(ctx, m.from.client, args)
	switch {
	case isRefused(err):
		return []string{err.Error()}, nil
	case err != nil:
		return nil, err
	}
	if statuses, ok := reply.([]any); ok && len(statuses) == 1 {
		text, _ := statuses[0].(string)
		return []string{text}, nil
	}
	return []string{"done"}, nil
}

// remove deletes what was written from the dead letter, and then has the target's slot forget it.
func (m *letterMover) remove(ctx context.Context, written []*outgoing) error {
	if len(written) == 0 {
		return nil
	}
	deletions := make([]*outgoing, len(written))
	for i, out := range written {
		deletions[i] = &outgoing{Move: &broker.Move{Letter: out.Letter}, key: m.from.key}
	}
	if err := m.calls(ctx, deletions); err != nil {
		return err
	}
	for _, out := range written {
		out.Result = broker.Done
	}
	if !m.remembers(written[0]) {
		return nil
	}
	ids := make([]any, len(written))
	for i, out := range written {
		ids[i] = out.Letter.ID
	}
	return m.from.failed("forgetting what was written", m.from.client.SRem(ctx, m.writtenKey(written[0].key), ids...).Err())
}
