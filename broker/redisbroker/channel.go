package redisbroker

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// channel is the subscription of one channel or pattern. The server keeps nothing of what it publishes: a message is in
// this process alone from the moment it is received, and gone with it.
type channel struct {
	source broker.Source
	config broker.Config
	// consumer names this subscription alone: another one of the same process has had the message as well.
	consumer string
	address  string
	client   redis.UniversalClient
	pool     *connections // of client
	log      *slog.Logger
	receiver *receiver
	backlog  *backlog

	stopped atomic.Bool
	stop    chan struct{} // closed with stopped
	// lost are copies that came after the stop: they were meant for this consumer, which reads no more.
	lost atomic.Int64
	// ids numbers the deliveries. It belongs to the goroutine that reads.
	ids uint64
}

var _ broker.Subscription = (*channel)(nil)

// channels numbers the subscriptions of the process.
var channels atomic.Int64

// subscribeChannel subscribes (SUBSCRIBE, PSUBSCRIBE or SSUBSCRIBE) on a connection of its own, and returns when the server
// has confirmed it: what is published from then on is received.
func (b *Broker) subscribeChannel(ctx context.Context, config broker.Config) (broker.Subscription, error) {
	client, err := b.pool()
	if err != nil {
		return nil, err
	}
	c := &channel{
		source: config.Source, config: config, consumer: b.token + "-" + strconv.FormatInt(channels.Add(1), 10), address: b.Address(),
		client: client, pool: b.connections, log: config.Logger, backlog: newBacklog(), stop: make(chan struct{}),
	}
	c.receiver = newReceiver(c.source, client, c.log, c.received)
	// Silence is in order for as long as it takes to find that it is not, however short the source's block is.
	silence := max(pingAfter+pongWithin-2*c.source.Block-5*time.Second, 0)
	c.receiver.pulse = config.Pulse.Of(broker.CheckRead, silence)
	err = c.checkDeadLetter()
	if err == nil {
		err = c.checkPermissions(ctx)
	}
	if err == nil {
		err = c.receiver.open(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %q at %s: %w", c.source.Structure, c.source.Key, c.address, err)
	}
	return c, nil
}

// checkDeadLetter refuses a pattern that would read what it has buried.
func (c *channel) checkDeadLetter() error {
	dead := c.config.DeadLetter
	if c.source.Structure != broker.StructurePattern || dead == "" || !matches(c.source.Key, dead) {
		return nil
	}
	return fmt.Errorf("the dead letter %q is a channel that the pattern matches, so what is buried would be read again for ever; name another one", dead)
}

// Capabilities: nothing is acknowledged, and a copy is for this consumer alone, since every other one that subscribes has
// had the message, too.
func (c *channel) Capabilities() broker.Capabilities {
	return broker.Capabilities{Addressee: c.consumer, PacksFailures: true}
}

// received takes what the receiver reads.
func (c *channel) received(m published) {
	dropped, began := c.backlog.put(m)
	if began {
		c.log.Warn("the handlers are slower than what is published: the oldest messages that wait are dropped",
			"source", c.name(), "messages", backlogMessages, "bytes", backlogBytes)
	}
	for range dropped {
		c.config.Discarded(whyDropped)
	}
}

// The reasons with which a message is counted that is gone without an outcome.
const (
	whyDropped = "dropped"
	whyStopped = "stopped"
)

// Read takes from what has been received.
func (c *channel) Read(ctx context.Context, want broker.Want) ([]*broker.Delivery, error) {
	var timer *time.Timer
	for {
		if c.stopped.Load() {
			return nil, broker.ErrClosed
		}
		messages, dropped := c.backlog.take(want.New)
		if dropped > 0 {
			c.log.Warn("the handlers have caught up with what is published", "source", c.name(), "dropped", dropped)
		}
		if len(messages) > 0 {
			return c.deliveries(messages), nil
		}
		if timer == nil {
			timer = time.NewTimer(c.source.Block)
			defer timer.Stop()
		}
		select {
		case <-c.backlog.ready:
		case <-c.stop:
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *channel) deliveries(messages []published) []*broker.Delivery {
	now := time.Now()
	all := make([]*broker.Delivery, len(messages))
	id := append([]byte(c.consumer), '-')
	for i, m := range messages {
		c.ids++
		d := envelopeDelivery(string(strconv.AppendUint(id, c.ids, 10)), []byte(m.data))
		d.HandedOut = now
		if c.source.Structure == broker.StructurePattern {
			d.Channel = m.channel
		}
		all[i] = d
	}
	return all
}

// Stop ends reading. What has been received and not read is lost, and Release counts it.
func (c *channel) Stop(context.Context) {
	if !c.stopped.Swap(true) {
		close(c.stop)
	}
	c.receiver.stop()
}

// Tasks: the receiver runs from the moment at which the server has confirmed the subscription.
func (c *channel) Tasks() []broker.Task { return nil }

// Release counts what the stop has cost. Nothing can be handed back to a channel.
func (c *channel) Release(ctx context.Context, held []broker.Held) error {
	c.Stop(ctx)
	left, dropped := c.backlog.empty()
	if dropped > 0 {
		c.log.Warn("the handlers had not caught up with what was published", "source", c.name(), "dropped", dropped)
	}
	unread, unsettled, copies := left, len(held), int(c.lost.Load())
	lost := unread + unsettled + copies
	for range lost {
		c.config.Discarded(whyStopped)
	}
	if lost > 0 {
		c.log.Warn("messages of the channel were lost with the stop", "source", c.name(), "lost", lost,
			"unread", unread, "unsettled", unsettled, "retries", copies)
	}
	return nil
}

func (c *channel) name() string { return c.source.Structure.String() + " " + c.source.Key }
