package brokertest

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

// Target is a server under test. Name, Broker and Client are needed; the bodies that need more say so when they are
// skipped.
type Target struct {
	// Name tells the server from others in the texts of failures and skips.
	Name string
	// Broker returns a new broker on the server, as one more process of a service would have it. The options are the
	// body's (a short liveness, a fixed consumer name) and are added to those that the server itself asks for. The suite
	// closes the broker. It is called from several tests at a time.
	Broker func(options ...redisbroker.Option) broker.Broker
	// Client looks at what stands on the server. It goes to the same server and database by another way than the
	// broker's. Close it in a t.Cleanup: parallel subtests use it when the test that called Run has returned.
	Client redis.UniversalClient
	// Own returns another server of the same kind, which nobody else uses and which ends with the test that it is given:
	// for bodies that change a server's configuration or count what it does. Without it they are skipped.
	Own func(t testing.TB) Target
	// Lacks are what the server cannot do. The bodies that need one of them are skipped, and each names it.
	Lacks []Feature

	// bubble makes the target one on the paused clock: it runs a body in a bubble of its own, with a server in it.
	bubble func(t *testing.T, body func(t *testing.T, target Target))
}

// Feature is something that bodies ask of a server and that the library itself can do without.
type Feature string

// The features, each with what bodies do with it.
const (
	// ClientKill is CLIENT LIST and CLIENT KILL, which cut a process off from the server.
	ClientKill Feature = "CLIENT KILL"
	// ConfigSet is CONFIG SET, which takes the server its memory and lets it note what is slow.
	ConfigSet Feature = "CONFIG SET"
	// CommandStats is INFO commandstats, which tells what a subscription costs.
	CommandStats Feature = "INFO commandstats"
	// Receivers is the answer of PUBLISH, how many there were, of which a cluster's server knows its own alone.
	Receivers Feature = "the receivers of PUBLISH"
	// SlowLog is SLOWLOG, which tells of single commands that cost too much.
	SlowLog Feature = "SLOWLOG"
)

// uses says for the text of a skip what bodies do with a feature.
var uses = map[Feature]string{
	ClientKill:   "connections are cut with it",
	ConfigSet:    "the server's limits are changed with it",
	CommandStats: "what the server was asked is counted with it",
	Receivers:    "what nobody receives is told from it",
	SlowLog:      "slow commands are found with it",
}

// livenessTTL is the liveness where processes die: short, and longer than a busy machine keeps one waiting.
const livenessTTL = 2 * time.Second

// mortal returns the target whose processes are missed soon after they have died.
func (target Target) mortal() Target { return target.with(redisbroker.Liveness(livenessTTL)) }

// skipUnlessFit skips a body that needs what the target does not have.
func (target Target) skipUnlessFit(t testing.TB, b body) {
	t.Helper()
	for _, f := range b.needs {
		if slices.Contains(target.Lacks, f) {
			t.Skipf("%s lacks %s (Target.Lacks): %s", target.Name, f, uses[f])
		}
	}
	if b.own && target.Own == nil {
		t.Skipf("%s has no Target.Own: this needs a server that nobody else uses", target.Name)
	}
}

// with returns the target whose brokers have more options.
func (target Target) with(options ...redisbroker.Option) Target {
	process := target.Broker
	target.Broker = func(more ...redisbroker.Option) broker.Broker {
		return process(slices.Concat(options, more)...)
	}
	return target
}
