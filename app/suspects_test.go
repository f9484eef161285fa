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
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// left adds a message that a dead process left at the delivery count.
func (s *service) left(body string, count int64) {
	s.t.Helper()
	ctx, c := s.t.Context(), s.Client()
	c.XGroupCreateMkStream(ctx, "in", group, "0") // the second time it exists
	id := c.XAdd(ctx, &redis.XAddArgs{Stream: "in", Values: []any{"_payload", body}}).Val()
	c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: group, Consumer: "dead", Streams: []string{"in", ">"}, Count: 1})
	if err := c.Do(ctx, "XCLAIM", "in", group, "dead", 0, id, "IDLE", 3_600_000, "RETRYCOUNT", count, "JUSTID").Err(); err != nil {
		s.t.Fatal(err)
	}
}

// counts lists the delivery counts of what is pending, in the order of the stream.
func (s *service) counts() []int64 {
	s.t.Helper()
	p, err := s.Client().XPendingExt(s.t.Context(), &redis.XPendingExtArgs{Stream: "in", Group: group, Start: "-", End: "+", Count: 100}).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	counts := make([]int64, len(p))
	for i, e := range p {
		counts[i] = e.RetryCount
	}
	return counts
}

// Of several messages that are on their last permitted run only one is in its handler, and no other that outlived an
// owner beside it: a death then has one cause. The others are not charged while they wait, and hold up nothing else.
func TestASuspectOnItsLastRunRunsAlone(t *testing.T) {
	for _, claim := range []time.Duration{0, time.Minute} {
		t.Run(claim.String(), func(t *testing.T) {
			paused(t, func(s *service) {
				var suspects, others atomic.Int64
				s.mount(streamrt.Spec{Claim: claim}, func(ctx context.Context, body string) outcome.HandlerOutcome {
					if body == "fresh" {
						return outcome.Ack()
					}
					last := int64(1)
					if body == "other" {
						last = 0
					}
					others.Add(1 - last)
					if all := suspects.Add(1); all > 1 && others.Load() < all {
						s.t.Errorf("%s runs beside %d suspects", body, all-1)
					}
					time.Sleep(10 * time.Second)
					suspects.Add(-1)
					others.Add(last - 1)
					return outcome.Ack()
				}, app.MaxDeliveries(3), app.Concurrency(4))
				s.left("last", 2)
				s.left("last", 2)
				s.left("other", 1)
				s.left("last", 2)
				s.left("other", 1)
				s.start()
				s.Advance(35 * time.Second) // nobody is judged before a TTL is over
				if s.ran() == 0 {
					s.t.Fatal("nothing was taken")
				}
				for began := time.Now(); s.pending() > 0; {
					if time.Since(began) > 5*time.Minute {
						s.t.Fatalf("the delivery counts are still %v after %d runs", s.counts(), s.ran())
					}
					charged := 0
					for _, count := range s.counts() {
						if count == 3 {
							charged++
						}
					}
					if charged > 1 {
						s.t.Fatalf("the delivery counts are %v: more than the one that runs is charged", s.counts())
					}
					before := s.ran()
					s.publish("fresh")
					s.Advance(100 * time.Millisecond)
					if s.ran() == before {
						s.t.Fatal("a new message waits behind suspects")
					}
					s.Advance(time.Second)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				runs := map[string]int{}
				for _, m := range s.runs {
					if m.Losses > 0 {
						runs[fmt.Sprint(m.Losses)]++
					}
					if m.Attempt != 1 {
						s.t.Errorf("attempt %d", m.Attempt)
					}
				}
				if runs["2"] != 3 || runs["1"] != 2 {
					s.t.Errorf("runs by losses: %v", runs)
				}
			})
		})
	}
}

// Whoever has answered is settled by the time that one on its last run starts, however long it takes to find out what its
// answer means. A death in that run would be counted against it otherwise, and bury what was handled.
func TestASuspectOnItsLastRunFindsTheOthersSettled(t *testing.T) {
	paused(t, func(s *service) {
		const suspects = 5
		answered := map[string]bool{} // by entry; only one runs at a time
		s.mount(streamrt.Spec{}, func(ctx context.Context, _ string) outcome.HandlerOutcome {
			p, err := s.Client().XPendingExt(ctx, &redis.XPendingExtArgs{Stream: "in", Group: group, Start: "-", End: "+", Count: 100}).Result()
			if err != nil {
				s.t.Error(err)
			}
			for _, e := range p {
				// Settled are those that wait for their next attempt: 1000 for the failure, and their losses.
				if answered[e.ID] && e.RetryCount < 1000 {
					s.t.Errorf("%s has answered, and is charged while one on its last run runs", e.ID)
				}
			}
			answered[app.MessageFrom(ctx).EntryID] = true
			return outcome.Of(errors.New("no"))
		}, app.MaxDeliveries(3), app.Concurrency(4), app.Backoff(app.BackoffFunc(func(int, error) time.Duration {
			time.Sleep(10 * time.Millisecond)
			return time.Hour
		})))
		for range suspects {
			s.left("last", 2)
		}
		s.start()
		s.Advance(40 * time.Second) // nobody is judged before a TTL is over
		if s.ran() != suspects {
			s.t.Errorf("%d runs, want %d", s.ran(), suspects)
		}
	})
}

// A stop hands back what waits for its turn, uncharged.
func TestAStopHandsBackSuspectsThatWait(t *testing.T) {
	paused(t, func(s *service) {
		s.mount(streamrt.Spec{}, func(ctx context.Context, _ string) outcome.HandlerOutcome {
			time.Sleep(5 * time.Second)
			return outcome.Ack()
		}, app.MaxDeliveries(2))
		for range 4 {
			s.left("last", 1)
		}
		cancel, done := s.run()
		s.Advance(33 * time.Second)
		if s.ran() != 1 {
			s.t.Fatalf("%d run", s.ran())
		}
		if took, err := s.stop(cancel, done); err != nil || took > 6*time.Second {
			s.t.Fatalf("%v after %s", err, took)
		}
		if got := s.counts(); fmt.Sprint(got) != "[1 1 1]" {
			s.t.Errorf("delivery counts %v, want the three that waited as they were", got)
		}
	})
}

// What one read brings is charged with its hand-out until it stands aside. One on its last run begins when all of them do: a
// death in that run would be theirs as well.
func TestNothingIsTakenBesideOneOnItsLastRun(t *testing.T) {
	for range 5 {
		paused(t, func(s *service) {
			s.mount(streamrt.Spec{}, func(context.Context, string) outcome.HandlerOutcome {
				counts, charged := s.counts(), 0
				for _, count := range counts {
					if count == 3 {
						charged++
					}
				}
				if charged != 1 {
					s.t.Errorf("the delivery counts are %v in the handler: more than the one that runs is charged", counts)
				}
				return outcome.Ack()
			}, app.MaxDeliveries(3), app.Concurrency(4))
			for range 30 {
				s.left("last", 2)
			}
			s.start()
			s.Advance(time.Minute)
			s.wantServer(0, 30, 0)
			if s.ran() != 30 {
				s.t.Errorf("%d runs of 30 messages", s.ran())
			}
		})
	}
}
