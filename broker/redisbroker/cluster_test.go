package redisbroker_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// lossy is a connection that, while it is armed, delivers a command that contains the word and loses the reply.
type lossy struct {
	net.Conn
	word string
	arm  *atomic.Bool
	cut  atomic.Bool
}

func (c *lossy) Write(b []byte) (int, error) {
	if strings.Contains(strings.ToLower(string(b)), c.word) && c.arm.CompareAndSwap(true, false) {
		c.cut.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *lossy) Read(b []byte) (int, error) {
	if c.cut.Load() {
		_, _ = c.Conn.Read(b) // the server has carried the command out
		_ = c.Close()
		return 0, io.EOF
	}
	return c.Conn.Read(b)
}

// calls is how often the server was asked for a command.
func calls(t *testing.T, client *redis.Client, command string) (n int) {
	t.Helper()
	for line := range strings.Lines(client.Info(t.Context(), "commandstats").Val()) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			for _, digit := range rest {
				if digit < '0' || digit > '9' {
					break
				}
				n = 10*n + int(digit-'0')
			}
		}
	}
	return n
}

// The cluster client of go-redis sends a command again whose reply was lost. Ours must not: what the first one did is
// looked at before anything is repeated.
func TestNothingIsSentTwiceToACluster(t *testing.T) {
	for _, way := range []struct{ name, word, command string }{
		{"settled in a pipeline", "evalsha", "evalsha"},
		{"published", "xadd", "xadd"},
	} {
		t.Run(way.name, func(t *testing.T) {
			server := redistest.Cluster(t)
			options, err := redis.ParseClusterURL(server.URL())
			if err != nil {
				t.Fatal(err)
			}
			var arm atomic.Bool
			options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				if err != nil {
					return nil, err
				}
				return &lossy{Conn: conn, word: way.word, arm: &arm}, nil
			}
			given := redis.NewClusterClient(options)
			defer given.Close()
			b := redisbroker.FromClient(given)
			t.Cleanup(func() { _ = b.Close(context.Background()) })
			client := server.Client()
			f := open(t, client, b, broker.Source{Block: time.Second})
			f.add("_payload", "b")
			d := f.one()
			before := calls(t, client, way.command)
			arm.Store(true)
			if way.word == "xadd" {
				err = b.Publish(t.Context(), []broker.Outgoing{{To: broker.Stream("elsewhere"), Body: []byte("b")}})[0]
			} else {
				st := &broker.Settlement{Delivery: d, Action: broker.Copy}
				f.sub.Settle(t.Context(), []*broker.Settlement{st})
				if err = st.Err; err != nil && !st.Repeated {
					t.Error("a settlement whose reply was lost does not say that it may have been carried out")
				}
			}
			if err == nil || arm.Load() {
				t.Fatalf("no reply was lost: %v", err)
			}
			if n := calls(t, client, way.command) - before; n != 1 {
				t.Errorf("%s was called %d times", way.command, n)
			}
		})
	}
}

// A process that dies between the lease and the removal leaves the member to the others, who move it once.
func TestALeaseOfADeadMoverRunsOut(t *testing.T) {
	nodes := redistest.ClusterOf(t, 2)
	client := clusterClient(t, nodes[0])
	// The delay set and the stream are on different servers.
	set := "z"
	if serverOf(t, client, nodes, "s") == serverOf(t, client, nodes, set) {
		set = "z2"
	}
	of := serverOf(t, client, nodes, "s")
	if of == serverOf(t, client, nodes, set) {
		t.Fatal("choose other keys: both are on one server")
	}
	b := redisbroker.Cluster(nodes[0].URL())
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	f := open(t, of.Client(), b, broker.Source{Block: time.Second, DelaySet: set})
	f.add("_payload", "b")
	f.settle(broker.Settlement{Delivery: f.one(), Action: broker.Delay})

	// The stream's server takes no writes, so that the mover gets as far as the lease.
	if err := of.Client().Do(t.Context(), "CLIENT", "PAUSE", 60000, "WRITE").Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.task("mover")(ctx)
	}()
	leased := func() bool {
		z := client.ZRangeWithScores(t.Context(), set, 0, -1).Val()
		return len(z) == 1 && time.Until(time.UnixMilli(int64(z[0].Score))) > 25*time.Second
	}
	eventually(t, "the member is leased", leased)
	cancel() // and it dies there
	<-done
	eventually(t, "the server drops what the dead mover had sent", func() bool {
		return !strings.Contains(of.Client().ClientList(t.Context()).Val(), "cmd=xadd")
	})
	if err := of.Client().Do(t.Context(), "CLIENT", "UNPAUSE").Err(); err != nil {
		t.Fatal(err)
	}

	another := redisbroker.Cluster(nodes[1].URL())
	t.Cleanup(func() { _ = another.Close(context.Background()) })
	g := open(t, of.Client(), another, broker.Source{Block: 100 * time.Millisecond, DelaySet: set})
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	var movers sync.WaitGroup
	for range 2 {
		movers.Go(func() { g.task("mover")(ctx) })
	}
	if ds := g.read(1); len(ds) != 0 || !leased() {
		t.Fatalf("moved although it was leased: %v", ds)
	}
	// Half a minute later.
	for _, z := range client.ZRangeWithScores(t.Context(), set, 0, -1).Val() {
		client.ZAdd(t.Context(), set, redis.Z{Score: z.Score - 30_000, Member: z.Member})
	}
	if d := g.wait(); string(d.Body) != "b" {
		t.Errorf("moved %s", d.Body)
	}
	eventually(t, "the member is removed", func() bool { return client.ZCard(t.Context(), set).Val() == 0 })
	cancel()
	movers.Wait()
	if n := client.XLen(t.Context(), "s").Val(); n != 2 {
		t.Errorf("XLEN %d: moved %d times", n, n-1)
	}
}

// clusterClient is a client that reaches every key.
func clusterClient(t *testing.T, s *redistest.Server) *redis.ClusterClient {
	t.Helper()
	options, err := redis.ParseClusterURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClusterClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// serverOf is the server that keeps the key.
func serverOf(t *testing.T, client *redis.ClusterClient, nodes []*redistest.Server, key string) *redistest.Server {
	t.Helper()
	node, err := client.MasterForKey(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range nodes {
		if strings.Contains(s.URL(), node.Options().Addr) {
			return s
		}
	}
	t.Fatalf("nobody keeps %q: %v", key, errors.New(node.Options().Addr))
	return nil
}
