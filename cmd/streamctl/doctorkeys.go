package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

func (e *examination) lookAtStreams(ctx context.Context) error {
	for _, stream := range e.survey.Streams {
		groups, err := e.groups(ctx, stream)
		if err != nil {
			return err
		}
		for _, g := range groups {
			if err := e.lookAtGroup(ctx, stream, g); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *examination) lookAtGroup(ctx context.Context, stream string, g redis.XInfoGroup) error {
	subject, alive := "group "+g.Name+" of "+stream, inGroup(e.survey.Living(stream), g.Name)
	if len(alive) == 0 {
		consumers, err := e.client().XInfoConsumers(ctx, stream, g.Name).Result()
		if err != nil {
			return fmt.Errorf("XINFO CONSUMERS %q %q: %w", stream, g.Name, err)
		}
		// Readers of other libraries show themselves by reading alone.
		foreign := slices.ContainsFunc(consumers, func(c redis.XInfoConsumer) bool {
			return c.Name != freeConsumer && c.Idle >= 0 && c.Idle < e.stale
		})
		if !foreign {
			e.foundUnread(subject, stream, g)
		}
	}
	if g.Pending == 0 {
		return nil
	}
	return e.lookAtPending(ctx, subject, stream, g, alive)
}

func (e *examination) foundUnread(subject, stream string, g redis.XInfoGroup) {
	fix := fmt.Sprintf("start a process that subscribes to it; if nobody ever will, XGROUP DESTROY %s %s", stream, g.Name)
	switch {
	case g.Pending == 0 && g.Lag == 0:
		e.found(remark, "no-readers", subject, fix, "no consumer is alive; nothing waits for one")
	case g.Lag < 0:
		e.found(problem, "no-readers", subject, fix, "no consumer is alive: %d pending, and nobody knows how many not delivered", g.Pending)
	default:
		e.found(problem, "no-readers", subject, fix, "no consumer is alive: %d pending, %d not delivered", g.Pending, g.Lag)
	}
}

func (e *examination) lookAtPending(ctx context.Context, subject, stream string, g redis.XInfoGroup, alive map[string]redisbroker.Living) error {
	idle, owners, oldest := 0, []string{}, ""
	for p, err := range e.pendingOf(ctx, pendingQuery{stream: stream, group: g.Name, idle: e.pending}) {
		if err != nil {
			return err
		}
		if idle++; idle == 1 {
			oldest = p.ID
		}
		if !slices.Contains(owners, p.Consumer) && len(owners) < 3 {
			owners = append(owners, p.Consumer)
		}
		if idle == seekMost {
			break
		}
	}
	show := fmt.Sprintf("streamctl pending %s %s", stream, g.Name)
	if idle > 0 {
		e.found(problem, "pending-idle", subject,
			show+fmt.Sprintf(" --idle %s shows them; a process with a plain, claiming or reclaim= subscription of the group takes them", e.pending),
			"%s pending that nobody has touched for %s or longer, under %s; the oldest is %s",
			plural(idle, "entry is", "entries are"), e.pending, cell(strings.Join(owners, ", ")), oldest)
		return nil
	}
	for p, err := range e.pendingOf(ctx, pendingQuery{stream: stream, group: g.Name}) {
		if err != nil {
			return err
		}
		id, err := parseID(p.ID)
		if err != nil {
			return err
		}
		age := e.now.Sub(time.UnixMilli(int64(id.ms))) //nolint:gosec // one that is out of range was not made from a clock
		if _, ok := alive[p.Consumer]; ok && age >= e.pending {
			e.found(remark, "pending-long", subject, show+" shows what it has; give the subscription a timeout= if its handler hangs",
				"entry %s was published %s ago, and %s, which is alive, still has it: a long handler, or a long delay in memory", p.ID, span(age), cell(p.Consumer))
		}
		break
	}
	return nil
}

func (e *examination) lookAtLists(ctx context.Context) error {
	for _, list := range e.survey.ReliableLists() {
		owners, err := e.op.Owners(ctx, list)
		if err != nil {
			return err
		}
		held, living := int64(0), false
		for _, o := range owners {
			living = living || o.Living
			if !o.Living {
				held += o.InFlight + o.Aside
			}
		}
		if held > 0 && !living {
			e.found(problem, "in-flight", "list "+list, "start a process that subscribes to it: it puts them back",
				"%s in flight of processes that are not alive, and no process is alive that would put them back", plural(held, "item is", "items are"))
		}
	}
	return nil
}

func (e *examination) lookAtDelays(ctx context.Context) error {
	unknown := make(map[string]string)
	for _, stream := range e.survey.Streams {
		unknown[redisbroker.DeferredSet(stream)] = stream
	}
	for _, set := range e.survey.DelaySets {
		d, err := e.delaySet(ctx, set, e.now)
		if err != nil {
			return err
		}
		if late := e.now.Sub(d.first); d.messages > 0 && late >= e.overdue {
			e.found(problem, "overdue", "delay set "+set,
				"start a process whose subscription has it as delay-set, or move them: streamctl delayed run "+set+" --due",
				"%s due, the first for %s, and nobody moves them", plural(d.due, "message is", "messages are"), span(late))
		}
		stream, ok := unknown[set]
		if !ok || d.messages == 0 {
			continue
		}
		e.found(remark, "unknown-task", "stream "+stream, "start a process that knows the task; streamctl delayed ls "+set+" shows them",
			"%s for a process that knows the task (%s)", plural(d.messages, "message waits", "messages wait"), e.taskOf(ctx, set))
	}
	return nil
}

// taskOf is the task of the first message of a set.
func (e *examination) taskOf(ctx context.Context, set string) string {
	for d, err := range e.op.Delayed(ctx, set) {
		if err == nil {
			if task, ok := d.Message.Header(broker.HeaderTask); ok {
				return cell(task)
			}
		}
		break
	}
	return "or its version"
}

func (e *examination) lookAtLetters(ctx context.Context) error {
	all, err := e.letterKeys(ctx, e.survey)
	if err != nil {
		return err
	}
	for _, l := range all {
		if l.records == 0 || l.groups > 0 || len(e.survey.Living(l.key)) > 0 {
			continue // whether a group reads it is looked at with the streams
		}
		e.found(problem, "dead-letters", l.kind+" "+l.key,
			"streamctl dlq stats "+l.key+", then dlq replay or dlq purge; or mount a handler that reads it",
			"%s, and nobody reads them; the oldest was buried %s ago",
			plural(l.records, "dead letter", "dead letters"), span(e.now.Sub(l.oldest)))
	}
	return nil
}
