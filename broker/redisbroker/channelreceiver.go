package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// confirmWithin is how long the server may take to confirm a subscription.
const confirmWithin = 5 * time.Second

// receiver keeps one channel or pattern subscribed, on a connection of its own, and puts what comes into the backlog. It
// reads on however slow the handlers are. What is published while the connection is lost is missed: the receiver says so
// once when it begins and once when it is over.
type receiver struct {
	source broker.Source
	route  route
	log    *slog.Logger
	into   func(published)
	pulse  broker.Pulse

	// stands: the server has confirmed the subscription, and the connection is not known to be lost.
	stands atomic.Bool

	ctx   context.Context // ends with stop
	end   context.CancelFunc
	ended chan struct{} // closed when nothing is received any more

	mu   sync.Mutex // guards conn; not held over I/O
	conn *channelConnection

	// What follows belongs to run. client and pubsub are replaced with every connection.
	client *redis.Client
	pubsub *redis.PubSub
}

func newReceiver(source broker.Source, client redis.UniversalClient, log *slog.Logger, into func(published)) *receiver {
	ctx, end := context.WithCancel(context.Background())
	return &receiver{
		source: source, route: route{client, source.Key}, log: log, into: into,
		ctx: ctx, end: end, ended: make(chan struct{}),
	}
}

// command is how the source is subscribed to.
func (r *receiver) command() string {
	switch {
	case r.source.Structure == broker.StructurePattern:
		return "PSUBSCRIBE"
	case r.source.Sharded:
		return "SSUBSCRIBE"
	}
	return "SUBSCRIBE"
}

// open subscribes. It returns when the server has confirmed it, and from then on everything is received.
func (r *receiver) open(ctx context.Context) error {
	if err := r.connect(ctx, false); err != nil {
		r.end()
		return fmt.Errorf("%s: %w", r.command(), err)
	}
	go r.run()
	return nil
}

// connect makes a connection, subscribes on it and waits for the confirmation. anew: the server of before may not be the
// right one any more. A server that keeps another slot than the channel's says so.
func (r *receiver) connect(ctx context.Context, anew bool) error {
	ctx, cancel := context.WithTimeout(ctx, confirmWithin)
	defer cancel()
	for n := 0; ; n++ {
		err := r.subscribe(ctx, anew || n > 0)
		if !redirected(err) || n == redirects {
			return err
		}
	}
}

func (r *receiver) subscribe(ctx context.Context, anew bool) error {
	node, err := r.route.node(ctx, anew)
	if err != nil {
		return err
	}
	r.client = redis.NewClient(r.options(node))
	switch name := r.source.Key; r.command() {
	case "PSUBSCRIBE":
		r.pubsub = r.client.PSubscribe(ctx)
		err = r.pubsub.PSubscribe(ctx, name)
	case "SSUBSCRIBE":
		r.pubsub = r.client.SSubscribe(ctx)
		err = r.pubsub.SSubscribe(ctx, name)
	default:
		r.pubsub = r.client.Subscribe(ctx)
		err = r.pubsub.Subscribe(ctx, name)
	}
	var answer any
	if err == nil {
		answer, err = r.pubsub.ReceiveTimeout(ctx, confirmWithin)
	}
	if _, confirmed := answer.(*redis.Subscription); err == nil && !confirmed {
		err = fmt.Errorf("the server answers with a %T", answer)
	}
	if err != nil {
		r.hangUp()
		return hide(err)
	}
	r.stands.Store(true)
	r.pulse(nil)
	return nil
}

// options are those of the general client, for one connection that waits for what is published.
func (r *receiver) options(node *redis.Client) *redis.Options {
	options := *node.Options()
	// Version 3 of the protocol would have every message looked at twice.
	options.Protocol = 2
	options.MaxRetries, options.DialerRetries = -1, 1
	options.PoolSize, options.MinIdleConns, options.PipelinePoolSize = 1, 0, -1
	dial := dialer(options.Dialer)
	dialed := false
	options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dialed {
			// go-redis would connect again at once, on its own account: when to do so is the receiver's to say.
			return &unreachable{net.ErrClosed}, nil
		}
		dialed = true
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := newChannelConnection(conn, r.pulse)
		r.mu.Lock()
		r.conn = c
		r.mu.Unlock()
		if r.ctx.Err() != nil {
			_ = c.Close() // stop came meanwhile and did not see it
		}
		return c, nil
	}
	return &options
}

// run receives until stop.
func (r *receiver) run() {
	defer close(r.ended)
	for {
		err := r.receive()
		r.stands.Store(false)
		heard := r.heard()
		r.hangUp()
		if r.ctx.Err() != nil {
			return
		}
		r.pulse(err)
		r.log.Warn("the connection that receives what is published was lost; what is published until it stands again is missed",
			"source", r.source.Structure.String()+" "+r.source.Key, "error", err.Error())
		tries, err := r.reconnect()
		if err != nil {
			return
		}
		r.log.Info("the connection that receives what is published stands again",
			"source", r.source.Structure.String()+" "+r.source.Key, "missed", time.Since(heard).Round(time.Millisecond), "tries", tries)
	}
}

// receive returns when the connection is lost.
func (r *receiver) receive() error {
	for {
		message, err := r.pubsub.Receive(r.ctx)
		switch m := message.(type) {
		case *redis.Message:
			r.into(published{m.Channel, m.Payload})
		case *redis.Subscription:
			// In a cluster the server ends a subscription when the channel's slot goes to another one.
			return fmt.Errorf("the server has ended the subscription: %s", m)
		}
		// A server that refuses the PING has answered it.
		if err != nil && !isReply(err) {
			return err
		}
	}
}

// reconnect tries until the subscription stands or the receiver is stopped, and waits longer each time.
func (r *receiver) reconnect() (tries int, err error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		timer := time.NewTimer(pause/2 + rand.N(pause/2)) //nolint:gosec // jitter
		select {
		case <-timer.C:
		case <-r.ctx.Done():
			timer.Stop()
			return tries, r.ctx.Err()
		}
		tries++
		err := r.connect(r.ctx, true)
		if err == nil {
			return tries, nil
		}
		r.pulse(fmt.Errorf("%s: %w", r.command(), err))
		if isReply(err) && !redirected(err) {
			// A server that answers and refuses will not be talked round by asking more often.
			pause = longestPause
		}
	}
}

// heard is when the connection last brought something.
func (r *receiver) heard() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn.heard
}

// hangUp frees the connection and its client.
func (r *receiver) hangUp() {
	_ = errors.Join(r.pubsub.Close(), r.client.Close()) // nothing is received from it any more
}

// stop ends receiving and returns when it has ended.
func (r *receiver) stop() {
	r.end()
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // what waits for it returns
	}
	<-r.ended
}
