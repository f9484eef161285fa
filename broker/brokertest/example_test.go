package brokertest_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/brokertest"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

// cut:target

// myServer is the server at the URL; the suite leaves its keys in the database that the URL names.
func myServer(t *testing.T, url string) brokertest.Target {
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return brokertest.Target{
		Name:   "mine",
		Broker: func(o ...redisbroker.Option) broker.Broker { return redisbroker.Standalone(url, o...) },
		Client: client,
		// What the provider forbids: the tests that need it are skipped, and say so.
		Lacks: []brokertest.Feature{brokertest.ClientKill, brokertest.ConfigSet},
	}
}

// cut:end

// The suite on a server of one's own.
func ExampleRun() {
	var t *testing.T // the parameter of func TestMyServer

	brokertest.Run(t, myServer(t, "redis://localhost:6379/9"))
}

// One area of it.
func ExampleRecovery() {
	var t *testing.T // the parameter of func TestMyServerRecovers

	brokertest.Recovery(t, myServer(t, "redis://localhost:6379/9"))
}
