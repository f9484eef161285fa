//go:build unix

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker/redistest"
)

// freeConsumer owns what stopping processes hand back, for anyone to take.
const freeConsumer = "~free"

// Months of deployments and crashes leave no names in the group: a stop takes its own away at once, and those of killed
// processes go once they are known to be dead.
func TestRestartsLeaveNoConsumers(t *testing.T) {
	chaotic(t)
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		const cycles = 25
		m := mount{Stream: "restarts", Group: "g", DeadLetter: "restarts.dlq", MaxAttempts: 3, MaxDeliveries: 1000, Block: time.Second}
		s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: ttl, Grace: 5 * time.Second, Mounts: []mount{m}})
		var jobs []job
		cycle := func(kind string, n int) *process {
			j := job{Key: fmt.Sprint(kind, n), Steps: []step{{Do: endAck, Work: rand.N(20 * time.Millisecond)}}} //nolint:gosec // any will do
			jobs = append(jobs, j)
			w := s.start()
			s.publish(m.Stream, j)
			s.awaitCall(patience, j.Key, 1)
			await(t, patience, "the worker reads", func() bool { return s.ready(w) })
			return w
		}
		for n := range cycles {
			w := cycle("stopped", n)
			w.terminate()
			if err := w.wait(patience); err != nil {
				t.Error(err)
			}
			if names := s.consumers(t.Context(), m); len(names) > 0 {
				t.Fatalf("after stop %d the group has the consumers %v", n+1, names)
			}
		}
		for n := range cycles {
			w := cycle("killed", n)
			w.kill()
			<-w.done
		}
		left := len(s.consumers(t.Context(), m))
		s.keep(1)
		s.awaitRest(patience)
		from := time.Now()
		// A dead owner with nothing pending is removed at the next look after the survivor may judge, and one that was killed
		// with its message in hand at the look after that was taken. A busy machine takes its time for both.
		await(t, takeOver(ttl)+20*time.Second, "one name is left beside the one that owns what is free", func() bool {
			return len(s.consumers(t.Context(), m)) == 1
		})
		t.Logf("%d names after the kills, one %s later", left, time.Since(from).Round(time.Millisecond))
		rows, err := s.client.XInfoConsumers(t.Context(), m.Stream, m.Group).Result()
		if err != nil || len(rows) > 2 {
			t.Errorf("XINFO CONSUMERS: %+v, %v; want two rows at most", rows, err)
		}
		s.stop()
		s.judge(m, jobs)
	})
}

// consumers lists the names in the group but the reserved one.
func (s *scene) consumers(ctx context.Context, m mount) []string {
	s.t.Helper()
	rows, err := s.client.XInfoConsumers(ctx, m.Stream, m.Group).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, row := range rows {
		if row.Name != freeConsumer {
			names = append(names, row.Name)
		}
	}
	return names
}

// A worker takes what it has free handlers for, so that a backlog is shared and nobody sits on what others could do.
func TestABacklogIsShared(t *testing.T) {
	chaotic(t)
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		const workers, concurrency, messages = 4, 2, 200
		m := mount{Stream: "backlog", Group: "g", Concurrency: concurrency, Block: time.Second}
		s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: 3 * time.Second, Grace: 5 * time.Second, Mounts: []mount{m}})
		s.keep(workers)
		await(t, patience, "all workers read", func() bool {
			for _, p := range s.alive() {
				if !s.ready(p) {
					return false
				}
			}
			return true
		})
		jobs := ordinary(messages, pick(200*time.Millisecond, 500*time.Millisecond))
		s.publish(m.Stream, jobs...)
		looks := 0
		for ; !s.atRest(); time.Sleep(2 * time.Millisecond) {
			looks++
			for consumer, n := range s.inHandOf(m) {
				if n > concurrency {
					t.Fatalf("%s has %d entries in hand, and %d handlers", consumer, n, concurrency)
				}
			}
		}
		s.stop()
		s.judge(m, jobs)
		shares := map[int]int{}
		for _, c := range s.calls() {
			shares[c.worker]++
		}
		t.Logf("%d looks; the shares are %v", looks, shares)
		for n := range workers {
			if got := shares[n+1]; got < messages*15/100 {
				t.Errorf("worker %d handled %d of %d messages", n+1, got, messages)
			}
		}
	})
}

// inHandOf counts what each consumer has in hand: what is pending with it less what its handler has answered, whose
// acknowledgement is on its way.
func (s *scene) inHandOf(m mount) map[string]int {
	s.t.Helper()
	entries, err := pendingEntries(s.t.Context(), s.client, m)
	if err != nil {
		s.t.Fatal(err)
	}
	answered := map[string]bool{}
	for _, c := range s.calls() {
		answered[c.entry] = !c.ended.IsZero()
	}
	held := map[string]int{}
	for _, e := range entries {
		if !answered[e.ID] {
			held[e.Consumer]++
		}
	}
	return held
}
