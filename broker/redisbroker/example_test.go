package redisbroker_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

// Whatever the URL names, no password comes out of it again.
func Example() {
	brokers := []broker.Broker{
		// cut:urls
		redisbroker.Standalone("rediss://user:password@redis.example.com:6379/0"),
		redisbroker.Cluster("redis://user:password@node-1:6379?addr=node-2:6379&addr=node-3:6379"),
		redisbroker.Sentinel("orders", "redis://sentinel-1:26379?addr=sentinel-2:26379&username=user&password=password"),
		// cut:end
	}
	for _, b := range append(brokers, privateCluster(x509.NewCertPool(), "node-1:6379")) {
		fmt.Println(b.Address(), b.Problems())
	}
	// Output:
	// redis.example.com:6379 []
	// cluster node-1:6379, node-2:6379, node-3:6379 []
	// orders (sentinels sentinel-1:26379, sentinel-2:26379) []
	// cluster node-1:6379 []
}

// cut:client

// privateCluster is a cluster whose certificates are signed by an authority of one's own.
func privateCluster(authority *x509.CertPool, nodes ...string) broker.Broker {
	return redisbroker.FromClient(redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:     nodes,
		TLSConfig: &tls.Config{RootCAs: authority, MinVersion: tls.VersionTLS12},
	}))
}

// cut:end
