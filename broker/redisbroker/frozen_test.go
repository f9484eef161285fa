package redisbroker_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

// gate stands between a process and its server. While it is closed the answers to what is sent are held back, as for a
// process that stands still with a command under way.
type gate struct {
	mu     sync.Mutex
	closed bool
	opened chan struct{}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.opened = true, make(chan struct{})
}

// letOthersPass holds back no more than what is held back by now.
func (g *gate) letOthersPass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// behind returns a broker behind the gate.
func (g *gate) behind(t *testing.T, client *redis.Client, options ...redisbroker.Option) *redisbroker.Broker {
	t.Helper()
	o := *client.Options()
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &gatedConn{Conn: conn, gate: g}, nil
	}
	gated := redis.NewClient(&o)
	t.Cleanup(func() { _ = gated.Close() })
	b := redisbroker.FromClient(gated, options...)
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b
}

type gatedConn struct {
	net.Conn
	gate *gate
	// heldBack is guarded by the gate.
	heldBack bool
}

func (c *gatedConn) Write(b []byte) (int, error) {
	c.gate.mu.Lock()
	c.heldBack = c.heldBack || c.gate.closed
	c.gate.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.gate.mu.Lock()
	opened, heldBack := c.gate.opened, c.heldBack
	c.gate.mu.Unlock()
	if heldBack && opened != nil {
		<-opened
	}
	return n, err
}

// A process that stood still acts on a reply that is as old as that: what it was given may have gone to a peer, and been
// settled there, since. Neither a liveness key that is made again nor a refresh that is caught up with before it looks at
// the reply makes the entry its own again: its outcome is refused, and nothing is doubled.
func TestAReplyThatAFrozenProcessReadsLateProvesNothing(t *testing.T) {
	const frozen = 3 * time.Second
	for _, c := range []struct {
		name     string
		liveness time.Duration
		claim    time.Duration
		given    func(f *fixture) string // to the process that stands still
	}{
		{"a read, the key lapsed", ttl, 0, func(f *fixture) string { return f.add("_payload", "b") }},
		{"a claim, the key lapsed", ttl, ttl, (*fixture).leftByAPeer},
		{"a claim, the refresh was late", time.Minute, ttl, (*fixture).leftByAPeer},
	} {
		t.Run(c.name, func(t *testing.T) {
			paused(t, func(t *testing.T, client *redis.Client, _ func(...redisbroker.Option) *redisbroker.Broker) {
				g := new(gate)
				f := open(t, client, g.behind(t, client, redisbroker.Liveness(c.liveness)), broker.Source{Block: time.Second, Claim: c.claim})
				f.read(1) // nothing yet; the connections stand
				id := c.given(f)
				g.close()
				defer g.open()
				began := time.Now()
				given := make(chan []*broker.Delivery)
				go func() { given <- f.read(1) }()
				time.Sleep(frozen)
				// The peer takes what has been idle for so long, is done with it, and writes a copy.
				if err := client.Do(t.Context(), "XCLAIM", "s", "g", "peer", frozen.Milliseconds()-1, id, "RETRYCOUNT", 2, "JUSTID").Err(); err != nil {
					t.Fatal(err)
				}
				f.add("_payload", "b", "h:retry-count", "1")
				if n := client.XAck(t.Context(), "s", "g", id).Val(); n != 1 {
					t.Fatalf("the peer acknowledged %d", n)
				}
				// Awake again, the heartbeat comes first.
				g.letOthersPass()
				f.start()
				time.Sleep(ttl)
				g.open()
				ds := <-given
				if len(ds) != 1 || ds[0].ID != id {
					t.Fatalf("read %v", ds)
				}
				if !ds[0].HandedOut.Equal(began) {
					t.Errorf("handed out %s after the read began", ds[0].HandedOut.Sub(began))
				}
				if got := f.settle(broker.Settlement{Delivery: ds[0], Action: broker.Copy}); got != broker.Gone {
					t.Errorf("the outcome was %v", got)
				}
				if n := client.XLen(t.Context(), "s").Val(); n != 2 || len(f.pending()) != 0 {
					t.Errorf("%d entries, pending %v: want the one and the peer's copy", n, f.pending())
				}
			})
		})
	}
}

// leftByAPeer adds an entry that a peer left long ago.
func (f *fixture) leftByAPeer() string {
	f.t.Helper()
	id := f.add("_payload", "b")
	f.client.XReadGroup(f.t.Context(), &redis.XReadGroupArgs{Group: "g", Consumer: "peer", Streams: []string{"s", ">"}, Count: 1})
	f.client.Do(f.t.Context(), "XCLAIM", "s", "g", "peer", 0, id, "IDLE", 3_600_000, "RETRYCOUNT", 1, "JUSTID")
	return id
}

// A claiming process that stood still, and comes back before anybody else took what it holds, goes on with that: it takes
// nothing from itself.
func TestAProcessThatStoodStillTakesNothingFromItself(t *testing.T) {
	paused(t, func(t *testing.T, client *redis.Client, _ func(...redisbroker.Option) *redisbroker.Broker) {
		g := new(gate)
		f := open(t, client, g.behind(t, client, redisbroker.Liveness(ttl)), broker.Source{Block: time.Second, Claim: ttl})
		f.start()
		id := f.add("_payload", "b")
		f.one()
		left := f.leftByAPeer()
		g.close()
		time.Sleep(3 * ttl)
		// Awake again, the reader comes first.
		g.letOthersPass()
		defer g.open()
		if d := f.one(); d.ID != left || d.Count != 2 {
			t.Errorf("read %s with the count %d, want %s, which a peer left", d.ID, d.Count, left)
		}
		if p := f.pending(); len(p) != 2 || p[0].ID != id || p[0].RetryCount != 1 || p[0].Idle > ttl || len(f.lost) > 0 {
			t.Errorf("pending %v, lost %v", p, f.lost)
		}
	})
}

// An outcome that finds its entry gone although nobody can have had it puts it back: the other side of the above.
func TestAReplyThatComesInTimeProvesOwnership(t *testing.T) {
	for _, claim := range []time.Duration{0, 2 * time.Second} {
		t.Run(fmt.Sprint("claim=", claim), func(t *testing.T) {
			paused(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
				f := open(t, client, process(), broker.Source{Block: time.Second, Claim: claim})
				f.start()
				id := f.add("_payload", "b")
				d := f.one()
				time.Sleep(3 * ttl)
				client.XGroupDestroy(t.Context(), "s", "g")
				client.XGroupCreate(t.Context(), "s", "g", "$")
				st := broker.Settlement{Delivery: d, Action: broker.Copy}
				for range 2 {
					f.sub.Settle(t.Context(), []*broker.Settlement{&st})
				}
				if st.Result != broker.Done || client.XLen(t.Context(), "s").Val() != 2 {
					t.Errorf("the outcome of %s was %v, %v", id, st.Result, st.Err)
				}
			})
		})
	}
}

// A claiming process takes back its own entries when it was late to refresh them, and may not have seen the answer yet when
// it does: such an entry is its own with another count, and is neither lost nor left to look idle.
func TestARefreshFindsWhatTheProcessItselfHasTakenBack(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond, Claim: 2 * time.Second})
		f.add("_payload", "taken back")
		stolen := f.add("_payload", "stolen")
		ds := f.read(2)
		client.Do(t.Context(), "XCLAIM", "s", "g", f.consumer(), 0, ds[0].ID, "IDLE", 60_000, "RETRYCOUNT", 2, "JUSTID")
		client.Do(t.Context(), "XCLAIM", "s", "g", "peer", 0, stolen, "IDLE", 60_000, "RETRYCOUNT", 2, "JUSTID")
		f.start()
		eventually(t, "the refresh finds what a peer has", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return len(f.lost) > 0
		})
		p := f.pending()
		if len(p) != 2 || p[0].RetryCount != 2 || p[0].Idle > ttl || p[1].Consumer != "peer" || p[1].Idle < time.Minute {
			t.Errorf("pending %v", p)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, id := range f.lost {
			if id != stolen {
				t.Errorf("%s was reported lost", id)
			}
		}
	})
}
