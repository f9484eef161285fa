package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// slots is how many hash slots a cluster has.
const slots = 16384

// Cluster leases a cluster of one server that has all slots, empty, until the test ends: the cheapest server that answers
// CROSSSLOT. Its URL is one for redisbroker.Cluster; Client reaches every key. The tests of a process share it, one at a
// time: a second one waits, and a test that takes it twice waits for ever. [ClusterOf] starts one that nobody else uses. The
// server is of the kind that [Own] would give.
func Cluster(t testing.TB) *Server {
	t.Helper()
	return leaseCluster(t, firstStartable(t))
}

// Clusters is [Cluster] for each server of the matrix, as [Each] is [Start] for each.
func Clusters(t *testing.T, f func(t *testing.T, s *Server)) {
	t.Helper()
	ks, err := machine.startable()
	if err != nil {
		give(t, err)
	}
	for _, k := range ks {
		t.Run(k.name(), func(t *testing.T) { f(t, leaseCluster(t, k)) })
	}
}

// clusterKind makes the shared cluster of a kind.
type clusterKind struct{ kind }

func (k clusterKind) name() string { return k.kind.name() + "-cluster" }

func (k clusterKind) launch(ctx context.Context, _ []string, _ bool) (*instance, error) {
	nodes, err := launchCluster(ctx, k.kind, 1)
	if err != nil {
		return nil, err
	}
	nodes[0].alone = make(chan struct{}, 1)
	return nodes[0], nil
}

func leaseCluster(t testing.TB, k kind) *Server {
	t.Helper()
	k = clusterKind{k}
	in, err := servers.take(k)
	if err != nil {
		give(t, err)
	}
	t.Cleanup(func() {
		if err := servers.put(k); err != nil {
			t.Errorf("redistest: end %s: %v", k.name(), err)
		}
	})
	in.alone <- struct{}{}
	t.Cleanup(func() { <-in.alone })
	s := &Server{in: in, client: in.client(0)}
	t.Cleanup(func() { _ = s.client.Close() }) // nothing depends on it
	if err := s.client.FlushAll(context.Background()).Err(); err != nil {
		t.Fatalf("redistest: empty %s: %v", k.name(), err)
	}
	return s
}

// ClusterOf starts a cluster of n servers with an equal share of the slots each, in order, and ends it with the test. The
// client of a [Server] reaches that server's keys only.
func ClusterOf(t testing.TB, n int) []*Server {
	t.Helper()
	return startCluster(t, firstStartable(t), n)
}

func startCluster(t testing.TB, k kind, n int) []*Server {
	t.Helper()
	return startGroup(t, k, func(ctx context.Context) ([]*instance, error) { return launchCluster(ctx, k, n) })
}

func launchCluster(ctx context.Context, k kind, n int) ([]*instance, error) {
	nodes, err := launchGroup(ctx, k, 2*n, func(ports []int) []member {
		members := make([]member, n)
		for i := range members {
			members[i] = clusterMember(ports[i], ports[n+i])
		}
		return members
	}, connect)
	if err != nil {
		return nil, err
	}
	if err := join(ctx, nodes); err != nil {
		for _, in := range nodes {
			err = errors.Join(err, in.remove())
		}
		return nil, fmt.Errorf("make a cluster of %d: %w", n, err)
	}
	return nodes, nil
}

// clusterMember announces the loopback, where the ports are the same inside a container and outside.
func clusterMember(port, bus int) member {
	return member{port: port, args: []string{
		"--port", strconv.Itoa(port), "--save", "", "--appendonly", "no",
		"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus), "--cluster-node-timeout", "2000",
		"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", strconv.Itoa(port), "--cluster-announce-bus-port", strconv.Itoa(bus),
	}}
}

// join deals the slots out and waits until every server agrees.
func join(ctx context.Context, nodes []*instance) error {
	clients := make([]*redis.Client, len(nodes))
	for i, in := range nodes {
		clients[i] = in.client(0)
		defer clients[i].Close() //nolint:errcheck // nothing depends on it
	}
	for i, c := range clients {
		if err := c.ClusterAddSlotsRange(ctx, i*slots/len(nodes), (i+1)*slots/len(nodes)-1).Err(); err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		info, err := c.ClusterNodes(ctx).Result()
		if err != nil {
			return err
		}
		// id address@bus,name flags …
		_, address, _ := strings.Cut(info, " ")
		address, _, _ = strings.Cut(address, " ")
		address, _, _ = strings.Cut(address, ",")
		address, bus, _ := strings.Cut(address, "@")
		_, port, _ := net.SplitHostPort(address)
		if err := clients[0].Do(ctx, "CLUSTER", "MEET", "127.0.0.1", port, bus).Err(); err != nil {
			return err
		}
	}
	for _, c := range clients {
		if err := agrees(ctx, c, len(nodes)); err != nil {
			return err
		}
	}
	return nil
}

// agrees waits until the server knows of all slots and of so many servers that have some.
func agrees(ctx context.Context, c *redis.Client, nodes int) error {
	for {
		info, err := c.ClusterInfo(ctx).Result()
		if err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_size:%d\r", nodes)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err, fmt.Errorf("CLUSTER INFO says %q", info))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
