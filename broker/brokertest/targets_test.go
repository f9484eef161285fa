package brokertest

import (
	"flag"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/embedded"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// TestMain runs two tests side by side for each server, however few processors there are: they wait far more than they
// compute. Under the race detector it is one, because there they compute.
func TestMain(m *testing.M) {
	parallel := 8
	if underRace {
		parallel = 4
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == parallelFlag })
	if !given {
		if err := flag.Set(parallelFlag, strconv.Itoa(parallel)); err != nil {
			panic(err)
		}
	}
	redistest.Main(m)
}

const parallelFlag = "test.parallel"

// embeddedTarget is an empty server inside the process, which ends with the test.
func embeddedTarget(t testing.TB) Target {
	server := embedded.NewServer()
	client := server.Client()
	t.Cleanup(func() {
		_ = client.Close() // the server goes with it
		server.Close()
	})
	return Target{
		Name:   "embedded",
		Broker: func(o ...redisbroker.Option) broker.Broker { return redisbroker.FromClient(client, o...) },
		Client: client,
		Own:    embeddedTarget,
		Lacks:  []Feature{ClientKill, ConfigSet, CommandStats, SlowLog},
	}
}

// targetOf is a server of the matrix. It lacks nothing.
func targetOf(s *redistest.Server) Target {
	return Target{
		Name:   s.Name(),
		Broker: func(o ...redisbroker.Option) broker.Broker { return redisbroker.Standalone(s.URL(), o...) },
		Client: s.Client(),
		Own:    func(t testing.TB) Target { return targetOf(s.Own(t)) },
	}
}

// pausedTarget gives each body a bubble of testing/synctest with a server in it.
func pausedTarget() Target {
	target := Target{Name: "paused"}
	target.bubble = func(t *testing.T, body func(t *testing.T, target Target)) {
		synctest.Test(t, func(t *testing.T) {
			inner := embeddedTarget(t)
			inner.bubble = target.bubble
			body(t, inner)
		})
	}
	return target
}
