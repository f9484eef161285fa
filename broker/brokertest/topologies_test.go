package brokertest_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
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

// answers are the basic outcomes, by message. What is retried is acknowledged the second time.
func answers(ctx context.Context, body string) outcome.HandlerOutcome {
	first := app.MessageFrom(ctx).Attempt == 1
	switch {
	case body == "retry" && first:
		return outcome.Retry()
	case body == "later" && first:
		return outcome.RetryAfter(200 * time.Millisecond)
	case body == "drop":
		return outcome.Drop()
	case body == "reject":
		return outcome.DeadLetter(errors.New("no"))
	case body == "fail":
		return outcome.Of(errors.New("never"))
	}
	return outcome.Ack()
}

var runsOfAnswers = map[string]int{"ack": 1, "retry": 2, "later": 2, "drop": 1, "reject": 1, "fail": 3}

func TestOutcomesOnAClusterCrossNoSlots(t *testing.T) {
	redistest.Clusters(t, func(t *testing.T, s *redistest.Server) {
		for _, names := range []struct {
			stream, set, deadLetter string
			warnings                int
		}{
			{"orders", "orders.delayed", "orders.dlq", 2},
			{"{orders}", "{orders}.delayed", "{orders}.dlq", 0},
			{"orders2", "{orders2}.delayed", "{orders2}.dlq", 0},
		} {
			t.Run(names.stream, func(t *testing.T) {
				ctx, client := t.Context(), s.Client()
				if err := client.ConfigResetStat(ctx).Err(); err != nil {
					t.Fatal(err)
				}
				sent := monitor(t, s)
				w := newWorker(redisbroker.Cluster(s.URL()))
				w.mount(streamrt.Spec{Stream: names.stream, DelaySet: names.set}, answers,
					app.MaxAttempts(3), app.DeadLetter(names.deadLetter), app.Backoff(app.Exponential{Initial: 50 * time.Millisecond, NoJitter: true}))
				stop := w.start(t)
				for body := range runsOfAnswers {
					w.send(t, names.stream, body)
				}
				soon(t, "two dead letters", func() bool { return client.XLen(ctx, names.deadLetter).Val() == 2 })
				soon(t, "everything handled", func() bool { return len(w.ran()) == 6 && w.ran()["later"] == 2 && w.ran()["retry"] == 2 })
				stop()

				for body, want := range runsOfAnswers {
					if got := w.ran()[body]; got != want {
						t.Errorf("%s was handled %d times, want %d", body, got, want)
					}
				}
				if p := client.XPending(ctx, names.stream, "g").Val(); p.Count != 0 {
					t.Errorf("pending %+v", p)
				}
				if n := client.ZCard(ctx, names.set).Val(); n != 0 {
					t.Errorf("%d members are left in the delay set", n)
				}
				reasons := map[any]any{}
				for _, m := range client.XRange(ctx, names.deadLetter, "-", "+").Val() {
					reasons[m.Values["_payload"]] = m.Values["dlq_reason"]
				}
				if reasons["reject"] != "rejected" || reasons["fail"] != "max_attempts" {
					t.Errorf("dead letters %v", reasons)
				}
				if errorstats := client.Info(ctx, "errorstats").Val(); strings.Contains(errorstats, "CROSSSLOT") {
					t.Errorf("the server refused something: %s", errorstats)
				}
				warned := strings.Count(w.log(), "different cluster slots")
				if warned != names.warnings {
					t.Errorf("%d warnings, want %d; the log:\n%s", warned, names.warnings, w.log())
				}
				if warned > 0 && (!strings.Contains(w.log(), "{orders}.delayed") || !strings.Contains(w.log(), "other=orders.dlq") || !strings.Contains(w.log(), "test.orders")) {
					t.Errorf("the warnings name no key, mount or remedy:\n%s", w.log())
				}
				// One atomic step is a script: nothing is written to the other keys outside of one.
				alone := 0
				for _, line := range sent() {
					if strings.Contains(line, fmt.Sprintf(`"XADD" %q "*"`, names.deadLetter)) && !strings.Contains(line, " lua] ") {
						alone++
					}
				}
				if (alone > 0) != (names.warnings > 0) {
					t.Errorf("%d dead letters were written outside of a script", alone)
				}
			})
		}
	})
}

// monitor notes what the server is sent until the returned function is called, which returns it. What a script calls is
// marked as lua.
func monitor(t *testing.T, s *redistest.Server) (stop func() (lines []string)) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Client().Options().Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1)
	ended := make(chan []string)
	go func() {
		var all []string
		scanner := bufio.NewScanner(conn)
		for scanner.Scan() {
			if all = append(all, scanner.Text()); len(all) == 1 {
				lines <- all[0]
			}
		}
		ended <- all
	}()
	if first := <-lines; first != "+OK" {
		t.Fatalf("MONITOR: %s", first)
	}
	return func() []string {
		_ = conn.Close()
		return <-ended
	}
}

func slotOf(t *testing.T, c *redis.Client, key string) int {
	t.Helper()
	slot, err := c.ClusterKeySlot(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return int(slot)
}

// keyOn is a key that begins so and is kept by the nth of two servers.
func keyOn(t *testing.T, c *redis.Client, n int, begin string) string {
	t.Helper()
	for i := range 100 {
		key := begin + fmt.Sprint(i)
		if slotOf(t, c, key)/8192 == n {
			return key
		}
	}
	t.Fatal("no such key")
	return ""
}

func TestTwoSubscriptionsOnTwoServersWorkTogether(t *testing.T) {
	nodes := redistest.ClusterOf(t, 2)
	w := newWorker(redisbroker.Cluster(nodes[1].URL()))
	c := nodes[0].Client()
	var streams, letters []string
	for n := range nodes {
		stream, set, letter := keyOn(t, c, n, "in"), keyOn(t, c, 1-n, "set"), keyOn(t, c, 1-n, "dlq")
		streams, letters = append(streams, stream), append(letters, letter)
		w.mount(streamrt.Spec{Stream: stream, DelaySet: set}, func(ctx context.Context, body string) outcome.HandlerOutcome {
			return answers(ctx, body[strings.IndexByte(body, ' ')+1:])
		}, app.MaxAttempts(3), app.DeadLetter(letter), app.Backoff(app.Exponential{Initial: 50 * time.Millisecond, NoJitter: true}))
	}
	stop := w.start(t)
	for _, stream := range streams {
		for body := range runsOfAnswers {
			w.send(t, stream, stream+" "+body)
		}
	}
	for n := range nodes {
		soon(t, "two dead letters on the other server", func() bool { return nodes[1-n].Client().XLen(t.Context(), letters[n]).Val() == 2 })
	}
	soon(t, "everything handled", func() bool {
		return len(w.ran()) == 12 && w.ran()[streams[0]+" later"] == 2 && w.ran()[streams[1]+" later"] == 2
	})
	stop()
	for _, stream := range streams {
		for body, want := range runsOfAnswers {
			if got := w.ran()[stream+" "+body]; got != want {
				t.Errorf("%s of %s was handled %d times, want %d", body, stream, got, want)
			}
		}
	}
}

// A stream moves to the other server with its slot while it is read and settled.
func TestASlotMovesWhileItIsWorkedOn(t *testing.T) {
	nodes := redistest.ClusterOf(t, 2)
	stream := keyOn(t, nodes[0].Client(), 0, "in")
	w := newWorker(redisbroker.Cluster(nodes[0].URL()))
	w.mount(streamrt.Spec{Stream: stream, Block: 30 * time.Second}, func(ctx context.Context, body string) outcome.HandlerOutcome {
		if app.MessageFrom(ctx).Attempt == 1 {
			return outcome.Retry()
		}
		return outcome.Ack()
	})
	stop := w.start(t)
	var sent []string
	for i := range 300 {
		if i == 100 {
			moveSlot(t, nodes, stream)
		}
		body := fmt.Sprint(i)
		w.send(t, stream, body)
		sent = append(sent, body)
	}
	to := nodes[1].Client()
	soon(t, "every message is handled and nothing is left", func() bool {
		p, err := to.XPending(t.Context(), stream, "g").Result()
		return err == nil && p.Count == 0 && len(w.ran()) == len(sent) && to.XLen(t.Context(), stream).Val() >= 600
	})
	// Every read blocks at the new server, and a stop ends it at once.
	soon(t, "the read blocks at the new server", func() bool {
		return strings.Contains(to.ClientList(t.Context()).Val(), "cmd=xreadgroup")
	})
	began := time.Now()
	stop()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the stop took %s: the read was not ended", took)
	}
	for _, body := range sent {
		if n := w.ran()[body]; n < 2 {
			t.Errorf("%s was handled %d times", body, n)
		}
	}
	if errorstats := to.Info(t.Context(), "errorstats").Val(); strings.Contains(errorstats, "CROSSSLOT") {
		t.Error(errorstats)
	}
}

// moveSlot moves the slot of a key from the first server to the second, as redis-cli --cluster reshard does.
func moveSlot(t *testing.T, nodes []*redistest.Server, key string) {
	t.Helper()
	ctx := t.Context()
	from, to := nodes[0].Client(), nodes[1].Client()
	slot := slotOf(t, from, key)
	id := func(c *redis.Client) string { return c.Do(ctx, "CLUSTER", "MYID").Val().(string) }
	do := func(c *redis.Client, args ...any) {
		t.Helper()
		if err := c.Do(ctx, args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", id(from))
	do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", id(to))
	address, err := url.Parse(nodes[1].URL())
	if err != nil {
		t.Fatal(err)
	}
	for {
		keys, err := from.ClusterGetKeysInSlot(ctx, slot, 100).Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		args := []any{"MIGRATE", "127.0.0.1", address.Port(), "", 0, 5000, "KEYS"}
		for _, k := range keys {
			args = append(args, k)
		}
		do(from, args...)
	}
	do(to, "CLUSTER", "SETSLOT", slot, "NODE", id(to))
	do(from, "CLUSTER", "SETSLOT", slot, "NODE", id(to))
}

// The only server of the cluster that keeps keys dies, and its replica takes over.
func TestWorkGoesOnAfterAServerOfTheClusterDied(t *testing.T) {
	nodes := redistest.ClusterOf(t, 2)
	replicate(t, nodes)
	ctx, master, replica := t.Context(), nodes[0].Client(), nodes[1].Client()
	w := newWorker(redisbroker.Cluster(nodes[0].URL()))
	w.mount(streamrt.Spec{Stream: "in", DelaySet: "in.delayed", Block: 30 * time.Second}, func(ctx context.Context, body string) outcome.HandlerOutcome {
		if app.MessageFrom(ctx).Attempt == 1 {
			return outcome.RetryAfter(50 * time.Millisecond)
		}
		return outcome.Ack()
	})
	stop := w.start(t)
	for i := range 50 {
		w.send(t, "in", fmt.Sprint(i))
	}
	if n, err := master.Wait(ctx, 1, 10*time.Second).Result(); n != 1 || err != nil {
		t.Fatalf("WAIT: %d, %v", n, err)
	}
	_ = master.Do(ctx, "SHUTDOWN", "NOSAVE", "NOW", "FORCE").Err() // the reply is the end of the connection
	if err := replica.Do(ctx, "CLUSTER", "FAILOVER", "TAKEOVER").Err(); err != nil {
		t.Fatal(err)
	}
	w.send(t, "in", "after")
	soon(t, "everything is handled and settled on the new master", func() bool {
		p, err := replica.XPending(ctx, "in", "g").Result()
		ran := w.ran()
		return err == nil && p.Count == 0 && len(ran) == 51 && ran["after"] >= 2 && replica.ZCard(ctx, "in.delayed").Val() == 0
	})
	stop()
	for body, n := range w.ran() {
		if n < 2 {
			t.Errorf("%s was handled %d times", body, n)
		}
	}
}

// slotRange is what a client is told of the only range of slots: first, last, the master and its replicas.
func slotRange(ctx context.Context, c *redis.Client) []any {
	ranges, _ := c.Do(ctx, "CLUSTER", "SLOTS").Slice()
	if len(ranges) != 1 {
		return nil
	}
	return ranges[0].([]any)
}

// replicate makes the second of two servers the replica of the first, which gets all slots.
func replicate(t *testing.T, nodes []*redistest.Server) {
	t.Helper()
	ctx, master, replica := t.Context(), nodes[0].Client(), nodes[1].Client()
	id := func(c *redis.Client) string { return c.Do(ctx, "CLUSTER", "MYID").Val().(string) }
	var address, bus string
	for _, line := range strings.Split(replica.ClusterNodes(ctx).Val(), "\n") {
		if strings.Contains(line, "myself") {
			address, bus, _ = strings.Cut(strings.Fields(line)[1], "@")
		}
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	bus, _, _ = strings.Cut(bus, ",")
	for _, step := range []struct {
		on   *redis.Client
		args []any
	}{
		{master, []any{"CLUSTER", "FORGET", id(replica)}},
		{replica, []any{"CLUSTER", "RESET", "HARD"}},
		{master, []any{"CLUSTER", "ADDSLOTSRANGE", 8192, 16383}},
		{master, []any{"CLUSTER", "MEET", "127.0.0.1", port, bus}},
	} {
		if err := step.on.Do(ctx, step.args...).Err(); err != nil {
			t.Fatalf("%v: %v", step.args, err)
		}
	}
	of := id(master)
	soon(t, "the servers have met", func() bool { return replica.Do(ctx, "CLUSTER", "REPLICATE", of).Err() == nil })
	// A client that loads the state before learns of the replica ten seconds later.
	soon(t, "the replica is in step, and clients are told of it", func() bool {
		return strings.Contains(replica.Info(ctx, "replication").Val(), "master_link_status:up") &&
			strings.Contains(master.ClusterInfo(ctx).Val(), "cluster_state:ok") &&
			len(slotRange(ctx, master)) == 4
	})
}

// The master's process ends, and nobody has told it to give the role away.
func TestWorkGoesOnAfterTheMasterDied(t *testing.T) {
	watched := redistest.Sentinel(t)
	w := newWorker(redisbroker.Sentinel(watched.Name, watched.URL()))
	w.mount(streamrt.Spec{Stream: "in"}, func(context.Context, string) outcome.HandlerOutcome { return outcome.Ack() })
	stop := w.start(t)
	w.send(t, "in", "before")
	soon(t, "the first is handled", func() bool { return w.ran()["before"] == 1 })
	before := watched.Master(t)
	_ = before.Client().Do(t.Context(), "SHUTDOWN", "NOSAVE").Err() // the reply is the end of the connection
	w.send(t, "in", "after")
	soon(t, "the second is handled", func() bool { return w.ran()["after"] == 1 })
	stop()
	if after := watched.Master(t); after == before {
		t.Error("the master is the same")
	}
}

func TestTLS(t *testing.T) {
	server := redistest.TLS(t)
	works := func(t *testing.T, b broker.Broker) {
		t.Helper()
		w := newWorker(b)
		w.mount(streamrt.Spec{Stream: "in", DelaySet: "in.delayed"}, answers, app.MaxAttempts(3), app.DeadLetter("in.dlq"))
		stop := w.start(t)
		w.send(t, "in", "later")
		soon(t, "the message is handled twice", func() bool { return w.ran()["later"] == 2 })
		stop()
	}
	t.Run("a URL", func(t *testing.T) { works(t, redisbroker.Standalone(server.URL()+"?skip_verify=true")) })
	t.Run("a client with the certificate", func(t *testing.T) {
		options, err := redis.ParseURL(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		options.TLSConfig = server.TLSConfig()
		given := redis.NewClient(options)
		defer given.Close()
		works(t, redisbroker.FromClient(given))
		if err := given.Ping(t.Context()).Err(); err != nil {
			t.Errorf("the given client is closed: %v", err)
		}
	})
	t.Run("nobody vouches for the certificate", func(t *testing.T) {
		w := newWorker(redisbroker.Standalone(server.URL()))
		w.mount(streamrt.Spec{Stream: "in"}, answers)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err := w.app.Run(ctx)
		var unknown *tls.CertificateVerificationError
		if !errors.As(err, &unknown) && (err == nil || !strings.Contains(err.Error(), "certificate")) {
			t.Errorf("Run says %v", err)
		}
		if address, _ := url.Parse(server.URL()); err != nil && !strings.Contains(err.Error(), net.JoinHostPort(address.Hostname(), address.Port())) {
			t.Errorf("Run does not name the server: %v", err)
		}
	})
}
