package redisbroker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// settledFor is how long the server remembers which settlements were carried out: longer than any command is under way.
const settledFor = 10 * time.Minute

// listCall is one script call of a batch, and the settlements that its reply answers.
type listCall struct {
	first   *listSettlement
	args    []any
	batch   []*listSettlement
	bytes   int
	command *redis.Cmd
}

// listSettlement is a settlement, the item that it settles, and its number.
type listSettlement struct {
	*broker.Settlement
	x      *flown
	number uint64
}

// Settle sends the batch in one round trip: one script call for each kind of settlement and hundred items. Each settlement
// does nothing unless the item is still in this process's in-flight list: Lost is one that a peer has put back, Gone one
// that was settled before.
func (l *reliableList) Settle(ctx context.Context, batch []*broker.Settlement) {
	l.pool.do(ctx, func(ctx context.Context) { settleDeferred(ctx, l.client, batch, l.settle) })
}

func (l *reliableList) settle(ctx context.Context, batch []*broker.Settlement) {
	floor := l.settled.floor()
	var calls []*listCall
	var inSteps []*listSettlement
	for _, st := range batch {
		ls := l.begin(st)
		if ls == nil {
			continue
		}
		if apart(l.client, l.source.Key, l.target(st)) {
			inSteps = append(inSteps, ls)
			continue
		}
		script, arguments := l.arguments(ls)
		i := slices.IndexFunc(calls, func(c *listCall) bool { return c.takes(ls) })
		if i < 0 {
			i = len(calls)
			calls = append(calls, &listCall{first: ls, args: l.head(script, ls, floor)})
		}
		calls[i].add(ls, arguments)
	}
	l.send(ctx, calls)
	for some := range slices.Chunk(inSteps, callEntries) {
		l.settleInSteps(ctx, some, floor)
	}
}

// begin looks up the item of a settlement. It returns nil where there is nothing to do, and the settlement has its result.
func (l *reliableList) begin(st *broker.Settlement) *listSettlement {
	st.Result, st.Err = 0, nil
	switch st.Action {
	case broker.Ack, broker.Copy, broker.Bury, broker.Delay, broker.Keep:
	default:
		st.Err = fmt.Errorf("%s of list %q: there is no such settlement of a list", st.Action, l.source.Key)
		return nil
	}
	x := l.inflight.begin(st.Delivery.ID)
	switch {
	case x == nil:
		st.Result = broker.Gone
		return nil
	case l.inflight.isLost(x):
		l.inflight.end(x, true, false)
		l.settled.answered(x)
		st.Result = broker.Lost
		return nil
	}
	return &listSettlement{st, x, l.settled.number(x)}
}

// target is the key that a settlement writes to, the list's own where it writes nowhere else.
func (l *reliableList) target(st *broker.Settlement) string {
	switch st.Action {
	case broker.Delay:
		return l.deferred
	case broker.Bury:
		return st.Target
	default:
		return l.source.Key
	}
}

// takes tells that the settlement may go into this call.
func (c *listCall) takes(ls *listSettlement) bool {
	return c.first.Action == ls.Action && c.first.x.in == ls.x.in && c.first.Target == ls.Target &&
		len(c.batch) < callEntries && c.bytes < callBytes
}

func (c *listCall) add(ls *listSettlement, arguments []any) {
	c.args = append(append(c.args, ls.number, ls.x.item), arguments...)
	c.bytes += len(ls.x.item)
	c.batch = append(c.batch, ls)
}

// head begins a call with what stands before its items.
func (l *reliableList) head(script *script, ls *listSettlement, floor uint64) []any {
	keys := []string{ls.x.in.list, l.settledKey()}
	switch ls.Action {
	case broker.Ack:
	case broker.Keep:
		keys = append(keys, ls.x.in.aside)
	default:
		keys = append(keys, l.target(ls.Settlement))
	}
	const room = 32
	args := append(script.args(room, keys...), floor, milliseconds(settledFor))
	switch ls.Action {
	case broker.Delay:
		args = append(args, l.delayTTL())
	case broker.Copy, broker.Bury:
		args = append(args, l.letters.last(ls.Target)) // a copy has no target
	}
	return args
}

// arguments returns the script of a settlement, and what follows its number and item.
func (l *reliableList) arguments(ls *listSettlement) (*script, []any) {
	switch st := ls.Settlement; st.Action {
	case broker.Copy:
		e := editedEnvelope(st.Delivery, st.Edits)
		return listPushScript, []any{e.seal(), ""}
	case broker.Bury:
		e := burialEnvelope(st)
		before, after := e.sealAround(broker.FieldAt, "")
		return listPushScript, []any{before, after}
	case broker.Delay:
		return listDelayScript, []any{delayMilliseconds(st.Delay), l.member(st)}
	case broker.Keep:
		aside := "0"
		if st.Count == 0 {
			aside = "1"
		}
		return listKeepScript, []any{aside}
	default:
		return listAckScript, nil
	}
}

// member is the message as it stands in the delay set, made unique by the id of this process's delivery: a list has none.
func (l *reliableList) member(st *broker.Settlement) []byte {
	e := editedEnvelope(st.Delivery, st.Edits)
	return e.sealMember(l.source.Key + "|" + st.Delivery.ID)
}

// delayTTL is how long the delay set outlives its last due time in milliseconds, 0 for ever.
func (l *reliableList) delayTTL() int64 {
	if l.source.DelayTTL <= 0 {
		return 0
	}
	return milliseconds(l.source.DelayTTL)
}

// send runs the calls in one pipeline, and again those that met a server without its scripts, and gives each settlement its
// result.
func (l *reliableList) send(ctx context.Context, calls []*listCall) {
	l.pipeline(ctx, calls)
	again := calls
	for range loads {
		again = slices.DeleteFunc(slices.Clone(again), func(c *listCall) bool { return !isNoScript(c.command.Err()) })
		if len(again) == 0 || loadScripts(ctx, l.client) != nil {
			break
		}
		l.pipeline(ctx, again)
	}
	for _, c := range calls {
		reply, err := c.command.Result()
		statuses, _ := reply.([]any)
		if err == nil && len(statuses) < len(c.batch) {
			err = errReply
		}
		if err == nil && len(statuses) > len(c.batch) {
			l.letters.removed(c.first.Target, statuses[len(c.batch)])
		}
		for i, ls := range c.batch {
			if err != nil {
				l.failed(ls, fmt.Errorf("%s of list %q: %w", describe(ls.Action, l.source.Key, l.target(ls.Settlement)), l.source.Key, err))
				continue
			}
			text, _ := statuses[i].(string)
			l.answered(ls, text)
		}
	}
}

func (l *reliableList) pipeline(ctx context.Context, calls []*listCall) {
	if len(calls) == 0 {
		return
	}
	pipe := l.client.Pipeline()
	for _, c := range calls {
		c.command = pipe.Do(ctx, c.args...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
}

// failed notes that a settlement was not answered: it may have been carried out all the same.
func (l *reliableList) failed(ls *listSettlement, err error) {
	ls.Err = err
	if mayHaveArrived(err) {
		// The item counts as being settled until the answer is known.
		ls.Repeated = true
		l.settled.doubted(ls.x, ls.number)
		return
	}
	l.settled.answered(ls.x)
	l.inflight.end(ls.x, false, ls.x.aside)
}

// answered gives a settlement its result.
func (l *reliableList) answered(ls *listSettlement, text string) {
	l.settled.answered(ls.x)
	if ls.Result, ls.Err = result(ls.Settlement, l.source.Key, l.target(ls.Settlement), text); ls.Err != nil {
		l.inflight.end(ls.x, false, ls.x.aside)
		return
	}
	kept := ls.Action == broker.Keep && ls.Result == broker.Done
	l.inflight.end(ls.x, !kept, kept && ls.Count == 0)
	if ls.Result == broker.Done && ls.Action == broker.Delay {
		l.mover.expect(ls.Delay)
	}
}
