package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

const (
	// One script call settles at most so many entries, and so many bytes of them: the server does nothing else meanwhile.
	callEntries = 100
	callBytes   = 256 << 10
	// ackEntries is how many ids one XACK names.
	ackEntries = 1000
	// wideFields is how many fields a script can append at once: Lua's unpack stops at about 8,000 values.
	wideFields = 1900
	// longestDelay keeps due times in the range that a score holds exactly.
	longestDelay = 100 * 365 * 24 * time.Hour
)

// call is one command of a batch, and the settlements that its reply answers.
type call struct {
	args    []any
	batch   []*broker.Settlement
	bytes   int
	command *redis.Cmd
	// deletes: the acknowledgement removes, too.
	deletes bool
}

// Settle sends the batch in one round trip: one XACK for the acknowledgements, one script call for each kind of
// settlement and hundred entries.
func (s *subscription) Settle(ctx context.Context, batch []*broker.Settlement) {
	s.pool.do(ctx, func(ctx context.Context) { settleDeferred(ctx, s.client, batch, s.settle) })
}

func (s *subscription) settle(ctx context.Context, batch []*broker.Settlement) {
	calls, inSteps := s.calls(batch)
	for _, c := range calls {
		c.count()
	}
	if len(calls) > 0 {
		s.send(ctx, calls)
	}
	s.settleInSteps(ctx, inSteps)
	for _, st := range batch {
		if errors.Is(st.Err, errWide) {
			s.unparkInSteps(ctx, st)
		}
		if st.Result == broker.Gone && st.Action != broker.Ack && !st.Repeated && s.alive.stoodSince(st.Delivery.HandedOut) {
			st.Result, st.Err = s.settleForgotten(ctx, st)
		}
	}
}

func (s *subscription) calls(batch []*broker.Settlement) (calls []*call, inSteps []*broker.Settlement) {
	var open [broker.Unpark + 1]*call
	var fields []any // used again: each call takes a copy
	for i, st := range batch {
		st.Result, st.Err = 0, nil
		if apart(s.client, s.source.Key, s.target(st)) {
			inSteps = append(inSteps, st)
			continue
		}
		var err error
		if fields, err = s.arguments(fields[:0], st); err != nil {
			st.Err = err
			continue
		}
		if len(fields) > 2*wideFields && st.Action != broker.Delay {
			inSteps = append(inSteps, st)
			continue
		}
		c := open[st.Action]
		if c == nil || c.full(st) {
			c = s.newCall(st, len(batch)-i)
			calls = append(calls, c)
			open[st.Action] = c
		}
		c.add(st, fields)
	}
	return calls, inSteps
}

// full tells that the settlement needs a call of its own. Every dead letter of a mount has one target, but nothing
// here relies on it.
func (c *call) full(st *broker.Settlement) bool {
	if st.Action == broker.Ack {
		return len(c.batch) >= ackEntries
	}
	return len(c.batch) >= callEntries || c.bytes >= callBytes || c.batch[0].Target != st.Target
}

// newCall begins a call with what stands before its entries, n of them at most.
func (s *subscription) newCall(st *broker.Settlement, n int) *call {
	group, key := s.source.Group, s.source.Key
	room := 12 * min(n, callEntries)
	switch st.Action {
	case broker.Copy:
		return &call{args: append(copyScript.args(room, key), group, s.consumer)}
	case broker.Bury:
		return &call{args: append(buryScript.args(room, key, st.Target), group, s.consumer, broker.FieldAt, s.letters.last(st.Target))}
	case broker.Delay:
		return &call{args: append(delayScript.args(room, key, s.source.DelaySet), group, s.consumer, s.delayTTL())}
	case broker.Keep:
		return &call{args: append(keepScript.args(room, key), group, s.consumer)}
	case broker.Unpark:
		return &call{args: append(unparkScript.args(room, key), group, s.consumer, headerPrefix+broker.HeaderMessageID)}
	default:
		return s.newAck(min(n, ackEntries))
	}
}

func (c *call) add(st *broker.Settlement, arguments []any) {
	c.args = append(c.args, &st.Delivery.ID) // a string would be copied to the heap
	if st.Action != broker.Ack {
		c.args = append(c.args, st.Delivery.Count)
	}
	c.args = append(c.args, arguments...)
	for _, f := range st.Delivery.Fields {
		c.bytes += len(f.Name) + len(f.Value)
	}
	c.batch = append(c.batch, st)
}

// arguments appends what follows the id and the count of an entry.
func (s *subscription) arguments(args []any, st *broker.Settlement) ([]any, error) {
	switch st.Action {
	case broker.Ack:
		return args, nil
	case broker.Copy, broker.Bury:
		fields := contents(st)
		return appendFields(append(args, 2*len(fields)), fields), nil
	case broker.Delay:
		member, err := encodeMember(s.source.Key, s.source.Group, st.Delivery, contents(st))
		if err != nil {
			return args, fmt.Errorf("delayed member: %w", err)
		}
		return append(args, delayMilliseconds(st.Delay), member), nil
	case broker.Keep:
		return append(args, st.Count), nil
	case broker.Unpark:
		remove, set := st.Edits.Remove, st.Edits.Set
		args = append(args, len(remove))
		for _, name := range remove {
			args = append(args, headerPrefix+name)
		}
		args = append(args, 2*len(set))
		for _, h := range set {
			args = append(args, headerPrefix+h.Name, h.Value)
		}
		return args, nil
	default:
		return args, fmt.Errorf("no such settlement: %s", st.Action)
	}
}

// contents are the fields that the settlement writes, without the time of a burial, which is the server's.
func contents(st *broker.Settlement) []broker.Field {
	if st.Action != broker.Bury {
		return edited(st.Delivery, st.Edits, 0)
	}
	burial := st.Burial.Fields()
	return appendLines(edited(st.Delivery, st.Edits, len(burial)), "", burial...)
}

func appendFields(args []any, fields []broker.Field) []any {
	for i := range fields {
		args = append(args, (*fieldName)(&fields[i]), (*fieldValue)(&fields[i]))
	}
	return args
}

// fieldName and fieldValue are arguments of a command that cost no allocation, as slices would.
type (
	fieldName  broker.Field
	fieldValue broker.Field
)

func (f *fieldName) MarshalBinary() ([]byte, error)  { return f.Name, nil }
func (f *fieldValue) MarshalBinary() ([]byte, error) { return f.Value, nil }

func delayMilliseconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return milliseconds(min(d, longestDelay))
}

// delayTTL is how long the delay set outlives its last due time in milliseconds, 0 for ever.
func (s *subscription) delayTTL() int64 {
	if s.source.DelayTTL <= 0 {
		return 0
	}
	return milliseconds(s.source.DelayTTL)
}

// send runs the calls and gives each settlement its result.
func (s *subscription) send(ctx context.Context, calls []*call) {
	s.pipelineScripts(ctx, calls)
	for _, c := range calls {
		s.answer(c)
	}
}

// pipelineScripts runs the calls in one pipeline, and again those that met a server without its scripts.
func (s *subscription) pipelineScripts(ctx context.Context, calls []*call) {
	s.pipeline(ctx, calls)
	for range loads {
		calls = slices.DeleteFunc(slices.Clone(calls), func(c *call) bool { return !isNoScript(c.command.Err()) })
		if len(calls) == 0 || loadScripts(ctx, s.client) != nil {
			return
		}
		s.pipeline(ctx, calls)
	}
}

func (s *subscription) pipeline(ctx context.Context, calls []*call) {
	if len(calls) == 0 {
		return
	}
	pipe := s.client.Pipeline()
	for _, c := range calls {
		c.command = pipe.Do(ctx, c.args...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
}

// answer gives each settlement of the call its result.
func (s *subscription) answer(c *call) {
	reply, err := c.command.Result()
	if err != nil {
		s.undeletable(c, err)
		what := describe(c.batch[0].Action, s.source.Key, s.target(c.batch[0]))
		for _, st := range c.batch {
			st.Err = s.lost(fmt.Errorf("%s of stream %q: %w", what, s.source.Key, err))
			st.Repeated = st.Repeated || mayHaveArrived(err)
		}
		return
	}
	if c.batch[0].Action == broker.Ack {
		s.acked(c, reply)
		for _, st := range c.batch {
			st.Result = broker.Done
		}
		return
	}
	results, _ := reply.([]any)
	if c.batch[0].Action == broker.Bury && len(results) > len(c.batch) {
		s.letters.removed(c.batch[0].Target, results[len(c.batch)])
	}
	var kept []broker.Held
	for i, st := range c.batch {
		text := ""
		if i < len(results) {
			text, _ = results[i].(string)
		}
		switch text {
		case "wide":
			st.Err = errWide
		default:
			st.Result, st.Err = s.result(st, text)
		}
		if st.Result == broker.Done {
			switch {
			case st.Action == broker.Delay:
				s.mover.expect(st.Delay)
			case st.Action == broker.Keep && s.claims != nil:
				kept = append(kept, broker.Held{ID: st.Delivery.ID, Count: st.Count})
			}
		}
	}
	if len(kept) > 0 {
		s.claims.waiting.leave(kept)
	}
}

var errWide = errors.New("the entry has more fields than one script call can append")

func (s *subscription) result(st *broker.Settlement, text string) (broker.Result, error) {
	return result(st, s.source.Key, s.target(st), text)
}

// describe is what errors call an action: its name, and the key that it writes to where that is another than the source.
func describe(action broker.Action, source, target string) string {
	if target == "" || target == source {
		return action.String()
	}
	return fmt.Sprintf("%s to %q", action, target)
}

// result reads one status of a script.
func result(st *broker.Settlement, source, target, text string) (broker.Result, error) {
	switch text {
	case "done":
		return broker.Done, nil
	case "lost":
		return broker.Lost, nil
	case "gone":
		return broker.Gone, nil
	case "vanished":
		return broker.Vanished, nil
	}
	if text == "" {
		text = "an empty answer"
	}
	return 0, serverError(fmt.Sprintf("%s of entry %s of %q: %s", describe(st.Action, source, target), st.Delivery.ID, source, text))
}
