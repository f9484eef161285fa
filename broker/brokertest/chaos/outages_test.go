//go:build unix

package chaos

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker/redistest"
)

// A server that saves what it does is restarted while handlers run and messages wait for their delay. The worker notices
// and goes on: no attempt is counted for it, and nothing is buried.
func TestARestartOfTheServerCostsNothing(t *testing.T) {
	chaotic(t)
	server := redistest.Own(t, "--appendonly", "yes")
	m := mount{
		Stream: "restart", Group: "g", DelaySet: "restart.delayed", DeadLetter: "restart.dlq", MaxAttempts: 3,
		Backoff: 50 * time.Millisecond, Concurrency: 60,
	}
	s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: ttl, Grace: time.Second, Mounts: []mount{m}})
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
	server.Restart(t)
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
}

// While the server is away a worker with ten subscriptions costs next to nothing and says little, and then goes on.
func TestAWorkerWithoutAServerIsQuiet(t *testing.T) {
	chaotic(t)
	const subscriptions = 10
	away := pick(12*time.Second, time.Minute)
	server := redistest.Own(t)
	var mounts []mount
	for i := range subscriptions {
		name := "quiet" + strconv.Itoa(i)
		mounts = append(mounts, mount{Stream: name, Group: "g", DelaySet: name + ".delayed", Block: time.Second})
	}
	s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: ttl, Grace: time.Second, Mounts: mounts})
	w := s.start()
	await(t, patience, "the worker reads", func() bool { return s.ready(w) })
	lines := logLines(t, w)
	server.Stop(t)
	time.Sleep(away)
	server.Restart(t)
	from := time.Now()
	for _, m := range mounts {
		s.publish(m.Stream, job{Key: m.Stream, Steps: []step{{Do: endAck}}})
	}
	await(t, patience, "every subscription works again", func() bool { return len(s.calls()) == subscriptions })
	took := time.Since(from)
	lines = logLines(t, w) - lines // those that say that it works again, too
	s.stop()
	// All that the process ever computed, its start included, set against the time without a server alone.
	share := float64(w.cmd.ProcessState.UserTime()+w.cmd.ProcessState.SystemTime()) / float64(away)
	t.Logf("without a server for %s: %.1f %% of a processor, %d lines in the log; works again after %s", away, 100*share, lines, took)
	if share > 0.10 {
		t.Errorf("%.1f %% of a processor, want at most 10 %%", 100*share)
	}
	if lines >= 200 {
		t.Errorf("%d lines in the log, want less than 200", lines)
	}
	if took > 10*time.Second {
		t.Errorf("works again after %s, want at most 10s", took)
	}
}

func logLines(t testing.TB, p *process) int {
	t.Helper()
	text, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
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
