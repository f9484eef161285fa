package app_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// peerTakes gives the only pending entry to a peer, as a claim of it does. left: the peer has died long ago.
func (s *service) peerTakes(left bool) {
	s.t.Helper()
	ctx, c := s.t.Context(), s.Client()
	p := c.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: "in", Group: group, Start: "-", End: "+", Count: 1}).Val()
	if len(p) != 1 {
		s.t.Fatalf("pending %v", p)
	}
	count, idle := p[0].RetryCount, 0
	if p[0].Consumer != "peer" {
		count++
	}
	if left {
		idle = 3_600_000
	}
	if err := c.Do(ctx, "XCLAIM", "in", group, "peer", 0, p[0].ID, "IDLE", idle, "RETRYCOUNT", count, "JUSTID").Err(); err != nil {
		s.t.Fatal(err)
	}
}

// A process that lost an entry and claims it again has two hand-outs of one message. The first run is told that its lease
// is lost, and the second begins when the first has returned: at no time are there two.
func TestAnEntryThatWasLostAndClaimedAgainRunsAfterItsOldRun(t *testing.T) {
	for _, noticed := range []bool{false, true} {
		for _, answer := range []outcome.HandlerOutcome{outcome.Retry(), outcome.Ack(), outcome.DeadLetter(errors.New("no"))} {
			t.Run(fmt.Sprintf("noticed=%t/%v", noticed, answer), func(t *testing.T) {
				paused(t, func(s *service) {
					var running, most atomic.Int64
					var cause error
					s.mount(streamrt.Spec{Claim: time.Minute}, func(ctx context.Context, _ string) outcome.HandlerOutcome {
						most.Store(max(most.Load(), running.Add(1)))
						defer running.Add(-1)
						if s.ran() > 1 {
							return outcome.Ack()
						}
						time.Sleep(50 * time.Second) // whatever its context says
						cause = context.Cause(ctx)
						return answer
					}, app.DeadLetter("dlq"), app.MaxAttempts(100))
					s.start()
					s.publish("x")
					s.peerTakes(false)
					if noticed {
						s.Advance(25 * time.Second) // a refresh finds it lost
					}
					s.peerTakes(true)
					s.Advance(2 * time.Second) // and it is claimed again
					if p := s.counts(); s.ran() != 1 || len(p) != 1 || p[0] != 3 {
						s.t.Fatalf("%d runs, delivery counts %v", s.ran(), p)
					}
					s.Advance(time.Minute)
					if most.Load() != 1 {
						s.t.Errorf("%d handlers ran at once", most.Load())
					}
					if !errors.Is(cause, app.ErrLeaseLost) {
						s.t.Errorf("the context of the first run ended with %v", cause)
					}
					want := 2
					if answer == outcome.Ack() {
						want = 1 // the message is done, whoever has it
					}
					if s.ran() != want {
						s.t.Errorf("%d runs, want %d", s.ran(), want)
					}
					s.wantServer(0, 1, 0)
				})
			})
		}
	}
}

// A stop hands back what waits for an old run that does not end, with the count that it had before.
func TestAStopHandsBackWhatWaitsForAnOldRun(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		s := newService(h, h.Broker(), app.Grace(5*time.Second))
		release := make(chan struct{})
		s.mount(streamrt.Spec{Claim: time.Minute}, func(context.Context, string) outcome.HandlerOutcome {
			<-release
			return outcome.Retry()
		})
		cancel, done := s.run()
		s.publish("x")
		s.peerTakes(false)
		s.peerTakes(true)
		s.Advance(2 * time.Second)
		if took, err := s.stop(cancel, done); err == nil || took > 6*time.Second {
			s.t.Errorf("%v after %s", err, took)
		}
		if p := s.counts(); len(p) != 1 || p[0] != 2 {
			s.t.Errorf("delivery counts %v, want the 2 that the peer left", p)
		}
		close(release)
		time.Sleep(time.Second)
	})
}

// An entry that was lost before its handler began does not begin.
func TestAnEntryThatIsLostBeforeItsTurnDoesNotRunTwice(t *testing.T) {
	paused(t, func(s *service) {
		s.mount(streamrt.Spec{Claim: time.Minute}, func(_ context.Context, body string) outcome.HandlerOutcome {
			if body == "first" {
				time.Sleep(15 * time.Second)
			}
			return outcome.Ack()
		}, app.Concurrency(1), app.Prefetch(5))
		s.start()
		s.publish("first", "second")
		ctx, c := s.t.Context(), s.Client()
		p := c.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: "in", Group: group, Start: "-", End: "+", Count: 2}).Val()
		if len(p) != 2 {
			s.t.Fatalf("pending %v", p)
		}
		c.Do(ctx, "XCLAIM", "in", group, "peer", 0, p[1].ID, "RETRYCOUNT", 2, "JUSTID")
		s.Advance(30 * time.Second)
		if s.ran() != 1 || s.pending() != 1 {
			s.t.Errorf("%d runs, %d pending: the peer has the second", s.ran(), s.pending())
		}
	})
}

// A process takes an entry back that it has lost, while its first handler still ignores the end of its context. The new run
// is another hand-out: nobody has taken that.
func TestALostRunDoesNotEndTheNextOne(t *testing.T) {
	paused(t, func(s *service) {
		release, ended := make(chan struct{}), make(chan error, 1)
		runs := 0
		s.mount(streamrt.Spec{}, func(ctx context.Context, _ string) outcome.HandlerOutcome {
			s.mu.Lock()
			runs++
			first := runs == 1
			s.mu.Unlock()
			if first {
				<-release
				return outcome.Ack()
			}
			select {
			case <-ctx.Done():
				ended <- context.Cause(ctx)
				return outcome.Of(ctx.Err())
			case <-time.After(5 * time.Minute):
			}
			return outcome.Ack()
		}, app.Concurrency(2), app.DeadLetter("dlq"))
		s.start()
		s.publish("x")
		s.Advance(time.Second)
		// Another process took it, and has died since.
		p, err := s.Client().XPendingExt(s.t.Context(), &redis.XPendingExtArgs{Stream: "in", Group: group, Start: "-", End: "+", Count: 1}).Result()
		if err != nil || len(p) != 1 {
			s.t.Fatalf("pending %v, %v", p, err)
		}
		if err := s.Client().Do(s.t.Context(), "XCLAIM", "in", group, "dead", 0, p[0].ID, "IDLE", 3_600_000, "RETRYCOUNT", 2, "JUSTID").Err(); err != nil {
			s.t.Fatal(err)
		}
		s.Advance(3 * time.Minute)
		s.mu.Lock()
		if runs != 2 {
			s.t.Errorf("%d runs, want the lost one and the next", runs)
		}
		s.mu.Unlock()
		select {
		case cause := <-ended:
			s.t.Errorf("the context of the run that owns the entry ended: %v", cause)
		default:
		}
		close(release)
		s.Advance(5 * time.Minute)
		s.wantServer(0, 1, 0)
	})
}
