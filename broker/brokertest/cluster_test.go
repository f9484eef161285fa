package brokertest_test

import (
	"testing"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/brokertest"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// On a cluster the keys of a body are in different slots, so that everything goes the way of three steps. It has one server
// only, whose client reaches every key.
func TestConformanceOnACluster(t *testing.T) {
	brokertest.Run(t, clusterTarget(redistest.Cluster(t)))
}

func clusterTarget(s *redistest.Server) brokertest.Target {
	return brokertest.Target{
		Name:   "cluster",
		Broker: func(o ...redisbroker.Option) broker.Broker { return redisbroker.Cluster(s.URL(), o...) },
		Client: s.Client(),
		Lacks:  []brokertest.Feature{brokertest.Receivers},
		Own:    func(t testing.TB) brokertest.Target { return clusterTarget(redistest.ClusterOf(t, 1)[0]) },
	}
}
