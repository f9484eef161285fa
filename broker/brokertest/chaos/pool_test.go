//go:build unix

package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker/redistest"
)

// A pool of five connections is enough for twenty subscriptions: their blocking reads are none of its business, so that
// settling and staying alive never wait for them.
func TestASmallPoolServesManySubscriptions(t *testing.T) {
	chaotic(t)
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		// The key is prolonged every third of its time, so that a sixth of it is what a busy machine may take.
		const subscriptions, long = 20, 10 * time.Second
		period := time.Second / 20
		total := int(min(pick(10*time.Second, time.Minute), time.Minute) / period)
		var mounts []mount
		for i := range subscriptions {
			mounts = append(mounts, mount{Stream: fmt.Sprint("pool", i), Group: "g", DelaySet: fmt.Sprint("pool", i, ".delayed"), Block: 5 * time.Second})
		}
		s := newScene(t, server.Client(), order{
			URL: server.URL() + "?pool_size=5&pool_timeout=1s", Liveness: long, Grace: time.Second, Mounts: mounts,
		})
		w := s.start()
		await(t, patience, "the worker reads", func() bool { return s.ready(w) })
		pending := map[string]*published{} // by stream: nothing is published to it before the last one is settled
		var settled []time.Duration
		shortest := long
		look := func() {
			for stream, p := range pending {
				if p.isSettled(s) {
					settled = append(settled, time.Since(p.ended))
					delete(pending, stream)
				}
			}
			left, n := s.leastLeft()
			if n != subscriptions {
				t.Fatalf("%d liveness keys, want %d", n, subscriptions)
			}
			shortest = min(shortest, left)
		}
		ticker := time.NewTicker(period)
		defer ticker.Stop()
		for i := range total {
			<-ticker.C
			m := mounts[i%subscriptions]
			j := job{Key: fmt.Sprint("m", i), Steps: []step{{Do: endAck}}}
			s.publish(m.Stream, j)
			pending[m.Stream] = &published{mount: m, key: j.Key}
			look()
		}
		await(t, patience, "everything is settled", func() bool { look(); return len(pending) == 0 })
		s.stop()
		slices.Sort(settled)
		p99 := settled[len(settled)*99/100]
		t.Logf("%d messages: settled within %s at p99, %s at most, as seen every %s; a liveness key had %s left at least",
			total, p99.Round(time.Millisecond), settled[len(settled)-1].Round(time.Millisecond), period, shortest)
		if p99 > time.Second {
			t.Errorf("settled within %s at p99, want 1s at most", p99)
		}
		// Each is prolonged every third of it; what a busy machine adds to that is not ours.
		if shortest < long/3 {
			t.Errorf("a liveness key had %s left, want %s at least", shortest, long/3)
		}
		if n := len(s.calls()); n != total || len(settled) != total {
			t.Errorf("%d calls and %d settled, want %d", n, len(settled), total)
		}
		if text := logOf(t, w); strings.Contains(text, "pool timeout") || strings.Contains(text, "level=WARN") {
			t.Errorf("the worker complains:\n%s", text)
		}
	})
}

// published is a message that may not be settled yet.
type published struct {
	mount mount
	key   string
	// ended is when its handler answered.
	ended time.Time
}

// isSettled looks whether the handler has answered and nothing is pending any more.
func (p *published) isSettled(s *scene) bool {
	s.t.Helper()
	if p.ended.IsZero() {
		calls := s.callsOfKey(p.key)
		if len(calls) == 0 || calls[0].ended.IsZero() {
			return false
		}
		p.ended = calls[0].ended
	}
	n, err := pending(s.t.Context(), s.client, p.mount)
	if err != nil {
		s.t.Fatal(err)
	}
	return n == 0
}

// leastLeft is how long the liveness key lasts that ends first, and how many there are.
func (s *scene) leastLeft() (left time.Duration, n int) {
	s.t.Helper()
	keys, err := s.client.Keys(s.t.Context(), "*:alive:*").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	for i, key := range keys {
		d, err := s.client.PTTL(s.t.Context(), key).Result()
		if err != nil {
			s.t.Fatal(err)
		}
		if i == 0 || d < left {
			left = d
		}
	}
	return left, len(keys)
}
