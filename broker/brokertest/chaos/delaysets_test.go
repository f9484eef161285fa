//go:build unix

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker/redistest"
)

// When a message is due is told by the server's clock, in whole milliseconds.
func TestDueTimesAreTheServers(t *testing.T) {
	chaotic(t)
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		const after = 30 * time.Second
		m := mount{Stream: "due", Group: "g", DelaySet: "due.delayed", Block: time.Second}
		s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: ttl, Grace: time.Second, Mounts: []mount{m}})
		w := s.start()
		await(t, patience, "the worker reads", func() bool { return s.ready(w) })
		clock := func() int64 {
			now, err := s.client.Time(t.Context()).Result()
			if err != nil {
				t.Fatal(err)
			}
			return now.UnixMilli()
		}
		asked := clock()
		s.publish(m.Stream, job{Key: "due", Steps: []step{{Do: endRetryAfter, After: after}}})
		await(t, patience, "the message waits", func() bool { return s.client.ZCard(t.Context(), m.DelaySet).Val() == 1 })
		seen := clock()
		members, err := s.client.ZRangeWithScores(t.Context(), m.DelaySet, 0, -1).Result()
		if err != nil || len(members) != 1 {
			t.Fatalf("members %v, %v", members, err)
		}
		// It is rounded up, so that nothing is early.
		score := members[0].Score
		if due := int64(score); due < asked+after.Milliseconds() || due > seen+after.Milliseconds()+1 || float64(due) != score {
			t.Errorf("asked between %d and %d for a delay of %s, due at %f", asked, seen, after, score)
		}
		s.stop()
	})
}

// Whoever is killed between answering and moving, a delayed message stands somewhere: with its owner, in the set or in
// the stream.
func TestKillsLoseNoDelayedMessage(t *testing.T) {
	chaotic(t)
	eachRedis(t, func(t *testing.T, server *redistest.Server) {
		m := mount{
			Stream: "later", Group: "g", DelaySet: "later.delayed", DeadLetter: "later.dlq", MaxAttempts: 5, MaxDeliveries: 1000,
			Block: time.Second, Concurrency: 4,
		}
		s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: ttl, Grace: time.Second, Mounts: []mount{m}})
		jobs := make([]job, 1000)
		for i := range jobs {
			wait := 200*time.Millisecond + rand.N(2800*time.Millisecond)     //nolint:gosec // any will do
			work := rand.N(pick(100*time.Millisecond, 500*time.Millisecond)) //nolint:gosec // so that the kills come in time
			jobs[i] = job{Key: fmt.Sprint("later", i), Steps: []step{{Do: endRetryAfter, After: wait, Work: work}, {Do: endAck}}}
		}
		s.publish(m.Stream, jobs...)
		s.keep(3)
		kills := s.harm(700*time.Millisecond, pick(14, 86), (*process).kill)
		t.Logf("%d kills", kills)
		s.stop()
		s.judge(m, jobs)
	})
}

// However many processes look at the set, each due message is moved once.
func TestManyMoversMoveEachMessageOnce(t *testing.T) {
	chaotic(t)
	eachRedis(t, func(t *testing.T, server *redistest.Server) {
		const messages, movers = 2000, 6
		after := 3 * time.Second
		m := mount{Stream: "movers", Group: "g", DelaySet: "movers.delayed", DeadLetter: "movers.dlq", MaxAttempts: 3, Block: time.Second, Concurrency: 50}
		s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: ttl, Grace: 5 * time.Second, Mounts: []mount{m}})
		jobs := make([]job, messages)
		for i := range jobs {
			jobs[i] = job{Key: fmt.Sprint("moved", i), Steps: []step{{Do: endRetryAfter, After: after}, {Do: endAck}}}
		}
		s.publish(m.Stream, jobs...)
		w := s.start()
		await(t, patience, "all messages wait in the set, or have waited", func() bool { return s.answered() >= messages && s.ready(w) })
		w.terminate()
		if err := w.wait(patience); err != nil {
			t.Fatal(err)
		}
		// Nobody moves until all that wait are due, so that all movers come upon the same members.
		rest := s.client.ZCard(t.Context(), m.DelaySet).Val()
		before := s.added(t.Context(), m)
		await(t, patience, "all are due", func() bool { return s.overdue(t.Context(), m) == rest })
		s.keep(movers)
		s.awaitRest(patience)
		s.stop()
		t.Logf("%d messages waited for %d movers", rest, movers)
		if rest == 0 {
			t.Error("the first worker was slow: nothing was left to move")
		}
		if n := s.added(t.Context(), m); n-before != rest || n != 2*messages {
			t.Errorf("%d entries were added to the stream, %d of them for %d members", n, n-before, rest)
		}
		s.judge(m, jobs)
		if n := len(s.calls()); n != 2*messages {
			t.Errorf("%d calls, want %d", n, 2*messages)
		}
	})
}

// answered counts the calls that have ended.
func (s *scene) answered() int {
	s.t.Helper()
	n := 0
	for _, c := range s.calls() {
		if !c.ended.IsZero() {
			n++
		}
	}
	return n
}

// added is how many entries the stream was ever given.
func (s *scene) added(ctx context.Context, m mount) int64 {
	s.t.Helper()
	info, err := s.client.XInfoStream(ctx, m.Stream).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	return info.EntriesAdded
}

// overdue counts the members of the delay set that are due by the server's clock.
func (s *scene) overdue(ctx context.Context, m mount) int64 {
	s.t.Helper()
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	n, err := s.client.ZCount(ctx, m.DelaySet, "-inf", fmt.Sprint(now.UnixMilli())).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// A mover outlives the loss of its connections and of its server, and what has become due meanwhile comes soon after.
func TestAMoverOutlivesItsServer(t *testing.T) {
	chaotic(t)
	eachRedis(t, func(t *testing.T, shared *redistest.Server) {
		const messages = 200
		after, away := 5*time.Second, pick(3*time.Second, 10*time.Second)
		server := shared.Own(t, "--appendonly", "yes", "--appendfsync", "always")
		m := mount{Stream: "blip", Group: "g", DelaySet: "blip.delayed", DeadLetter: "blip.dlq", MaxAttempts: 3, Block: time.Second, Concurrency: 20}
		s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: ttl, Grace: 5 * time.Second, Mounts: []mount{m}})
		jobs := make([]job, messages)
		for i := range jobs {
			jobs[i] = job{Key: fmt.Sprint("blip", i), Steps: []step{{Do: endRetryAfter, After: after}, {Do: endAck}}}
		}
		s.keep(1)
		w := s.alive()[0]
		await(t, patience, "the worker reads", func() bool { return s.ready(w) })
		s.publish(m.Stream, jobs...)
		from := time.Now()
		await(t, patience, "all messages wait", func() bool { return s.client.ZCard(t.Context(), m.DelaySet).Val() == messages })
		for time.Since(from) < after-time.Second {
			time.Sleep(500 * time.Millisecond)
			cutOff(t, s.client)
		}
		if n := s.client.ZCard(t.Context(), m.DelaySet).Val(); n != messages {
			t.Errorf("%d of %d messages wait before they are due", n, messages)
		}
		server.Stop(t)
		time.Sleep(time.Second + away) // past the due time
		server.Restart(t)
		from = time.Now()
		await(t, 10*time.Second, "all messages have come again", func() bool { return len(s.calls()) >= 2*messages })
		t.Logf("all came within %s of the restart", time.Since(from).Round(time.Millisecond))
		s.awaitRest(patience)
		s.stop()
		s.judge(m, jobs)
		if n := len(s.all()); n != 1 {
			t.Errorf("the worker ended and was started again, %d times", n-1)
		}
	})
}

// cutOff ends all connections of the server but the one that asks for it.
func cutOff(t testing.TB, client redis.UniversalClient) {
	t.Helper()
	if err := client.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
}
