package redistest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Watched is a master and its replica, and the sentinel that watches them. It is valid until the test that it was given
// to ends.
type Watched struct {
	// Name is what the sentinel calls the master.
	Name string
	// Servers are the master and the replica of the start; a failover swaps their roles.
	Servers  []*Server
	sentinel *url.URL
	asks     *redis.SentinelClient
}

// Sentinel starts a master, a replica and a sentinel, and ends them with the test. The replica is in step and the
// sentinel knows it when it returns. A master that does not answer is given up after two seconds. They are of the kind
// that [Own] would give.
func Sentinel(t testing.TB) *Watched {
	t.Helper()
	const name = "watched"
	w := &Watched{Name: name}
	describe := func(ports []int) []member {
		server := func(port int, more ...string) member {
			return member{port: port, args: append([]string{
				"--port", strconv.Itoa(port), "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0",
				"--replica-announce-ip", "127.0.0.1", "--repl-ping-replica-period", "1",
			}, more...)}
		}
		config := fmt.Sprintf(`port %d
sentinel announce-ip 127.0.0.1
sentinel monitor %s 127.0.0.1 %d 1
sentinel down-after-milliseconds %[2]s 2000
sentinel failover-timeout %[2]s 10000
`, ports[2], name, ports[0])
		return []member{
			server(ports[0]),
			server(ports[1], "--replicaof", "127.0.0.1", strconv.Itoa(ports[0])),
			{port: ports[2], args: []string{"{dir}/sentinel.conf", "--sentinel"}, files: map[string][]byte{"sentinel.conf": []byte(config)}},
		}
	}
	k := firstStartable(t)
	w.Servers = startGroup(t, k, func(ctx context.Context) ([]*instance, error) { return launchGroup(ctx, k, 3, describe, connect) })
	w.sentinel = w.Servers[2].in.base
	w.Servers = w.Servers[:2]
	w.asks = redis.NewSentinelClient(&redis.Options{Addr: w.sentinel.Host})
	t.Cleanup(func() { _ = w.asks.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := w.ready(ctx); err != nil {
		t.Fatalf("redistest: wait for the sentinel: %v", err)
	}
	return w
}

// ready waits until the sentinel knows a replica that is in step.
func (w *Watched) ready(ctx context.Context) error {
	for {
		replicas, err := w.asks.Replicas(ctx, w.Name).Result()
		if err == nil && len(replicas) > 0 && replicas[0]["master-link-status"] == "ok" && replicas[0]["flags"] == "slave" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w: the sentinel knows %v", ctx.Err(), err, replicas)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// URL is the address of the sentinel in the form that redis.ParseFailoverURL and redisbroker.Sentinel read.
func (w *Watched) URL() string { return "redis://" + w.sentinel.Host }

// Master is the server that the sentinel names now.
func (w *Watched) Master(t testing.TB) *Server {
	t.Helper()
	address, err := w.asks.GetMasterAddrByName(context.Background(), w.Name).Result()
	if err != nil {
		t.Fatalf("redistest: ask the sentinel for the master: %v", err)
	}
	for _, s := range w.Servers {
		if s.in.base.Host == net.JoinHostPort(address[0], address[1]) {
			return s
		}
	}
	t.Fatalf("redistest: the sentinel names %v", address)
	return nil
}

// Failover has the sentinel make the replica the master, as if the master had failed, and returns when it has.
func (w *Watched) Failover(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	before := w.Master(t)
	if err := w.asks.Failover(ctx, w.Name).Err(); err != nil {
		t.Fatalf("redistest: SENTINEL FAILOVER: %v", err)
	}
	for w.Master(t) == before {
		select {
		case <-ctx.Done():
			t.Fatal("redistest: the sentinel still names the master of before")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
