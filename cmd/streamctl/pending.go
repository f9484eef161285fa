package main

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/broker"
)

// failureUnit is what one failure counts in a delivery count: 1000 × failures + losses, and 1 while it is in hand.
const failureUnit = 1000

// lossesOf is how many owners an entry has lost, as far as its count tells: one that waits in memory for its delay has no 1
// for the hand-out, and looks as if it had lost one less.
func lossesOf(p *redis.XPendingExt) int64 {
	losses := p.RetryCount % failureUnit
	if p.Consumer != freeConsumer && losses > 0 {
		losses--
	}
	return losses
}

// pendingQuery says which pending entries are meant.
type pendingQuery struct {
	stream, group, consumer string
	idle                    time.Duration
	first                   entryID
}

// pendingOf goes through pending entries, the oldest first, a page at a time (XPENDING).
func (s *session) pendingOf(ctx context.Context, q pendingQuery) iter.Seq2[redis.XPendingExt, error] {
	return func(yield func(redis.XPendingExt, error) bool) {
		for first := q.first; ; {
			page, err := s.client().XPendingExt(ctx, &redis.XPendingExtArgs{
				Stream: q.stream, Group: q.group, Consumer: q.consumer, Idle: q.idle, Start: first.String(), End: "+", Count: seekPage,
			}).Result()
			if err != nil {
				yield(redis.XPendingExt{}, fmt.Errorf("XPENDING %q %q: %w", q.stream, q.group, err))
				return
			}
			for _, p := range page {
				if !yield(p, nil) {
					return
				}
			}
			if len(page) < seekPage {
				return
			}
			id, err := parseID(page[len(page)-1].ID)
			if err != nil {
				yield(redis.XPendingExt{}, err)
				return
			}
			first = id.next()
		}
	}
}

func newPending(s *session) *cobra.Command {
	var q pendingQuery
	var limit int
	cmd := &cobra.Command{
		Use:   "pending KEY [GROUP]",
		Short: "List what is in somebody's hands: delivered, and not settled",
		Long: `Pending lists what a group was given and has not settled, or what is in flight of a reliable list, and in whose hands it
is. Of a process that is alive, IDLE is short however long its handler has been running: it keeps its entries from looking
idle. DELIVERIES is the server's own count, in which this library keeps what no header says: 1000 for each failure, 1 for
each lost owner, and 1 while a handler has it. A claiming subscription without app.MaxDeliveries leaves the count to the
server, which counts every hand-out.`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: s.completeGroups,
		RunE: s.online(func(ctx context.Context, args []string) error {
			q.stream = s.key(args[0])
			kind, err := s.kindOf(ctx, q.stream)
			if err != nil {
				return err
			}
			if kind == "list" {
				return s.listInFlight(ctx, q.stream, q.consumer, s.limit(limit))
			}
			name := ""
			if len(args) > 1 {
				name = args[1]
			}
			g, err := s.groupOf(ctx, q.stream, name)
			if err != nil {
				return err
			}
			q.group = g.Name
			return s.listPending(ctx, q, s.limit(limit))
		}),
	}
	cmd.Flags().StringVar(&q.consumer, "consumer", "", "only what this consumer has, by its `NAME`")
	cmd.Flags().DurationVar(&q.idle, "idle", 0, "only what nobody has touched for `DURATION`, such as 5m (streams)")
	limitFlag(cmd, &limit)
	return cmd
}

// pendingJSON is a pending entry for a program.
type pendingJSON struct {
	ID         string  `json:"id"`
	Consumer   string  `json:"consumer"`
	State      string  `json:"state"`
	Idle       float64 `json:"idle_seconds"`
	Age        float64 `json:"age_seconds"`
	Deliveries int64   `json:"deliveries"`
	Failures   int64   `json:"failures"`
	Losses     int64   `json:"losses"`
}

func (s *session) listPending(ctx context.Context, q pendingQuery, limit int) error {
	living, err := s.op.Living(ctx, q.stream)
	if err != nil {
		return err
	}
	now, err := s.client().Time(ctx).Result()
	if err != nil {
		return err
	}
	alive := inGroup(living, q.group)
	list := s.listing("ID", "CONSUMER", "STATE", "IDLE", "AGE", "DELIVERIES", "FAILURES", "LOSSES")
	n := 0
	for p, err := range s.pendingOf(ctx, q) {
		if err != nil {
			return err
		}
		if n++; limit > 0 && n > limit {
			s.say("the first %d; --limit 0 shows all", limit)
			break
		}
		object := pendingJSON{
			ID: p.ID, Consumer: p.Consumer, State: state(p.Consumer, alive), Idle: p.Idle.Seconds(), Deliveries: p.RetryCount,
			Failures: p.RetryCount / failureUnit, Losses: lossesOf(&p),
		}
		age := "-"
		if id, err := parseID(p.ID); err == nil {
			d := now.Sub(time.UnixMilli(int64(id.ms))) //nolint:gosec // one that is out of range was not made from a clock
			object.Age, age = d.Seconds(), span(d)
		}
		err := list.add(object, p.ID, cell(p.Consumer), object.State, span(p.Idle), age, number(p.RetryCount),
			number(object.Failures), number(object.Losses))
		if err != nil {
			return err
		}
	}
	return list.end("nothing is pending in group " + q.group + " of " + q.stream)
}

// inFlightJSON is an item of a reliable list that is in flight, for a program.
type inFlightJSON struct {
	Consumer  string               `json:"consumer"`
	State     string               `json:"state"`
	Where     string               `json:"where"`
	MessageID string               `json:"message_id,omitempty"`
	Failures  string               `json:"failures"`
	Losses    string               `json:"losses"`
	Headers   map[string]bytesJSON `json:"headers"`
	Payload   *bytesJSON           `json:"payload"`
}

func (s *session) listInFlight(ctx context.Context, key, consumer string, limit int) error {
	owners, err := s.op.Owners(ctx, key)
	if err != nil {
		return err
	}
	most := limit
	if most == 0 {
		most = seekMost
	}
	list := s.listing("CONSUMER", "STATE", "WHERE", "MESSAGE", "FAILURES", "LOSSES", "PAYLOAD")
	n := 0
	for _, o := range owners {
		if consumer != "" && o.Consumer != consumer {
			continue
		}
		state := "not alive"
		if o.Living {
			state = "alive"
		}
		for _, where := range []string{"in flight", "aside"} {
			items, err := s.op.InFlight(ctx, key, o.Name, where == "aside", most)
			if err != nil {
				return err
			}
			for _, d := range items {
				if n++; limit > 0 && n > limit {
					s.say("the first %d; --limit 0 shows all", limit)
					return list.end("")
				}
				object := inFlightJSON{
					Consumer: o.Consumer, State: state, Where: where, Failures: counter(d, broker.HeaderRetryCount),
					Losses: counter(d, broker.HeaderLosses), Headers: headersJSON(d.Headers), Payload: payloadJSON(d.Body, d.HasBody),
				}
				object.MessageID, _ = d.Header(broker.HeaderMessageID)
				err := list.add(object, cell(o.Consumer), state, where, cell(or(object.MessageID)), object.Failures, object.Losses, cell(string(d.Body)))
				if err != nil {
					return err
				}
			}
		}
	}
	return list.end("nothing is in flight of " + key)
}

// counter is a header that counts.
func counter(d *broker.Delivery, name string) string {
	if text, ok := d.Header(name); ok && strings.Trim(text, "0123456789") == "" && text != "" {
		return text
	}
	return "0"
}
