package redisbroker_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/embedded"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

// network is the way to an embedded server, which fails when told to. Safe for concurrent use.
type network struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	down  bool // nothing can be dialed
	dials int
	open  []*wire
}

// wire is one connection. A silent one passes nothing on any more, and says nothing of it.
type wire struct {
	net.Conn
	mu       sync.Mutex
	silent   bool
	deadline time.Time
	woken    chan struct{} // closed when the deadline changes, and when the wire is closed
	closed   bool
}

func newNetwork(server *embedded.Server) *network {
	client := server.Client()
	defer client.Close()
	return &network{dial: client.Options().Dialer}
}

// broker is a broker that goes to the server by the network.
func (n *network) broker(t *testing.T, server *embedded.Server) *redisbroker.Broker {
	client := server.Client()
	options := *client.Options()
	_ = client.Close() // only its options are taken
	options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		n.mu.Lock()
		n.dials++
		down := n.down
		n.mu.Unlock()
		if down {
			return nil, errors.New("the network is down")
		}
		conn, err := n.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w := &wire{Conn: conn, woken: make(chan struct{})}
		n.mu.Lock()
		n.open = append(n.open, w)
		n.mu.Unlock()
		return w, nil
	}
	way := redis.NewClient(&options)
	t.Cleanup(func() { _ = way.Close() })
	b := redisbroker.FromClient(way)
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b
}

func (n *network) setDown(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
}

// each does something to every connection that was made so far.
func (n *network) each(f func(*wire)) {
	n.mu.Lock()
	open := n.open
	n.mu.Unlock()
	for _, w := range open {
		f(w)
	}
}

func (n *network) dialed() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

func (w *wire) mute() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = true
}

func (w *wire) changed() { close(w.woken); w.woken = make(chan struct{}) }

func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	w.deadline = t
	w.changed()
	w.mu.Unlock()
	return w.Conn.SetReadDeadline(t)
}

func (w *wire) Close() error {
	w.mu.Lock()
	w.closed = true
	w.changed()
	w.mu.Unlock()
	return w.Conn.Close()
}

func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	silent := w.silent
	w.mu.Unlock()
	if silent {
		return len(b), nil
	}
	return w.Conn.Write(b)
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	for {
		w.mu.Lock()
		silent, closed, deadline, woken := w.silent, w.closed, w.deadline, w.woken
		w.mu.Unlock()
		switch {
		case !silent || err != nil:
			return n, err
		case closed:
			return 0, net.ErrClosed
		case !deadline.IsZero() && !time.Now().Before(deadline):
			return 0, os.ErrDeadlineExceeded
		}
		wait := time.Hour
		if !deadline.IsZero() {
			wait = time.Until(deadline)
		}
		select {
		case <-time.After(wait):
		case <-woken:
		}
	}
}

// onTheNetwork runs the body on the paused clock, with a broker that goes to an embedded server by a network.
func onTheNetwork(t *testing.T, body func(t *testing.T, client *redis.Client, b *redisbroker.Broker, n *network)) {
	synctest.Test(t, func(t *testing.T) {
		server := embedded.NewServer()
		client := server.Client()
		t.Cleanup(func() { _ = client.Close(); server.Close() })
		n := newNetwork(server)
		body(t, client, n.broker(t, server), n)
	})
}

func TestAConnectionThatFallsSilentIsNoticedWithinSeconds(t *testing.T) {
	onTheNetwork(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker, n *network) {
		l := listen(t, b, broker.Source{Key: "prices"})
		// Nothing is published for an hour, and the connection stands.
		time.Sleep(time.Hour)
		if log := l.log.String(); log != "" {
			t.Fatalf("an idle subscription is not left in peace:\n%s", log)
		}
		n.each((*wire).mute)
		time.Sleep(16 * time.Second) // 10 s until the PING, 5 s for its answer, and a new connection
		publish(t, client, "prices", "after")
		if d := l.read(1)[0]; string(d.Body) != "after" {
			t.Errorf("%+v", d)
		}
		if log := l.log.String(); !strings.Contains(log, "does not answer a PING") || !strings.Contains(log, "missed=") {
			t.Error(log)
		}
	})
}

func TestAServerThatIsDownForLongCostsLittle(t *testing.T) {
	onTheNetwork(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker, n *network) {
		l := listen(t, b, broker.Source{Key: "prices"})
		before := n.dialed()
		n.setDown(true)
		n.each(func(w *wire) { _ = w.Close() })
		time.Sleep(time.Hour)
		if tries := n.dialed() - before; tries > 3600/2 {
			t.Errorf("%d connections were tried within an hour", tries)
		}
		// A copy waits for the connection: nobody else would take it.
		st := broker.Settlement{Delivery: &broker.Delivery{ID: "1", Raw: []byte("copy")}, Action: broker.Copy}
		l.sub.Settle(t.Context(), []*broker.Settlement{&st})
		if st.Err == nil || st.Result != 0 {
			t.Errorf("a copy while the connection is lost: %v, %v", st.Result, st.Err)
		}
		n.setDown(false)
		l.logged("missed=1h0m")
		if lines := strings.Count(l.log.String(), "\n"); lines != 2 {
			t.Errorf("%d lines:\n%s", lines, l.log)
		}
		if got := l.settle(st); got != broker.Done {
			t.Errorf("the copy: %v", got)
		}
		if d := l.read(1)[0]; string(d.Body) != "copy" {
			t.Errorf("%+v", d)
		}
	})
}

func TestAStopDoesNotWaitForAServerThatStandsStill(t *testing.T) {
	onTheNetwork(t, func(t *testing.T, _ *redis.Client, b *redisbroker.Broker, n *network) {
		l := listen(t, b, broker.Source{Key: "prices", Block: time.Hour})
		n.each((*wire).mute)
		began := time.Now()
		l.release()
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
		n.setDown(true)
		other := newListener(t)
		if _, err := b.Subscribe(t.Context(), other.config(b, broker.Source{Key: "prices"})); err == nil {
			t.Error("it subscribes")
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the start took %v to fail", took)
		}
	})
}
