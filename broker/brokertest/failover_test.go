package brokertest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// failoverTTL is the liveness of the tests that wait for what a failover has lost.
const failoverTTL = 3 * time.Second

// later asks for a short delay at the first attempt.
func later(ctx context.Context, _ string) outcome.HandlerOutcome {
	if app.MessageFrom(ctx).Attempt == 1 {
		return outcome.RetryAfter(50 * time.Millisecond)
	}
	return outcome.Ack()
}

// The master changes while messages are published, handled and settled. What the new one has is handled, and what it has
// not learnt of the outcomes is made up for, while the worker goes on.
func TestWorkGoesOnAfterAFailover(t *testing.T) {
	for _, way := range []struct {
		name   string
		broker func(w *redistest.Watched) broker.Broker
		// within is how soon a message is read at the new master. The old one goes on serving its connections for some ten
		// seconds, until the sentinel turns it into a replica.
		within time.Duration
	}{
		{"Sentinel", func(w *redistest.Watched) broker.Broker {
			return redisbroker.Sentinel(w.Name, w.URL(), redisbroker.Liveness(failoverTTL))
		}, 5 * time.Second},
		{"FromClient", func(w *redistest.Watched) broker.Broker {
			options, err := redis.ParseFailoverURL(w.URL())
			if err != nil {
				t.Fatal(err)
			}
			options.MasterName = w.Name
			given := redis.NewFailoverClient(options)
			t.Cleanup(func() { _ = given.Close() })
			return redisbroker.FromClient(given, redisbroker.Liveness(failoverTTL))
		}, 25 * time.Second},
	} {
		t.Run(way.name, func(t *testing.T) {
			watched := redistest.Sentinel(t)
			w := newWorker(way.broker(watched))
			w.mount(streamrt.Spec{Stream: "in", DelaySet: "{in}.delayed"}, func(ctx context.Context, body string) outcome.HandlerOutcome {
				time.Sleep(5 * time.Millisecond)
				return later(ctx, body)
			}, app.Concurrency(2))
			stop := w.start(t)
			kept := make(map[string]bool)
			for i := range 100 {
				body := fmt.Sprint(i)
				w.send(t, "in", body)
				kept[body] = true
			}
			// What the replica has by now cannot be lost. The old master takes writes until the sentinel has told it of the new
			// one, and those are lost with it.
			if n, err := watched.Master(t).Client().Wait(t.Context(), 1, 10*time.Second).Result(); n != 1 || err != nil {
				t.Fatalf("WAIT: %d, %v", n, err)
			}
			ends := w.keepSending(t, "in")
			watched.Failover(t)
			after := watched.Master(t).Client()
			if err := after.XAdd(t.Context(), &redis.XAddArgs{Stream: "in", Values: []any{"_payload", "after"}}).Err(); err != nil {
				t.Fatal(err)
			}
			kept["after"] = true
			sent := time.Now()
			soon(t, "a message is read at the new master", func() bool { return w.ran()["after"] > 0 })
			if took := time.Since(sent); took > way.within {
				t.Errorf("a message at the new master was read after %s", took)
			}
			ends()
			allSettled(t, w, after, kept)
			stop()
			if left := after.Keys(t.Context(), "*:alive:*").Val(); len(left) != 0 {
				t.Errorf("the liveness key is left: %v", left)
			}
		})
	}
}

// keepSending publishes until the returned function ends it. Some of it fails, and some of it is lost with the old master.
func (w *worker) keepSending(t *testing.T, stream string) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ctx.Err() == nil; i++ {
			_ = w.Publish(ctx, broker.Stream(stream), fmt.Append(nil, "flows ", i))
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return func() { cancel(); <-ended }
}

// allSettled waits until nothing is pending, waiting or unread at the new master, and looks whether everything that it
// has was handled to the end: each message of a first attempt was asked for again, and that copy stands there.
func allSettled(t *testing.T, w *worker, master *redis.Client, kept map[string]bool) {
	t.Helper()
	ctx := t.Context()
	soon(t, "everything is handled and settled on the new master, while the worker runs", func() bool {
		p, err := master.XPending(ctx, "in", "g").Result()
		groups, groupsErr := master.XInfoGroups(ctx, "in").Result()
		last := master.XRevRangeN(ctx, "in", "+", "-", 1).Val()
		return err == nil && groupsErr == nil && p.Count == 0 && master.ZCard(ctx, "{in}.delayed").Val() == 0 &&
			len(groups) == 1 && len(last) == 1 && groups[0].LastDeliveredID == last[0].ID
	})
	first, again := make(map[string]bool), make(map[string]bool)
	for _, m := range master.XRange(ctx, "in", "-", "+").Val() {
		body, _ := m.Values["_payload"].(string)
		if m.Values["h:retry-count"] == "1" {
			again[body] = true
		} else {
			first[body] = true
		}
	}
	for body := range kept {
		if !first[body] {
			t.Errorf("%s is not at the new master", body)
		}
	}
	ran := w.ran()
	for body := range first {
		if !again[body] || ran[body] < 2 {
			t.Errorf("%s was handled %d times, its copy stands at the new master: %v", body, ran[body], again[body])
		}
	}
}

// The replica has not got a single outcome when it becomes the master. All of them were confirmed to the worker, which goes
// on, handles their messages again and writes their outcomes to the new master.
func TestOutcomesThatAFailoverLostAreMadeUpFor(t *testing.T) {
	for _, topology := range []struct {
		name  string
		start func(t *testing.T) (b broker.Broker, master, replica *redis.Client, failover func())
	}{
		{"Sentinel", func(t *testing.T) (broker.Broker, *redis.Client, *redis.Client, func()) {
			watched := redistest.Sentinel(t)
			return redisbroker.Sentinel(watched.Name, watched.URL(), redisbroker.Liveness(failoverTTL)),
				watched.Servers[0].Client(), watched.Servers[1].Client(), func() { watched.Failover(t) }
		}},
		{"Cluster", func(t *testing.T) (broker.Broker, *redis.Client, *redis.Client, func()) {
			nodes := redistest.ClusterOf(t, 2)
			replicate(t, nodes)
			master, replica := nodes[0].Client(), nodes[1].Client()
			return redisbroker.Cluster(nodes[0].URL(), redisbroker.Liveness(failoverTTL)), master, replica, func() {
				_ = master.Do(t.Context(), "SHUTDOWN", "NOSAVE", "NOW", "FORCE").Err() // the reply is the end of the connection
				if err := replica.Do(t.Context(), "CLUSTER", "FAILOVER", "TAKEOVER").Err(); err != nil {
					t.Fatal(err)
				}
			}
		}},
	} {
		t.Run(topology.name, func(t *testing.T) {
			ctx := t.Context()
			b, master, replica, failover := topology.start(t)
			w := newWorker(b)
			gate := make(chan struct{})
			handle := func(ctx context.Context, body string) outcome.HandlerOutcome {
				select {
				case <-gate:
				case <-ctx.Done():
				}
				return later(ctx, body)
			}
			const messages = 40
			w.mount(streamrt.Spec{Stream: "in", DelaySet: "{in}.delayed"}, handle, app.Concurrency(messages))
			stop := w.start(t)
			kept := make(map[string]bool)
			for i := range messages {
				body := fmt.Sprint(i)
				w.send(t, "in", body)
				kept[body] = true
			}
			soon(t, "all are in hand", func() bool { return len(w.ran()) == messages })
			if n, err := master.Wait(ctx, 1, 10*time.Second).Result(); n != 1 || err != nil {
				t.Fatalf("WAIT: %d, %v", n, err)
			}
			cutOff(t, master, replica)
			close(gate)
			soon(t, "all are settled at the old master", func() bool {
				p, err := master.XPending(ctx, "in", "g").Result()
				return err == nil && p.Count == 0 && master.XLen(ctx, "in").Val() == 2*messages
			})
			failover()
			if n := replica.XPending(ctx, "in", "g").Val().Count; n != messages {
				t.Errorf("%d entries are pending at the new master, want all %d", n, messages)
			}
			allSettled(t, w, replica, kept)
			stop()
			for body, n := range w.ran() {
				if n < 4 { // twice before, twice after
					t.Errorf("%s was handled %d times", body, n)
				}
			}
		})
	}
}

// cutOff keeps from the replica what the master takes from now on: it does not get past the master's question for a password.
func cutOff(t *testing.T, master, replica *redis.Client) {
	t.Helper()
	ctx := t.Context()
	if err := replica.ConfigSet(ctx, "masterauth", "wrong").Err(); err != nil {
		t.Fatal(err)
	}
	if err := master.Do(ctx, "CLIENT", "KILL", "TYPE", "replica").Err(); err != nil {
		t.Fatal(err)
	}
	soon(t, "the replica is cut off", func() bool {
		return strings.Contains(replica.Info(ctx, "replication").Val(), "master_link_status:down")
	})
}
