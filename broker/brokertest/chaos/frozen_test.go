//go:build unix

package chaos

import (
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker/redistest"
)

// A worker that stands still is charged with what it holds when a peer takes that, once, and not at all where nobody does:
// least of all by what the worker itself had asked of the server before, and is answered while it stands still.
func TestAFrozenWorkerIsOneLossAtMost(t *testing.T) {
	chaotic(t)
	for _, c := range []struct {
		name  string
		claim time.Duration
	}{{"plain", 0}, {"claiming", ttl}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			eachServer(t, func(t *testing.T, server *redistest.Server) {
				m := mount{
					Stream: "frozen", Group: "g", Claim: c.claim, DeadLetter: "frozen.dlq", MaxAttempts: 3, MaxDeliveries: 2,
					Block: 10 * time.Second,
				}
				s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: ttl, Grace: time.Second, Mounts: []mount{m}})
				held := job{Key: "held", Steps: []step{{Do: endAck, Gate: s.gate("held")}}}
				s.publish(m.Stream, held)
				w := s.start()
				s.awaitCall(patience, held.Key, 1)
				await(t, patience, "the worker reads on", func() bool { return s.ready(w) })
				for range 2 {
					w.signal(syscall.SIGSTOP)
					awaitUncharged(t, s, m, "the entry is idle", func(p redis.XPendingExt) bool { return p.Idle > 2*ttl+ttl/2 })
					w.signal(syscall.SIGCONT)
					// Until it is at rest again. In the moment between its look at the clock and the command that takes what is
					// idle, a process that is stopped takes what it holds from itself when it goes on: one delivery too many.
					awaitUncharged(t, s, m, "the worker goes on", func(p redis.XPendingExt) bool { return p.Idle < ttl/2 })
					awaitUncharged(t, s, m, "nothing is refreshed for a while", func(p redis.XPendingExt) bool { return p.Idle > ttl/5 })
					awaitUncharged(t, s, m, "it is refreshed again", func(p redis.XPendingExt) bool { return p.Idle < ttl/5 })
				}
				w.signal(syscall.SIGSTOP)
				awaitUncharged(t, s, m, "the entry is idle", func(p redis.XPendingExt) bool { return p.Idle > 2*ttl+ttl/2 })
				s.start()
				if taken := s.awaitCall(patience, held.Key, 2); taken.losses != 1 || taken.attempt != 1 {
					t.Errorf("the peer was called with %v, want attempt 1 and losses 1", taken)
				}
				w.signal(syscall.SIGCONT)
				s.open("held")
				s.awaitRest(patience)
				s.stop()
				if calls := s.callsOfKey(held.Key); len(calls) != 2 {
					t.Errorf("calls %v, want two", calls)
				}
				if n := s.client.XLen(t.Context(), m.DeadLetter).Val(); n != 0 {
					t.Errorf("%d dead letters", n)
				}
			})
		})
	}
}

// awaitUncharged waits for the one pending entry, which nobody is charged with meanwhile.
func awaitUncharged(t testing.TB, s *scene, m mount, what string, cond func(redis.XPendingExt) bool) {
	t.Helper()
	await(t, patience, what, func() bool {
		p, err := pendingEntries(t.Context(), s.client, m)
		if err != nil || len(p) != 1 || p[0].RetryCount != 1 {
			t.Fatalf("pending %+v, %v; want the entry as it was handed out first", p, err)
		}
		return cond(p[0])
	})
}
