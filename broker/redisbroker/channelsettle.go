package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// errNotSubscribed keeps a copy back while nobody would receive it.
var errNotSubscribed = errors.New("the connection that receives the channel is lost: the copy waits until it stands again")

// copiesLeave are what a copy loses when it goes to a channel that the pattern does not match: the group and the counters
// never leave their source.
var copiesLeave = []string{broker.HeaderRetryGroup, broker.HeaderRetryCount, broker.HeaderLosses}

// Settle publishes the copies and dead letters of the batch in one round trip; everything else is done already, as the
// server keeps nothing of a channel.
//
// A message is published once. Where the reply is lost nobody knows whether it was, and the settlement ends as Done with a
// line in the log: the message is delivered at most once. An error is returned where the server refused it, or where
// nothing was sent. Unheard is what nobody received; on a cluster, where the answer counts one server's subscribers
// alone, it is not told.
func (c *channel) Settle(ctx context.Context, batch []*broker.Settlement) {
	var written []*broker.Settlement
	for _, st := range batch {
		if st.Action == broker.Ack || st.Action == broker.Keep {
			st.Result, st.Err = broker.Done, nil
		} else {
			written = append(written, st)
		}
	}
	if len(written) > 0 {
		c.pool.do(ctx, func(ctx context.Context) { c.settle(ctx, written) })
	}
}

func (c *channel) settle(ctx context.Context, batch []*broker.Settlement) {
	var sent []*broker.Settlement
	var commands []*redis.Cmd
	var targets []string
	pipe := c.client.Pipeline()
	untimed := c.stamp(ctx, batch)
	for _, st := range batch {
		st.Result, st.Err = c.unsent(st)
		if st.Action == broker.Bury {
			st.Err = untimed
		}
		if st.Result == 0 && st.Err == nil {
			target, message := c.publication(st)
			sent, commands, targets = append(sent, st), append(commands, pipe.Do(ctx, c.publish(), target, message)), append(targets, target)
		}
	}
	if len(sent) == 0 {
		return
	}
	if err := ctx.Err(); err != nil {
		for _, st := range sent {
			st.Err = err
		}
		return
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	unknown, cause := 0, error(nil)
	for i, st := range sent {
		heard, err := commands[i].Int64()
		switch {
		case err == nil && heard == 0 && !c.route().changes():
			st.Result = broker.Unheard
		case err == nil:
			st.Result = broker.Done
		case mayHaveArrived(err):
			st.Result = broker.Done
			unknown, cause = unknown+1, err
		default:
			st.Err = fmt.Errorf("%s of %s: %s: %w", describe(st.Action, c.source.Key, targets[i]), c.name(), c.publish(), err)
		}
	}
	if unknown > 0 {
		c.log.Warn("the server's answer to what was published was lost; nothing is published twice, so that it may not have been published at all",
			"source", c.name(), "messages", unknown, "error", cause.Error())
	}
}

// unsent is how a settlement ends for which nothing is published, and neither where something is to be.
func (c *channel) unsent(st *broker.Settlement) (broker.Result, error) {
	switch st.Action {
	case broker.Bury:
		return 0, nil
	case broker.Copy:
		switch {
		case !c.returns():
			return 0, nil
		case c.stopped.Load():
			c.lost.Add(1) // it is for this consumer, which reads no more
			return broker.Done, nil
		case !c.receiver.stands.Load():
			return 0, errNotSubscribed
		}
		return 0, nil
	}
	return 0, fmt.Errorf("%s of %s: a channel keeps nothing", st.Action, c.name())
}

// publication is what the settlement publishes, and on which channel.
func (c *channel) publication(st *broker.Settlement) (target string, message []byte) {
	if st.Action == broker.Bury {
		e := burialEnvelope(st)
		return st.Target, e.seal()
	}
	edits := st.Edits
	if !c.returns() {
		edits = leaving(edits)
	}
	e := editedEnvelope(st.Delivery, edits)
	return c.copiesTo(), e.seal()
}

// copiesTo is the channel of the copies. A pattern has none by itself.
func (c *channel) copiesTo() string {
	if c.source.Structure == broker.StructurePattern {
		return c.source.OutRetry
	}
	return c.source.Key
}

// leaving are the edits of a copy that leaves its source.
func leaving(edits broker.Edits) broker.Edits {
	return broker.Edits{
		Set: slices.DeleteFunc(slices.Clone(edits.Set), func(h broker.HeaderLine) bool {
			return slices.Contains(copiesLeave, h.Name)
		}),
		Remove: slices.Concat(edits.Remove, copiesLeave),
	}
}

// returns tells whether what is copied comes back to this source.
func (c *channel) returns() bool {
	return c.source.Structure != broker.StructurePattern || matches(c.source.Key, c.copiesTo())
}

// publish is the command that reaches the subscribers.
func (c *channel) publish() string {
	if c.source.Sharded {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

func (c *channel) route() route { return c.receiver.route }

// stamp gives every burial of the batch its time, by the server's clock.
func (c *channel) stamp(ctx context.Context, batch []*broker.Settlement) error {
	if !slices.ContainsFunc(batch, func(st *broker.Settlement) bool { return st.Action == broker.Bury }) {
		return nil
	}
	now, err := c.client.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("a dead letter of %s: TIME: %w", c.name(), err)
	}
	for _, st := range batch {
		if st.Action == broker.Bury {
			st.Burial.At = now
		}
	}
	return nil
}
