//go:build unix

package chaos

import (
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker/redistest"
)

// ttl is the liveness of most tests: the least that is allowed.
const ttl = time.Second

// takeOver is how long after the death of an owner its entries may stay where they are: until they are taken for dead,
// and about one look of the peers longer.
func takeOver(ttl time.Duration) time.Duration { return ttl + 2*time.Second }

// Deployments and crashes are no failures, and only crashes are losses.
func TestStopsAndDeathsAreCountedApart(t *testing.T) {
	chaotic(t)
	const rounds = 6
	stop := func(s *scene, p *process) {
		p.terminate()
		if err := p.wait(patience); err != nil {
			s.t.Error(err)
		}
	}
	for _, c := range []struct {
		name   string
		end    func(*scene, *process)
		losses int
	}{
		{name: "deployments", end: stop},
		{name: "kills", end: func(_ *scene, p *process) { p.kill() }, losses: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			m := mount{Stream: "apart", Group: "g", DeadLetter: "apart.dlq", MaxAttempts: 3, MaxDeliveries: 20, Block: time.Second}
			s := newScene(t, server.Client(), order{
				URL: server.URL(), Liveness: ttl, Grace: 100 * time.Millisecond, Mounts: []mount{m},
			})
			long := job{Key: "long", Steps: []step{{Do: endRetry, Gate: s.gate("first")}, {Do: endAck, Gate: s.gate("second")}}}
			s.publish(m.Stream, long)
			s.keep(2)
			for n := range rounds + 1 {
				call := s.awaitCall(patience, long.Key, n+1)
				if call.attempt != 1 || call.losses != n*c.losses {
					t.Errorf("call %d: %v, want attempt 1 and losses %d", n+1, call, n*c.losses)
				}
				if n < rounds {
					c.end(s, s.byNumber(call.worker))
				}
			}
			s.open("first")
			last := s.awaitCall(patience, long.Key, rounds+2)
			if last.attempt != 2 || last.losses != rounds*c.losses {
				t.Errorf("after one failure: %v, want attempt 2 and losses %d", last, rounds*c.losses)
			}
			s.open("second")
			s.awaitRest(patience)
			s.stop()
			if n := len(s.callsOfKey(long.Key)); n != rounds+2 {
				t.Errorf("%d calls, want %d", n, rounds+2)
			}
			if n := server.Client().XLen(t.Context(), m.DeadLetter).Val(); n != 0 {
				t.Errorf("%d dead letters", n)
			}
		})
	}
}

// What a dead process had in hand is elsewhere soon after it is known to be dead, and what a stopped one had at once.
func TestAPeerTakesOver(t *testing.T) {
	chaotic(t)
	const long = 2 * time.Second
	for _, c := range []struct {
		name   string
		end    func(*process)
		within time.Duration
	}{
		{name: "after SIGKILL", end: (*process).kill, within: takeOver(long)},
		{name: "after SIGTERM", end: (*process).terminate, within: 1500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			m := mount{Stream: "take-over", Group: "g"}
			s := newScene(t, server.Client(), order{
				URL: server.URL(), Liveness: long, Grace: 100 * time.Millisecond, Mounts: []mount{m},
			})
			s.publish(m.Stream, job{Key: "long", Steps: []step{{Do: endAck, Gate: s.gate("long")}}})
			s.keep(2)
			var longest time.Duration
			for n := range pick(4, 20) {
				call := s.awaitCall(patience, "long", n+1)
				peers := s.alive()
				await(t, patience, "a peer has read for long enough to judge", func() bool {
					for _, p := range peers {
						if !s.ready(p) {
							return false
						}
					}
					return len(s.alive()) == 2
				})
				time.Sleep(long + 500*time.Millisecond) // a worker judges nobody before
				from := time.Now()
				c.end(s.byNumber(call.worker))
				next := s.awaitCall(patience, "long", n+2)
				took := next.began.Sub(from)
				longest = max(longest, took)
				if took > c.within {
					t.Errorf("taken over after %s, want at most %s", took, c.within)
				}
			}
			t.Logf("taken over within %s at worst", longest)
			s.open("long")
			s.awaitRest(patience)
			s.stop()
		})
	}
}
