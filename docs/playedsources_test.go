package docs_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// source is one column of the table.
type source struct {
	name    string
	spec    streamrt.Spec
	options []app.MountOption
	// channel is where messages are published, "" where the server keeps them.
	channel string
}

// sources are the columns, in their order. What they read is "in".
var sources = []source{
	{name: "stream", spec: streamrt.Spec{Stream: "in", Group: "g"}},
	{name: "claiming stream", spec: streamrt.Spec{Stream: "in", Group: "g", Claim: claim}},
	{name: "foreign stream", spec: streamrt.Spec{Stream: "in", Group: "g", Foreign: true}},
	{name: "reliable list", spec: streamrt.Spec{List: "in", Reliable: true}},
	{name: "plain list", spec: streamrt.Spec{List: "in"}},
	{name: "channel", spec: streamrt.Spec{Channel: "in"}, channel: "in"},
	{name: "pattern", spec: streamrt.Spec{Pattern: "in.*"}, options: []app.MountOption{app.OutRetry("in.again")}, channel: "in.one"},
}

func (s *source) keepsNothing() bool { return s.channel != "" }

// publish writes messages, in one step, as a program does that knows nothing of us.
func (p *play) publish(bodies ...string) {
	p.T().Helper()
	ctx := p.T().Context()
	_, err := p.Client().TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, body := range bodies {
			if p.malformed {
				body = "{"
			}
			switch {
			case p.spec.Foreign:
				pipe.XAdd(ctx, &redis.XAddArgs{Stream: "in", Values: []any{"page", body}})
			case p.spec.Stream != "":
				pipe.XAdd(ctx, &redis.XAddArgs{Stream: "in", Values: []any{"_payload", body}})
			case p.spec.List != "":
				pipe.LPush(ctx, "in", body)
			default:
				pipe.Publish(ctx, p.channel, body)
			}
		}
		return nil
	})
	if err != nil {
		p.T().Fatal(err)
	}
}

// state is what the server has of the messages of a play.
type state struct {
	// written is how many messages were ever written to the stream, or published. A list does not tell.
	written int64
	// waiting is what stands in the list, inHand what is pending or in flight, delayed what waits in a set.
	waiting, inHand, delayed int64
	letters                  int64
	letter                   string
}

func (p *play) look() (s state) {
	ctx, client := p.T().Context(), p.Client()
	s.delayed = client.ZCard(ctx, "in.delayed").Val() + client.ZCard(ctx, "{in}:deferred").Val()
	switch {
	case p.spec.Stream != "":
		s.written = client.XLen(ctx, "in").Val()
		s.inHand = client.XPending(ctx, "in", "g").Val().Count
		for _, letter := range client.XRange(ctx, "dlq", "-", "+").Val() {
			s.letters++
			reason, _ := letter.Values[broker.FieldReason].(string)
			s.letter = broker.FieldReason + " " + reason
		}
	case p.spec.List != "":
		s.waiting = client.LLen(ctx, "in").Val()
		for _, kind := range []string{"inflight", "aside"} {
			for _, key := range client.Keys(ctx, "{in}:"+kind+"::*").Val() {
				s.inHand += client.LLen(ctx, key).Val()
			}
		}
		for _, letter := range client.LRange(ctx, "dlq", 0, -1).Val() {
			s.letters, s.letter = s.letters+1, letter
		}
	default:
		s.written, s.letters, s.letter = p.spy.heard()
	}
	return s
}

// died tells whether there is one dead letter, with the reason.
func (s state) died(reason string) bool {
	_, rest, ok := strings.Cut(s.letter, broker.FieldReason)
	return ok && s.letters == 1 && strings.Contains(rest[:min(len(rest), len(reason)+3)], reason)
}

// spy hears what is published.
type spy struct {
	sub *redis.PubSub
	all <-chan *redis.Message

	written, letters int64
	letter           string
}

func (p *play) listen(h *apptest.H) *spy {
	ctx := h.T().Context()
	s := &spy{sub: h.Client().PSubscribe(ctx, "in", "in.*", "dlq")}
	for range 3 {
		if _, err := s.sub.Receive(ctx); err != nil {
			h.T().Fatal(err)
		}
	}
	s.all = s.sub.Channel(redis.WithChannelHealthCheckInterval(0))
	return s
}

func (s *spy) heard() (written, letters int64, letter string) {
	for len(s.all) > 0 {
		if m := <-s.all; m.Channel == "dlq" {
			s.letters, s.letter = s.letters+1, m.Payload
		} else {
			s.written++
		}
	}
	return s.written, s.letters, s.letter
}

func (s *spy) close() { _ = s.sub.Close() }

// lifeline is all connections of a process.
type lifeline struct {
	mu    sync.Mutex
	dead  bool
	conns []net.Conn
}

// mortal returns a broker whose connections can be cut.
func mortal(h *apptest.H) (broker.Broker, *lifeline) {
	l := new(lifeline)
	options := *h.Client().Options()
	dial := options.Dialer
	options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return l.tie(conn)
	}
	client := redis.NewClient(&options)
	defer client.Close() // it has no connection: only its options are taken
	return redisbroker.FromClient(client), l
}

func (l *lifeline) tie(conn net.Conn) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		_ = conn.Close()
		return nil, errors.New("the process is dead")
	}
	l.conns = append(l.conns, conn)
	return conn, nil
}

func (l *lifeline) cut() {
	l.mu.Lock()
	conns := l.conns
	l.dead, l.conns = true, nil
	l.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// discardedBy is what a subscription has counted as discarded, by why.
func (p *play) discardedBy(subscription string) map[string]int64 {
	var data metricdata.ResourceMetrics
	if err := p.meters.Collect(context.Background(), &data); err != nil {
		p.T().Fatal(err)
	}
	counted := map[string]int64{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if !ok || m.Name != "millrace.discarded" {
				continue
			}
			for _, point := range sum.DataPoints {
				name, _ := point.Attributes.Value("subscription")
				why, _ := point.Attributes.Value("why")
				if name.AsString() == subscription {
					counted[why.AsString()] += point.Value
				}
			}
		}
	}
	return counted
}
