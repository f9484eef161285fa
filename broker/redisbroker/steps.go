package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/millrace-go/millrace/broker"
)

// settleInSteps settles what one script cannot: entries whose copy goes to a key in another cluster slot, and entries of
// more fields than a script can append. It looks which are still ours, writes, and acknowledges, in a round trip each. A
// crash between the last two leaves both, so that the message is handled again; it is never lost.
func (s *subscription) settleInSteps(ctx context.Context, batch []*broker.Settlement) {
	for some := range slices.Chunk(batch, callEntries) {
		unwritten := slices.DeleteFunc(slices.Clone(some), func(st *broker.Settlement) bool { return st.Written })
		ours, now := s.check(ctx, unwritten)
		s.write(ctx, ours, now)
		s.acknowledge(ctx, slices.DeleteFunc(slices.Clone(some), func(st *broker.Settlement) bool { return !st.Written }))
	}
}

// check gives the settlements of entries that are not ours any more their result, and returns the others and the server's
// time in milliseconds.
func (s *subscription) check(ctx context.Context, batch []*broker.Settlement) (ours []*broker.Settlement, now int64) {
	if len(batch) == 0 {
		return nil, 0
	}
	texts, now, err := s.fenced(ctx, checkScript, batch)
	for i, st := range batch {
		switch {
		case err != nil:
			st.Err = err
		case texts[i] == "done":
			ours = append(ours, st)
		default:
			st.Result, st.Err = s.result(st, texts[i])
		}
	}
	return ours, now
}

// acknowledge ends the settlements that were written.
func (s *subscription) acknowledge(ctx context.Context, batch []*broker.Settlement) {
	if len(batch) == 0 {
		return
	}
	texts, _, err := s.fenced(ctx, ackScript, batch)
	for i, st := range batch {
		if err != nil {
			st.Err = err
			st.Repeated = st.Repeated || mayHaveArrived(err)
			continue
		}
		if st.Result, st.Err = s.result(st, texts[i]); st.Result == broker.Done && st.Action == broker.Delay {
			s.mover.expect(st.Delay)
		}
	}
}

// fenced runs a script that answers with one status for each entry, and perhaps the server's time behind them.
func (s *subscription) fenced(ctx context.Context, script *script, batch []*broker.Settlement) (texts []string, now int64, err error) {
	args := append(script.args(2+2*len(batch), s.source.Key), s.source.Group, s.consumer)
	for _, st := range batch {
		args = append(args, st.Delivery.ID, st.Delivery.Count)
	}
	reply, err := run(ctx, s.client, args)
	if err != nil {
		return nil, 0, s.lost(fmt.Errorf("settling entries of stream %q: %w", s.source.Key, err))
	}
	statuses, _ := reply.([]any)
	if len(statuses) < len(batch) {
		return nil, 0, errReply
	}
	for _, status := range statuses[:len(batch)] {
		text, _ := status.(string)
		texts = append(texts, text)
	}
	if len(statuses) > len(batch) {
		now, _ = statuses[len(batch)].(int64)
	}
	return texts, now, nil
}

// write writes what the settlements leave, in one round trip and without a look at their entries, and notes which are
// written. One whose reply was lost counts as not written: a message may stand twice, and is not lost.
func (s *subscription) write(ctx context.Context, batch []*broker.Settlement, now int64) {
	calls := make([]*call, 0, len(batch))
	for _, st := range batch {
		args, err := s.writing(st, now)
		if err != nil {
			st.Err = err
			continue
		}
		calls = append(calls, &call{args: args, batch: []*broker.Settlement{st}})
	}
	bounds := s.boundCalls(batch)
	s.pipelineScripts(ctx, slices.Concat(calls, bounds))
	for _, c := range bounds {
		s.letters.removed(c.batch[0].Target, c.command.Val())
	}
	for _, c := range calls {
		st := c.batch[0]
		text, err := c.command.Text()
		if err == nil && st.Action == broker.Delay && text != "done" {
			err = serverError(text)
		}
		if err != nil {
			st.Err = fmt.Errorf("%s of entry %s to %q: %w", st.Action, st.Delivery.ID, s.target(st), err)
			continue
		}
		st.Written = true
	}
}

// boundCalls bound the dead letters that the settlements write to. What fails here is made good by the trimmer.
func (s *subscription) boundCalls(batch []*broker.Settlement) []*call {
	var calls []*call
	for _, st := range batch {
		if st.Action != broker.Bury || s.letters.last(st.Target) == 0 ||
			slices.ContainsFunc(calls, func(c *call) bool { return c.batch[0].Target == st.Target }) {
			continue
		}
		calls = append(calls, &call{args: s.letters.call(st.Target), batch: []*broker.Settlement{st}})
	}
	return calls
}

// writing is the command that writes what a settlement leaves.
func (s *subscription) writing(st *broker.Settlement, now int64) ([]any, error) {
	fields := contents(st)
	switch st.Action {
	case broker.Delay:
		member, err := encodeMember(s.source.Key, s.source.Group, st.Delivery, fields)
		if err != nil {
			return nil, fmt.Errorf("delayed member: %w", err)
		}
		return append(laterScript.args(3, s.source.DelaySet), s.delayTTL(), delayMilliseconds(st.Delay), member), nil
	case broker.Bury:
		fields = append(fields, field(broker.FieldAt, strconv.FormatInt(now, 10)))
	}
	args := append(make([]any, 0, 3+2*len(fields)), "XADD", s.target(st), "*")
	return appendFields(args, fields), nil
}

// target is the key that a settlement writes to, the stream's own where it writes nowhere else.
func (s *subscription) target(st *broker.Settlement) string {
	switch st.Action {
	case broker.Delay:
		return s.source.DelaySet
	case broker.Bury:
		return st.Target
	default:
		return s.source.Key
	}
}

// unparkInSteps fetches the entry whose body is no longer in hand, and goes on as with one that is.
func (s *subscription) unparkInSteps(ctx context.Context, st *broker.Settlement) {
	whole := *st
	whole.Action, whole.Result, whole.Err = broker.Copy, 0, nil
	fields, err := s.fetch(ctx, st.Delivery.ID)
	if err != nil {
		st.Result, st.Err = 0, err
		return
	}
	whole.Delivery = delivery(st.Delivery.ID, st.Delivery.Count, fields)
	s.settleInSteps(ctx, []*broker.Settlement{&whole})
	st.Result, st.Err, st.Repeated, st.Written = whole.Result, whole.Err, whole.Repeated, whole.Written
}

// fetch reads the fields of an entry.
func (s *subscription) fetch(ctx context.Context, id string) ([]broker.Field, error) {
	data, err := rawReply(ctx, s.client, []any{"XRANGE", s.source.Key, id, id})
	if err != nil {
		return nil, err
	}
	entries, err := parseRange(data)
	if err != nil || len(entries) != 1 {
		return nil, errors.Join(err, fmt.Errorf("entry %s: %d found", id, len(entries)))
	}
	return entries[0].Fields, nil
}
