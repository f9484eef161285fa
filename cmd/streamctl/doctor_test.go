package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

func ack(context.Context, string) outcome.HandlerOutcome { return outcome.Ack() }

// checks are those of the findings that a call of doctor printed, but for what the server itself lacks.
func (s *stage) checks(args ...string) (checks string, r result) {
	s.t.Helper()
	r = s.call(append([]string{"doctor"}, args...)...)
	for line := range strings.Lines(r.out) {
		_, check, ok := strings.Cut(strings.TrimSpace(line), " [")
		if check = strings.TrimSuffix(check, "]"); ok && check != "no-claim" && check != "unknown-server" {
			checks += check + " "
		}
	}
	return strings.TrimSpace(checks), r
}

// finds expects exactly this finding, with the texts, and the exit code that it makes.
func (s *stage) finds(severe severity, check string, args []string, texts ...string) {
	s.t.Helper()
	got, r := s.checks(args...)
	if got != check {
		s.t.Fatalf("doctor finds %q, want %q\n%s%s", got, check, r.out, r.err)
	}
	s.has(r, append(texts, string(severe)+"  ")...)
	if want := severe == problem; (r.code == 1) != want {
		s.t.Errorf("exit code %d", r.code)
	}
}

func TestAHealthyServerIsClean(t *testing.T) {
	each(t, func(s *stage) {
		done := make(chan struct{}, 1)
		s.worker(streamrt.Spec{Stream: "refunds", Group: "refunds", DelaySet: "refunds.delayed"}, func(_ context.Context, body string) outcome.HandlerOutcome {
			if body == "later" {
				done <- struct{}{}
				return outcome.RetryAfter(time.Hour)
			}
			return outcome.Ack()
		}, app.DeadLetter("refunds.dlq"), app.MaxAttempts(3))
		s.worker(streamrt.Spec{List: "thumbnails", Reliable: true, Name: "t.list"}, ack)
		// A group that was given nothing yet has a reader all the same.
		s.worker(streamrt.Spec{Stream: "quiet", Group: "quiet", Name: "t.quiet"}, ack)
		s.publish(broker.Stream("refunds"), "now", "later")
		s.publish(broker.List("thumbnails"), "now")
		s.Eventually("all is done", func(ctx context.Context) bool {
			p, err := s.Client().XPending(ctx, "refunds", "refunds").Result()
			return err == nil && p.Count == 0 && s.Client().ZCard(ctx, "refunds.delayed").Val() == 1
		})
		<-done
		checks, r := s.checks()
		if checks != "" || r.code != 0 {
			s.t.Errorf("doctor finds %q, exit code %d\n%s%s", checks, r.code, r.out, r.err)
		}
		s.has(r, "no problem: 2 streams, 0 lists, 1 delay set")
	})
}

func TestDoctorFindsAGroupThatNobodyReads(t *testing.T) {
	// The embedded server tells neither how long a consumer has been silent nor what a group has not been given.
	live(t, func(s *stage) {
		s.Client().XAdd(s.t.Context(), xadd("refunds", "_payload", "b"))
		s.Client().XGroupCreate(s.t.Context(), "refunds", "refunds", "0")
		s.finds(problem, "no-readers", nil, "group refunds of refunds", "0 pending, 1 not delivered", "XGROUP DESTROY refunds refunds")
		// A reader of another library shows itself by reading.
		ok := s.Client().XReadGroup(s.t.Context(), &redis.XReadGroupArgs{Group: "refunds", Consumer: "foreign", Streams: []string{"refunds", ">"}}).Err()
		if ok != nil {
			s.t.Fatal(ok)
		}
		if checks, r := s.checks(); checks != "" {
			s.t.Errorf("with a foreign reader: %s", r.out)
		}
		s.Advance(30 * time.Millisecond)
		s.finds(problem, "no-readers", []string{"--stale", "10ms"}, "1 pending, 0 not delivered")
		s.Client().XAck(s.t.Context(), "refunds", "refunds", s.Client().XRange(s.t.Context(), "refunds", "-", "+").Val()[0].ID)
		s.Client().XTrimMaxLen(s.t.Context(), "refunds", 0)
		s.finds(remark, "no-readers", []string{"--stale", "10ms"}, "nothing waits for one")
	})
}

func TestDoctorFindsWhatHasBeenPendingForTooLong(t *testing.T) {
	each(t, func(s *stage) {
		s.worker(streamrt.Spec{Stream: "refunds", Group: "refunds", Reclaim: time.Hour}, ack)
		s.Client().XAdd(s.t.Context(), xadd("refunds", "_payload", "b"))
		err := s.Client().XReadGroup(s.t.Context(), &redis.XReadGroupArgs{Group: "refunds", Consumer: "gone", Streams: []string{"refunds", ">"}}).Err()
		if err != nil {
			s.t.Fatal(err)
		}
		s.Advance(50 * time.Millisecond)
		s.finds(problem, "pending-idle", []string{"--pending", "20ms"}, "1 entry is pending", "under gone", "streamctl pending refunds refunds --idle 20ms")
		if checks, r := s.checks("--pending", "1h"); checks != "" {
			s.t.Errorf("before its time: %s", r.out)
		}
	})
}

func TestDoctorRemarksWhatALivingConsumerHasHadForLong(t *testing.T) {
	each(t, func(s *stage) {
		s.liveness = time.Second // a consumer touches what it has every third of it
		release, began := make(chan struct{}), make(chan struct{})
		s.worker(streamrt.Spec{Stream: "refunds", Group: "refunds"}, func(context.Context, string) outcome.HandlerOutcome {
			close(began)
			<-release
			return outcome.Ack()
		})
		defer close(release)
		s.publish(broker.Stream("refunds"), "b")
		<-began
		s.Advance(2 * time.Second)
		s.finds(remark, "pending-long", []string{"--pending", "1900ms"}, "worker-1, which is alive, still has it", "timeout=")
	})
}

func TestDoctorFindsItemsOfDeadOwners(t *testing.T) {
	each(t, func(s *stage) {
		// Nothing but a process that dies leaves items so, and this one cannot.
		s.Client().SAdd(s.t.Context(), "{thumbnails}:owners", "dead:token")
		s.Client().LPush(s.t.Context(), "{thumbnails}:inflight::dead:token", "a", "b")
		s.finds(problem, "in-flight", nil, "list thumbnails", "2 items are in flight", "start a process")
		s.worker(streamrt.Spec{List: "thumbnails", Reliable: true}, ack)
		if checks, r := s.checks(); checks != "" {
			s.t.Errorf("with a process that will put them back: %s", r.out)
		}
	})
}

func TestDoctorFindsDelaysThatNobodyMoves(t *testing.T) {
	each(t, func(s *stage) {
		s.worker(streamrt.Spec{Stream: "refunds", Group: "refunds", DelaySet: "refunds.delayed"}, func(context.Context, string) outcome.HandlerOutcome {
			return outcome.RetryAfter(time.Hour)
		})
		s.publish(broker.Stream("refunds"), "b")
		s.Eventually("it is delayed", func(ctx context.Context) bool { return s.Client().ZCard(ctx, "refunds.delayed").Val() == 1 })
		s.Stop()
		s.Client().XGroupDestroy(s.t.Context(), "refunds", "refunds")
		if checks, r := s.checks(); checks != "" {
			s.t.Errorf("before its time: %s", r.out)
		}
		member := s.Client().ZRange(s.t.Context(), "refunds.delayed", 0, 0).Val()[0]
		past := s.Client().Time(s.t.Context()).Val().Add(-2 * time.Hour)
		s.Client().ZAdd(s.t.Context(), "refunds.delayed", redis.Z{Score: float64(past.UnixMilli()), Member: member})
		s.finds(problem, "overdue", nil, "delay set refunds.delayed", "1 message is due, the first for 2h", "streamctl delayed run refunds.delayed --due")
	})
}

func TestDoctorRemarksTasksThatNobodyKnows(t *testing.T) {
	each(t, func(s *stage) {
		s.worker(streamrt.Spec{Stream: "jobs", Group: "jobs", Task: "known"}, ack)
		s.does(0, "publish", "jobs", "b", "--header", "task=new")
		s.Eventually("it is put off", func(ctx context.Context) bool { return s.Client().ZCard(ctx, "{jobs}:deferred").Val() == 1 })
		s.finds(remark, "unknown-task", nil, "stream jobs", "1 message waits for a process that knows the task (new)")
	})
}

func TestDoctorFindsDeadLettersThatNobodyReads(t *testing.T) {
	each(t, func(s *stage) {
		reject := func(context.Context, string) outcome.HandlerOutcome { return outcome.DeadLetter(errors.New("no")) }
		s.worker(streamrt.Spec{Stream: "refunds", Group: "refunds"}, reject, app.DeadLetter("refunds.dlq"))
		s.worker(streamrt.Spec{List: "thumbnails", Reliable: true, Name: "t.list"}, reject, app.DeadLetter("thumbnails.dlq"))
		s.publish(broker.Stream("refunds"), "b")
		s.buried("refunds.dlq", 1)
		s.finds(problem, "dead-letters", nil, "stream refunds.dlq", "1 dead letter, and nobody reads them", "streamctl dlq stats refunds.dlq")
		s.worker(streamrt.Spec{Stream: "refunds.dlq", Group: "desk", Name: "t.desk"}, ack)
		if checks, r := s.checks(); checks != "" {
			s.t.Errorf("with a reader: %s", r.out)
		}
		s.publish(broker.List("thumbnails"), "b")
		s.Eventually("it is buried", func(ctx context.Context) bool { return s.Client().LLen(ctx, "thumbnails.dlq").Val() == 1 })
		s.finds(problem, "dead-letters", nil, "list thumbnails.dlq")
	})
}

func TestDoctorRemarksAServerThatHasNoClaim(t *testing.T) {
	live(t, func(s *stage) {
		o, err := redisbroker.FromClient(s.Client()).Operator(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		claim, err := o.KnowsClaim(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		r := s.does(0, "doctor")
		if found := strings.Contains(r.out, "[no-claim]"); found == claim {
			s.t.Errorf("the server knows CLAIM: %v\n%s", claim, r.out)
		}
	})
	paused(t, func(s *stage) { s.has(s.does(0, "doctor"), "[no-claim]", "[unknown-server]") })
}

func TestDoctorFindsAServerThatMayEvict(t *testing.T) {
	for _, c := range []struct {
		config      map[string]string
		check, text string
	}{
		{map[string]string{"maxmemory-policy": "allkeys-lru"}, "eviction", "as soon as it has a maxmemory"},
		{map[string]string{"maxmemory-policy": "allkeys-lru", "maxmemory": "1gb"}, "eviction", "when its memory of 1073741824 bytes is full"},
		{map[string]string{"maxmemory-policy": "volatile-ttl"}, "eviction", "the keys that show who is alive"},
		{map[string]string{"maxmemory-policy": "noeviction", "maxmemory": "1mb"}, "full", "a full server refuses"},
		{map[string]string{"maxmemory-policy": "noeviction", "maxmemory": "1gb"}, "", ""},
	} {
		t.Run(fmt.Sprint(c.config), func(t *testing.T) {
			owned(t, func(s *stage) {
				for name, value := range c.config {
					if err := s.Client().ConfigSet(t.Context(), name, value).Err(); err != nil {
						t.Fatal(err)
					}
				}
				if c.check == "" {
					if checks, r := s.checks(); checks != "" || r.code != 0 {
						t.Errorf("doctor finds %s", r.out)
					}
					return
				}
				s.finds(problem, c.check, nil, c.text)
			})
		})
	}
}

func TestDoctorFindsThatItReadsAReplica(t *testing.T) {
	owned(t, func(s *stage) { s.finds(problem, "replica", nil, "it is a replica of 127.0.0.1", "--sentinel") }, "--replicaof", "127.0.0.1 1")
}

func TestDoctorFindsAServerThatIsTooOld(t *testing.T) {
	for _, c := range []struct{ info, checks string }{
		{"redis_version:6.2.14\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n", "old-version"},
		{"redis_version:7.0.0\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n", ""},
		{"redis_version:7.2.4\r\nvalkey_version:9.0.0\r\nrole:master\r\n", ""},
		{"", "unknown-server"},
	} {
		e := &examination{session: &session{}}
		e.judgeServer("host:1", parseInfo(c.info))
		checks := ""
		for _, f := range e.findings {
			checks += f.Check
			if f.Fix == "" || f.Subject != "host:1" {
				t.Errorf("%+v", f)
			}
		}
		if checks != c.checks {
			t.Errorf("%q: %s, want %s", c.info, checks, c.checks)
		}
	}
}

func TestFindingsAsJSON(t *testing.T) {
	paused(t, func(s *stage) {
		s.Client().XAdd(t.Context(), xadd("refunds", "_payload", "b"))
		s.Client().XGroupCreate(t.Context(), "refunds", "refunds", "0")
		r := s.does(1, "doctor", "--json")
		const want = `{"severity":"problem","check":"no-readers","subject":"group refunds of refunds","text":"no consumer is alive: 0 pending, 1 not delivered","fix":"start a process that subscribes to it; if nobody ever will, XGROUP DESTROY refunds refunds"}`
		if first, _, _ := strings.Cut(r.out, "\n"); first != want {
			t.Errorf("%s\nwant\n%s", r.out, want)
		}
	})
}
