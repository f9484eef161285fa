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

// Cluster starts a cluster of one server that has all slots, and ends it with the test: the cheapest server that answers
// CROSSSLOT. Its URL is one for redisbroker.Cluster; Client reaches every key. The server is of the kind that [Own] would
// give.
func Cluster(t testing.TB) *Server {
	t.Helper()
	return startCluster(t, firstStartable(t), 1)[0]
}

// Clusters is [Cluster] for each server of the matrix, as [Each] is [Start] for each.
func Clusters(t *testing.T, f func(t *testing.T, s *Server)) {
	t.Helper()
	ks, err := machine.startable()
	if err != nil {
		give(t, err)
	}
	for _, k := range ks {
		t.Run(k.name(), func(t *testing.T) { f(t, startCluster(t, k, 1)[0]) })
	}
}

// ClusterOf starts a cluster of n servers with an equal share of the slots each, in order, and ends it with the test. The
// client of a [Server] reaches that server's keys only.
func ClusterOf(t testing.TB, n int) []*Server {
	t.Helper()
	return startCluster(t, firstStartable(t), n)
}

func startCluster(t testing.TB, k kind, n int) []*Server {
	t.Helper()
	nodes := startGroup(t, k, 2*n, func(ports []int) []member {
		members := make([]member, n)
		for i := range members {
			members[i] = clusterMember(ports[i], ports[n+i])
		}
		return members
	}, connect)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := join(ctx, nodes); err != nil {
		t.Fatalf("redistest: make a cluster of %d: %v", n, err)
	}
	return nodes
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
func join(ctx context.Context, nodes []*Server) error {
	for i, s := range nodes {
		if err := s.client.ClusterAddSlotsRange(ctx, i*slots/len(nodes), (i+1)*slots/len(nodes)-1).Err(); err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		info, err := s.client.ClusterNodes(ctx).Result()
		if err != nil {
			return err
		}
		// id address@bus,name flags …
		_, address, _ := strings.Cut(info, " ")
		address, _, _ = strings.Cut(address, " ")
		address, _, _ = strings.Cut(address, ",")
		address, bus, _ := strings.Cut(address, "@")
		_, port, _ := net.SplitHostPort(address)
		if err := nodes[0].client.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", port, bus).Err(); err != nil {
			return err
		}
	}
	for _, s := range nodes {
		if err := agrees(ctx, s.client, len(nodes)); err != nil {
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
