package brokertest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// IdleCost shows that a subscription with nothing to do costs the server a few commands a second (contract §9). It needs
// servers of its own, [ConfigSet], [CommandStats] and [SlowLog], and ten seconds of real time: -short skips it.
func IdleCost(t *testing.T, target Target) { idleCostArea.run(t, target) }

var idleCostArea = area{name: "IdleCost", bodies: []body{
	{name: "AnIdleSubscriptionCostsLittle", run: idleCost, own: true, needs: []Feature{ConfigSet, CommandStats, SlowLog}},
}}

// idleCost: a subscription with nothing to do costs the server a few commands a second, everything counted, the
// commands within scripts, too. Ten thousand entries that are pending with somebody else do not change that.
func idleCost(t *testing.T, target Target) {
	if testing.Short() {
		t.Skip("takes ten seconds of real time")
	}
	const measured = 10 * time.Second
	var all []*idle
	for _, c := range idleCases() {
		c.start(t, target.Own(t))
		all = append(all, &c)
	}
	time.Sleep(time.Second)
	for _, c := range all {
		c.client.ConfigSet(t.Context(), "slowlog-log-slower-than", "10000")
		c.client.SlowLogReset(t.Context())
		c.before = commandCalls(t, c.client)
	}
	time.Sleep(measured)
	for _, c := range all {
		c.check(t, measured)
	}
}

// idle is one subscription on a server of its own.
type idle struct {
	name string
	mode
	block, claim time.Duration
	// foreign entries are pending with a reader that has only just taken them.
	foreign int
	most    float64 // commands a second

	client redis.UniversalClient
	svc    *service
	before map[string]float64
}

func idleCases() []idle {
	claiming := mode{claims: true, set: true}
	return []idle{
		{name: "claiming with a delay set", mode: claiming, block: time.Second, claim: claimTime, most: 5},
		{name: "plain", most: 2},
		{name: "claiming, pending elsewhere", mode: claiming, block: time.Second, claim: time.Minute, foreign: 10_000, most: 10},
		{name: "plain, pending elsewhere", foreign: 10_000, most: 10},
	}
}

// start starts the service. Its liveness is the default one.
func (c *idle) start(t *testing.T, target Target) {
	t.Helper()
	c.client = target.Client
	k := uniqueKeys()
	if c.foreign > 0 {
		newGroup(t, target, k)
		fill(t, target, k, c.foreign)
		readAs(t, target, k, "foreign", int64(c.foreign))
	}
	spec := c.spec(k)
	spec.Block, spec.Claim = c.block, c.claim
	c.svc = newService(target)
	c.svc.mount(spec, &recorder{answer: acks})
	c.svc.start(t)
}

// aside are commands that do not belong to what idling costs: this test's own, and the greeting of a connection that
// happens to be opened meanwhile.
var aside = map[string]bool{"info": true, "hello": true, "client|setinfo": true}

func (c *idle) check(t *testing.T, measured time.Duration) {
	t.Helper()
	after, slow := commandCalls(t, c.client), c.client.SlowLogGet(t.Context(), 100).Val()
	total := 0.0
	var by []string
	for _, name := range sortedKeys(after) {
		if d := after[name] - c.before[name]; d > 0 && !aside[name] {
			total += d
			by = append(by, fmt.Sprintf("%s %.0f", name, d))
		}
	}
	rate := total / measured.Seconds()
	t.Logf("%s: %.1f commands a second: %s", c.name, rate, strings.Join(by, ", "))
	if rate > c.most {
		t.Errorf("%s: %.1f commands a second, want %.0f at most", c.name, rate, c.most)
	}
	// Each of the looks comes about once a second. One that is slow by itself is slow each time; some of them are the
	// machine's doing.
	if float64(len(slow)) > measured.Seconds()*2/3 {
		t.Errorf("%s: %d commands took longer than 10 ms: %v", c.name, len(slow), slow[0].Args)
	}
	c.svc.stop(t)
}

// fill appends n messages.
func fill(t testing.TB, target Target, k keys, n int) {
	t.Helper()
	_, err := target.Client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range n {
			p.XAdd(t.Context(), &redis.XAddArgs{Stream: k.stream, Values: []any{fieldPayload, i}})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// commandCalls is how often each command was called so far, those of scripts included.
func commandCalls(t testing.TB, client redis.UniversalClient) map[string]float64 {
	t.Helper()
	text, err := client.Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]float64{}
	for line := range strings.Lines(text) {
		name, values, found := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":calls=")
		if !found {
			continue
		}
		number, _, _ := strings.Cut(values, ",")
		if calls[name], err = strconv.ParseFloat(number, 64); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return calls
}
