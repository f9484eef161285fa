//go:build unix

package chaos

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker/redistest"
)

// A server that saves what it does is restarted while handlers run and messages wait for their delay. The worker notices
// and goes on: no attempt is counted for it, and nothing is buried. A server with a lot to load refuses everything for a
// while first, which is no different.
func TestARestartOfTheServerCostsNothing(t *testing.T) {
	chaotic(t)
	for _, c := range []struct {
		name  string
		keys  int
		delay time.Duration // of each key that the server loads
	}{
		{name: "at once"},
		{name: "after loading", keys: 20_000, delay: pick(150*time.Microsecond, 250*time.Microsecond)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Own(t, "--appendonly", "yes", "--key-load-delay", strconv.FormatInt(c.delay.Microseconds(), 10),
				"--loading-process-events-interval-bytes", "1024")
			m := mount{
				Stream: "restart", Group: "g", DelaySet: "restart.delayed", DeadLetter: "restart.dlq", MaxAttempts: 3,
				Backoff: 50 * time.Millisecond, Concurrency: 60,
			}
			s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: ttl, Grace: time.Second, Mounts: []mount{m}})
			fillKeys(t, server.Client(), c.keys)
			const delayed, running = 50, 5
			var jobs []job
			for i := range delayed {
				jobs = append(jobs, job{Key: "delayed" + strconv.Itoa(i), Steps: []step{{Do: endRetryAfter, After: 3 * time.Second}, {Do: endAck}}})
			}
			for i := range running {
				jobs = append(jobs, job{Key: "running" + strconv.Itoa(i), Steps: []step{{Do: endAck, Gate: s.gate("running")}}})
			}
			// Whoever keeps its answer until the server is back must not be called again.
			jobs = append(jobs, job{Key: "meanwhile", Steps: []step{{Do: endRetry, Gate: s.gate("meanwhile")}, {Do: endAck}}})
			s.publish(m.Stream, jobs...)
			s.keep(1)
			await(t, patience, "the messages wait for their delay and the handlers run", func() bool {
				n, err := s.client.ZCard(t.Context(), m.DelaySet).Result()
				return err == nil && n == delayed && len(s.calls()) == len(jobs)
			})
			server.Stop(t)
			s.open("meanwhile")
			await(t, patience, "the handler has answered", func() bool { return !s.callsOfKey("meanwhile")[0].ended.IsZero() })
			time.Sleep(pick(2*time.Second, 20*time.Second)) // how long the server is away
			loading := timeLoading(t, server)
			server.Restart(t)
			took := loading()
			t.Logf("loading for %s", took.Round(time.Millisecond))
			if c.keys > 0 && took < time.Second {
				t.Errorf("the server said that it was loading for %s only", took)
			}
			s.open("running")
			s.awaitRest(patience)
			s.stop()
			s.judge(m, jobs)
			if n := len(s.all()); n != 1 {
				t.Errorf("the worker ended and was started again, %d times", n-1)
			}
			for _, c := range s.calls() {
				if c.losses != 0 {
					t.Errorf("a restart of the server counts as a loss: %v", c)
				}
			}
		})
	}
}

// fillKeys gives the server something to load.
func fillKeys(t testing.TB, client redis.UniversalClient, n int) {
	t.Helper()
	for at := 0; at < n; at += page {
		_, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for i := at; i < min(at+page, n); i++ {
				p.Set(t.Context(), "ballast:"+strconv.Itoa(i), "value", 0)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// timeLoading asks the server over and over how it is, until the function that it returns is called. That one returns how
// long the server said that it was loading.
func timeLoading(t testing.TB, server *redistest.Server) func() time.Duration {
	t.Helper()
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	var first, last time.Time
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
			if strings.HasPrefix(ping(options.Addr), "-LOADING") {
				if last = time.Now(); first.IsZero() {
					first = last
				}
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		<-stopped
		return last.Sub(first)
	}
}

// ping is what the server answers, "" where it does not.
func ping(address string) string {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return ""
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return ""
	}
	return line
}

// A server that comes back with what it had saved earlier has forgotten acknowledgements. What they were for comes again
// as it was then: the same message, at the same attempt, and nobody is charged for it.
func TestAnOlderSnapshotBringsMessagesBackAsTheyWere(t *testing.T) {
	chaotic(t)
	server := redistest.Own(t)
	const inHand, unread = 5, 5
	m := mount{
		Stream: "snapshot", Group: "g", DelaySet: "snapshot.delayed", DeadLetter: "snapshot.dlq", MaxAttempts: 3, Block: time.Second, Concurrency: inHand,
	}
	s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: ttl, Grace: time.Second, Mounts: []mount{m}})
	var jobs []job
	for i := range inHand + unread {
		jobs = append(jobs, job{Key: "forgotten" + strconv.Itoa(i), Steps: []step{{Do: endAck, Gate: s.gate("saved")}}})
	}
	s.publish(m.Stream, jobs...)
	s.keep(1)
	await(t, patience, "all handlers run", func() bool { return len(s.calls()) == inHand })
	if err := s.client.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.open("saved")
	s.awaitRest(patience)
	if n := len(s.calls()); n != len(jobs) {
		t.Fatalf("%d calls, want %d", n, len(jobs))
	}
	server.Restart(t) // without saving again
	await(t, patience, "all messages have come again", func() bool { return len(s.calls()) == 2*len(jobs) })
	s.awaitRest(patience)
	s.stop()
	for _, j := range jobs {
		calls := s.callsOfKey(j.Key)
		if len(calls) != 2 || calls[0].id != calls[1].id || calls[0].entry != calls[1].entry || calls[1].attempt != 1 || calls[1].losses != 0 {
			t.Errorf("calls %v, want two alike", calls)
		}
	}
	if n := server.Client().XLen(t.Context(), m.DeadLetter).Val(); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// A server that takes no writes, because its memory is full or because it has become somebody's replica, keeps copies,
// delays and dead letters from being written. Their entries stay pending, their handlers are not called again, and once
// the server writes again everything is as it was asked for.
func TestAServerThatTakesNoWritesLosesNothing(t *testing.T) {
	chaotic(t)
	for _, c := range []struct {
		name         string
		refuse, mend func(testing.TB, redis.UniversalClient)
	}{
		{name: "out of memory", refuse: memory("1"), mend: memory("0")},
		// Port 1 of the loopback: no primary is there, and none is needed.
		{name: "read-only", refuse: replicaOf("127.0.0.1", "1"), mend: replicaOf("NO", "ONE")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Own(t, "--maxmemory-policy", "noeviction", "--replica-serve-stale-data", "yes")
			plain := mount{Group: "g", MaxAttempts: 2, Backoff: 50 * time.Millisecond, Block: time.Second, Concurrency: 50}
			memory, set := plain, plain
			memory.Stream, memory.DeadLetter = "memory", "memory.dlq"
			set.Stream, set.DeadLetter, set.DelaySet = "set", "set.dlq", "set.delayed"
			mounts := []mount{memory, set}
			s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: ttl, Grace: time.Second, Mounts: mounts})
			w := s.start()
			jobs := map[string][]job{}
			running := 0
			for _, m := range mounts {
				for i := range 10 {
					gate := s.gate("refused")
					key := fmt.Sprint(m.Stream, "-", i, "-")
					jobs[m.Stream] = append(jobs[m.Stream],
						job{Key: key + "retry", Steps: []step{{Do: endRetry, Gate: gate}, {Do: endAck}}},
						job{Key: key + "delay", Steps: []step{{Do: endRetryAfter, Gate: gate, After: 200 * time.Millisecond}, {Do: endAck}}},
						job{Key: key + "fail", Steps: []step{{Do: endRetry}, {Do: endFail, Gate: gate}}},
						job{Key: key + "ack", Steps: []step{{Do: endAck, Gate: gate}}},
					)
				}
				s.publish(m.Stream, jobs[m.Stream]...)
				running += len(jobs[m.Stream]) + 10
			}
			await(t, patience, "every handler runs", func() bool { return len(s.calls()) == running })
			c.refuse(t, server.Client())
			s.open("refused")
			await(t, patience, "every handler has answered", func() bool {
				for _, c := range s.calls() {
					if c.ended.IsZero() {
						return false
					}
				}
				return true
			})
			time.Sleep(pick(3*time.Second, 20*time.Second)) // longer than the liveness key lasts
			for _, m := range mounts {
				// Acknowledging needs no memory; on a replica it is a write like any other.
				n, err := pending(t.Context(), s.client, m)
				if err != nil {
					t.Fatal(err)
				}
				if n < 30 {
					t.Errorf("%s: %d entries are pending; an outcome was acknowledged that could not be written", m.Stream, n)
				}
			}
			c.mend(t, server.Client())
			s.awaitRest(patience)
			s.stop()
			for _, m := range mounts {
				s.judge(m, jobs[m.Stream])
			}
			for _, c := range s.calls() {
				if c.losses != 0 || c.worker != w.number {
					t.Errorf("taken for lost: %v", c)
				}
			}
		})
	}
}

func memory(limit string) func(testing.TB, redis.UniversalClient) {
	return func(t testing.TB, client redis.UniversalClient) {
		t.Helper()
		if err := client.ConfigSet(t.Context(), "maxmemory", limit).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func replicaOf(host, port string) func(testing.TB, redis.UniversalClient) {
	return func(t testing.TB, client redis.UniversalClient) {
		t.Helper()
		if err := client.Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
			t.Fatal(err)
		}
	}
}
