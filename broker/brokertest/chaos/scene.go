//go:build unix

package chaos

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// patience is how long anything may take that has no bound of its own. What does not come by then is a failed test, not
// one that hangs.
const patience = time.Minute

// scene is one server with the workers on it.
type scene struct {
	*supervisor
	t       testing.TB
	client  redis.UniversalClient
	journal *journal
}

// newScene starts no worker. The client goes to the server by another way than the workers' URL, if that leads through a
// proxy.
func newScene(t testing.TB, client redis.UniversalClient, o order) *scene {
	s := newSupervisor(t, o)
	return &scene{supervisor: s, t: t, client: client, journal: newJournal(s.order.Journal)}
}

// await waits until cond holds. what completes the sentence "never: …".
func await(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never within %s: %s", limit, what)
		}
	}
}

// calls returns all calls so far.
func (s *scene) calls() []*call {
	s.t.Helper()
	calls, err := s.journal.update()
	if err != nil {
		s.t.Fatal(err)
	}
	return calls
}

// callsOfKey returns the calls of one message, in the order they began.
func (s *scene) callsOfKey(key string) []*call {
	s.t.Helper()
	var own []*call
	for _, c := range s.calls() {
		if c.key == key {
			own = append(own, c)
		}
	}
	slices.SortFunc(own, func(a, b *call) int { return a.began.Compare(b.began) })
	return own
}

// awaitCall waits until the message has been called for the n-th time and returns that call.
func (s *scene) awaitCall(limit time.Duration, key string, n int) *call {
	s.t.Helper()
	var calls []*call
	await(s.t, limit, "another call of "+key, func() bool {
		calls = s.callsOfKey(key)
		return len(calls) >= n
	})
	return calls[n-1]
}

// gate returns the path of a file that does not exist yet.
func (s *scene) gate(name string) string { return filepath.Join(s.order.Journal, "gate-"+name) }

// open lets the handlers through that wait for the gate.
func (s *scene) open(name string) {
	s.t.Helper()
	if err := os.WriteFile(s.gate(name), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// publish appends the jobs to a stream, many in one round trip. The key is the message's id, too.
func (s *scene) publish(stream string, jobs ...job) {
	s.t.Helper()
	for batch := range slices.Chunk(jobs, page) {
		_, err := s.client.Pipelined(s.t.Context(), func(p redis.Pipeliner) error {
			for _, j := range batch {
				p.XAdd(s.t.Context(), entryOf(stream, j))
			}
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// entryOf is the entry of a job.
func entryOf(stream string, j job) *redis.XAddArgs {
	return &redis.XAddArgs{Stream: stream, Values: []any{fieldPayload, j.encode(), headerPrefix + broker.HeaderMessageID, j.Key}}
}

// atRest reports whether nothing is pending, delayed or unread in any mount.
func (s *scene) atRest() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, m := range s.order.Mounts {
		groups, err := s.client.XInfoGroups(ctx, m.Stream).Result()
		if err != nil {
			return false
		}
		i := slices.IndexFunc(groups, func(g redis.XInfoGroup) bool { return g.Name == m.Group })
		if i < 0 || groups[i].Pending > 0 {
			return false
		}
		last, err := s.client.XRevRangeN(ctx, m.Stream, "+", "-", 1).Result()
		if err != nil || len(last) == 0 || last[0].ID != groups[i].LastDeliveredID {
			return false
		}
		if m.DelaySet != "" {
			if n, err := s.client.ZCard(ctx, m.DelaySet).Result(); err != nil || n > 0 {
				return false
			}
		}
	}
	return true
}

// awaitRest waits until nothing is left to do. Between two looks at the same mount a message may be on its way from the
// delay set to the stream, which is why it has to be at rest twice in a row. It does not end the test: the verdict tells
// more.
func (s *scene) awaitRest(limit time.Duration) {
	s.t.Helper()
	deadline := time.Now().Add(limit)
	for rests := 0; rests < 2; time.Sleep(10 * time.Millisecond) {
		if rests++; !s.atRest() {
			rests = 0
		}
		if time.Now().After(deadline) {
			s.t.Errorf("never within %s: everything is settled", limit)
			s.showRest()
			return
		}
	}
}

// showRest logs what is left on the server.
func (s *scene) showRest() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, m := range s.order.Mounts {
		groups, err := s.client.XInfoGroups(ctx, m.Stream).Result()
		s.t.Logf("%s: groups %+v %v", m.Stream, groups, err)
		consumers, err := s.client.XInfoConsumers(ctx, m.Stream, m.Group).Result()
		s.t.Logf("%s: consumers %+v %v", m.Stream, consumers, err)
		entries, err := pendingEntries(ctx, s.client, m)
		s.t.Logf("%s: pending %+v %v", m.Stream, entries[:min(len(entries), shownFaults)], err)
		if m.DelaySet != "" {
			s.t.Logf("%s: %d delayed", m.Stream, s.client.ZCard(ctx, m.DelaySet).Val())
		}
	}
	s.t.Logf("alive: %v", s.client.Keys(ctx, "*:alive:*").Val())
}

// judge gives the verdict on one mount, and logs what was seen.
func (s *scene) judge(m mount, jobs []job) {
	s.t.Helper()
	l, err := readLedger(s.t.Context(), s.client, m)
	if err != nil {
		s.t.Fatal(err)
	}
	v := verdict{mount: m, jobs: jobs, calls: callsOf(s.calls(), m), ledger: l, inHand: s.inHand}
	v.judge()
	s.t.Logf("%s: %d messages, %d calls, %d of them again; %d copies, %d dead letters",
		m.Stream, len(jobs), len(v.calls), v.reruns, v.copies, v.letters)
	for i, fault := range v.faults {
		if i == shownFaults {
			s.t.Errorf("%s: and %d faults more", m.Stream, len(v.faults)-i)
			break
		}
		s.t.Errorf("%s: %s", m.Stream, fault)
	}
}

// inHand tells whether the delivery of a call was in hand when its process was killed or frozen, or ended by itself.
func (s *scene) inHand(c *call) bool {
	p := s.byNumber(c.worker)
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	until := c.ended.Add(settleTime)
	reaches := func(at time.Time) bool { return c.ended.IsZero() || !until.Before(at) }
	for _, f := range p.frozen {
		// What came while the process stood still begins when it wakes up.
		if !c.began.After(f[1].Add(settleTime)) && reaches(f[0]) {
			return true
		}
	}
	switch {
	case !p.killed.IsZero():
		return reaches(p.killed)
	case p.hasEnded() && p.cmd.ProcessState.ExitCode() == exitCode:
		return reaches(p.ended)
	}
	return false
}
