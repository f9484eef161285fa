package redisbroker

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/millrace-go/millrace/broker"
)

// settleInSteps is the way to a key in another cluster slot: look which items are still in flight, write, take them out of
// flight, in a round trip each. A crash between the last two leaves both, so that the message is handled again; it is
// never lost.
func (l *reliableList) settleInSteps(ctx context.Context, batch []*listSettlement, floor uint64) {
	ours := slices.DeleteFunc(slices.Clone(batch), func(ls *listSettlement) bool { return ls.Written })
	for in, some := range byFlight(ours) {
		statuses, now, err := l.fenced(ctx, listCheckScript, in, some, floor)
		for i, ls := range some {
			switch {
			case err != nil:
				l.failed(ls, err)
			case statuses[i] != "done":
				l.answered(ls, statuses[i])
			default:
				l.write(ctx, ls, now)
			}
		}
	}
	written := slices.DeleteFunc(slices.Clone(batch), func(ls *listSettlement) bool { return !ls.Written || ls.Err != nil })
	for in, some := range byFlight(written) {
		statuses, _, err := l.fenced(ctx, listAckScript, in, some, floor)
		for i, ls := range some {
			if err != nil {
				l.failed(ls, err)
				continue
			}
			l.answered(ls, statuses[i])
		}
	}
}

// byFlight sorts settlements by the list that their items are in.
func byFlight(batch []*listSettlement) map[*flight][]*listSettlement {
	groups := make(map[*flight][]*listSettlement)
	for _, ls := range batch {
		groups[ls.x.in] = append(groups[ls.x.in], ls)
	}
	return groups
}

// fenced runs a script that answers with one status for each item, and perhaps the server's time behind them.
func (l *reliableList) fenced(ctx context.Context, script *script, in *flight, batch []*listSettlement, floor uint64) (statuses []string, now int64, err error) {
	args := append(script.args(2+2*len(batch), in.list, l.settledKey()), floor, milliseconds(settledFor))
	for _, ls := range batch {
		args = append(args, ls.number, ls.x.item)
	}
	reply, err := run(ctx, l.client, args)
	if err != nil {
		return nil, 0, fmt.Errorf("settling items of list %q: %w", l.source.Key, err)
	}
	texts, _ := reply.([]any)
	if len(texts) < len(batch) {
		return nil, 0, errReply
	}
	for _, text := range texts[:len(batch)] {
		status, _ := text.(string)
		statuses = append(statuses, status)
	}
	if len(texts) > len(batch) {
		now, _ = texts[len(batch)].(int64)
	}
	return statuses, now, nil
}

// write writes what a settlement leaves in another slot, without a look at the item. Where the reply is lost it counts as not
// written: a dead letter may stand twice then, and is not lost. A delayed message is unique and never does.
func (l *reliableList) write(ctx context.Context, ls *listSettlement, now int64) {
	var args []any
	switch st := ls.Settlement; st.Action {
	case broker.Bury:
		e := burialEnvelope(st)
		e.headers = append(e.headers, broker.HeaderLine{Name: broker.FieldAt, Value: strconv.FormatInt(now, 10)})
		args = []any{"LPUSH", st.Target, e.seal()}
	default:
		args = append(laterScript.args(3, l.deferred), l.delayTTL(), delayMilliseconds(st.Delay), l.member(st))
	}
	reply, err := run(ctx, l.client, args)
	if text, ok := reply.(string); err == nil && ok && text != "done" {
		err = serverError(text)
	}
	if err != nil {
		ls.Err = fmt.Errorf("%s of item %s to %q: %w", ls.Action, ls.Delivery.ID, l.target(ls.Settlement), err)
		// It is still in flight: the last step was not taken.
		l.settled.answered(ls.x)
		l.inflight.end(ls.x, false, ls.x.aside)
		return
	}
	ls.Written = true
	if ls.Action == broker.Bury {
		_, _ = l.letters.bound(ctx, ls.Target) // what fails here is made good by the trimmer
	}
}
