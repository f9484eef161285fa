package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

type brokenError struct{}

func (brokenError) Error() string { panic("no text") }

// Every way in which a handler can fail ends in the same place, after exactly as many runs as allowed.
func TestEveryKindOfFailureIsCountedUpToTheCap(t *testing.T) {
	var (
		null    *app.Message
		nothing = []any{nil}[0]
	)
	for name, c := range map[string]struct {
		f       handler
		timeout time.Duration
		said    string
		detail  string
	}{
		"error":      {f: func(context.Context, string) outcome.HandlerOutcome { return outcome.Of(errors.New("busy")) }, said: "busy"},
		"panic":      {f: func(context.Context, string) outcome.HandlerOutcome { panic("boom") }, said: "panic: boom", detail: "failures_test.go"},
		"nil":        {f: func(context.Context, string) outcome.HandlerOutcome { return outcome.Of(errors.New(null.ID)) }, said: "nil pointer", detail: "failures_test.go"},
		"panic(nil)": {f: func(context.Context, string) outcome.HandlerOutcome { panic(nothing) }, said: "panic"},
		"goexit":     {f: func(context.Context, string) outcome.HandlerOutcome { runtime.Goexit(); return outcome.Ack() }, said: "handler called runtime.Goexit"},
		"zero":       {f: func(context.Context, string) outcome.HandlerOutcome { return outcome.HandlerOutcome{} }, said: "handler returned the zero outcome"},
		"bad text":   {f: func(context.Context, string) outcome.HandlerOutcome { return outcome.Of(brokenError{}) }, said: "Error method panicked"},
		"retry":      {f: func(context.Context, string) outcome.HandlerOutcome { return outcome.Retry() }, said: "the handler answered retry"},
		"timeout": {timeout: time.Second, said: "context deadline exceeded", f: func(ctx context.Context, _ string) outcome.HandlerOutcome {
			<-ctx.Done()
			return outcome.Of(context.Cause(ctx))
		}},
	} {
		for mode, spec := range map[string]streamrt.Spec{
			"memory": {}, "set": {DelaySet: "later"}, "claim": {Claim: time.Second},
		} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				paused(t, func(s *service) {
					spec.Timeout = c.timeout
					s.mount(spec, c.f, app.MaxAttempts(3), app.DeadLetter("dlq"), exact, app.Concurrency(1))
					s.start()
					s.publish("one", "two")
					s.Advance(time.Minute)
					attempts := s.attempts()
					slices.Sort(attempts)
					if !slices.Equal(attempts, []int{1, 1, 2, 2, 3, 3}) {
						s.t.Fatalf("attempts %v\n%s", attempts, s.log)
					}
					dead := s.entries("dlq")
					if len(dead) != 2 || s.pending() != 0 {
						s.t.Fatalf("%d dead letters, %d pending", len(dead), s.pending())
					}
					f := dead[0].Values
					if f["dlq_reason"] != "max_attempts" || f["dlq_attempts"] != "3" || f["h:retry-count"] != "3" ||
						f["dlq_deliveries"] != "3" || f["_payload"] != "one" || f["dlq_source"] != "in" || f["dlq_group"] != group ||
						f["dlq_handler"] != "test.in" || f["h:retry-group"] != nil {
						s.t.Errorf("%v", f)
					}
					if !strings.Contains(f["dlq_error"].(string), c.said) || !strings.Contains(f["dlq_detail"].(string), c.detail) {
						s.t.Errorf("error %q, detail %q", f["dlq_error"], f["dlq_detail"])
					}
					lines := strings.Split(f["h:history"].(string), "\n")
					if mode != "claim" && len(lines) != 3 || !strings.HasPrefix(lines[len(lines)-1], "3 2000-01-01T") {
						s.t.Errorf("history %q", lines)
					}
				})
			})
		}
	}
}

func TestASlotOutlivesRuntimeGoexit(t *testing.T) {
	paused(t, func(s *service) {
		running, most := 0, 0
		s.mount(streamrt.Spec{}, func(_ context.Context, body string) outcome.HandlerOutcome {
			if body == "exit" {
				runtime.Goexit()
			}
			s.mu.Lock()
			running++
			most = max(most, running)
			s.mu.Unlock()
			time.Sleep(time.Second)
			s.mu.Lock()
			running--
			s.mu.Unlock()
			return outcome.Ack()
		}, app.Concurrency(3), app.MaxAttempts(1))
		s.start()
		s.publish("exit", "exit", "exit", "exit", "exit")
		s.publish("1", "2", "3", "4", "5", "6")
		s.Advance(2 * time.Second)
		if s.ran() != 11 || most != 3 || s.pending() != 0 {
			s.t.Errorf("%d runs, at most %d side by side, %d pending", s.ran(), most, s.pending())
		}
	})
}

func TestACapWithoutADestinationAcknowledgesAndLogs(t *testing.T) {
	paused(t, func(s *service) {
		s.mount(streamrt.Spec{}, func(context.Context, string) outcome.HandlerOutcome { return outcome.Retry() }, app.MaxAttempts(4))
		s.start()
		s.publish("x")
		if !slices.Equal(s.attempts(), []int{1, 2, 3, 4}) {
			s.t.Errorf("attempts %v", s.attempts())
		}
		s.wantServer(0, 4, 0)
		if !strings.Contains(s.log.String(), "why=cap") {
			s.t.Error("nothing in the log")
		}
	})
}

func TestADestinationWithoutACapTakesTheFirstFailure(t *testing.T) {
	for mode, spec := range map[string]streamrt.Spec{"memory": {}, "set": {DelaySet: "later"}, "claim": {Claim: time.Second}} {
		t.Run(mode, func(t *testing.T) {
			paused(t, func(s *service) {
				s.mount(spec, func(context.Context, string) outcome.HandlerOutcome { return outcome.RetryAfter(time.Hour) }, app.DeadLetter("dlq"))
				s.start()
				s.publish("x")
				s.wantServer(0, 1, 1)
				if f := s.entries("dlq")[0].Values; f["dlq_attempts"] != "1" || f["dlq_reason"] != "max_attempts" {
					s.t.Errorf("%v", f)
				}
			})
		})
	}
}

func TestMessageIDAndHeadersStayTheSameThroughAllCopies(t *testing.T) {
	paused(t, func(s *service) {
		s.mount(streamrt.Spec{}, func(ctx context.Context, _ string) outcome.HandlerOutcome {
			return outcome.Retry().WithError(errors.New("line one\nline two"))
		}, app.MaxAttempts(3), app.DeadLetter("dlq"))
		s.start()
		raw := "\x00\xff bytes\n"
		if err := s.m.Publish(s.t.Context(), broker.Stream("in"), []byte(raw), broker.Header("colour", "\x80blue")); err != nil {
			s.t.Fatal(err)
		}
		s.Advance(0)
		ids := map[string]bool{}
		for _, m := range s.runs {
			ids[m.ID] = true
			if m.Headers.Get("colour") != "\x80blue" || m.Source != "in" || m.Group != group || m.DeadLetter != nil {
				s.t.Errorf("%+v", m)
			}
		}
		dead := s.entries("dlq")[0].Values
		if len(ids) != 1 || !ids[dead["h:message-id"].(string)] || dead["_payload"] != raw || dead["h:colour"] != "\x80blue" {
			s.t.Errorf("ids %v, dead letter %q", ids, dead)
		}
		if history := dead["h:history"].(string); strings.Count(history, "\n") != 2 || !strings.Contains(history, "retry: line one line two") {
			s.t.Errorf("history %q", history)
		}
	})
}

// The reader of a dead letter begins with attempt 1, retries under its own cap, and buries again.
func TestAReviewerStartsAnew(t *testing.T) {
	paused(t, func(s *service) {
		s.mount(streamrt.Spec{}, func(context.Context, string) outcome.HandlerOutcome { return outcome.Retry() },
			app.MaxAttempts(5), app.DeadLetter("dlq"))
		var reviews []app.Message
		s.m.Mount(subscription(streamrt.Spec{Stream: "dlq"}, func(ctx context.Context, _ string) outcome.HandlerOutcome {
			reviews = append(reviews, app.MessageFrom(ctx))
			return outcome.Retry()
		}), app.MaxAttempts(2), app.DeadLetter("dlq2"))
		s.start()
		s.publish("x")
		if len(reviews) != 2 || reviews[0].Attempt != 1 || reviews[1].Attempt != 2 || reviews[0].Headers.Get("retry-count") != "5" {
			s.t.Fatalf("%+v", reviews)
		}
		if d := reviews[1].DeadLetter; d == nil || d.Reason != "max_attempts" || d.Attempts != 5 || d.Handler != "test.in" || d.At.IsZero() {
			s.t.Errorf("%+v", d)
		}
		second := s.entries("dlq2")
		if len(second) != 1 {
			s.t.Fatalf("%d dead letters of dead letters", len(second))
		}
		f := second[0].Values
		if f["dlq_attempts"] != "7" || f["dlq_source"] != "dlq" || f["h:retry-count"] != "7" || f["dlq_deliveries"] != "2" {
			s.t.Errorf("%v", f)
		}
	})
}

func TestWhatCannotBeDecodedIsBuriedUnrun(t *testing.T) {
	type refund struct{ ID int }
	for _, deadLetter := range []bool{true, false} {
		paused(t, func(s *service) {
			var ids []int
			options := []app.MountOption{app.MaxAttempts(5)}
			if deadLetter {
				options = append(options, app.DeadLetter("dlq"))
			}
			s.m.Mount(streamrt.SubscribeErr(streamrt.Spec{Name: "test.in", Stream: "in", Group: group}, streamrt.JSON,
				func(_ context.Context, r *refund) error { ids = append(ids, r.ID); return nil }), options...)
			s.start()
			s.publish("{", `"text"`, "", "null", `{"ID":7}`)
			if !slices.Equal(ids, []int{7}) {
				s.t.Errorf("handled %v", ids)
			}
			if !deadLetter {
				s.wantServer(0, 5, 0)
				if strings.Count(s.log.String(), "why=malformed") != 4 {
					s.t.Errorf("log: %s", s.log)
				}
				return
			}
			s.wantServer(0, 5, 4)
			for _, e := range s.entries("dlq") {
				if e.Values["dlq_reason"] != "malformed" || e.Values["h:retry-count"] != nil || e.Values["dlq_attempts"] != "0" {
					s.t.Errorf("%v", e.Values)
				}
			}
		})
	}
}

func TestRetriesOfOneGroupAreNotHandledByAnother(t *testing.T) {
	paused(t, func(s *service) {
		s.mount(streamrt.Spec{Name: "a", Group: "a"}, func(ctx context.Context, _ string) outcome.HandlerOutcome {
			if app.MessageFrom(ctx).Attempt < 3 {
				return outcome.Retry()
			}
			return outcome.Ack()
		})
		s.mount(streamrt.Spec{Name: "b", Group: "b"}, func(context.Context, string) outcome.HandlerOutcome { return outcome.Ack() })
		s.start()
		s.publish("x")
		runs := map[string]int{}
		for _, m := range s.runs {
			runs[m.Group]++
		}
		if runs["a"] != 3 || runs["b"] != 1 {
			s.t.Errorf("%v", runs)
		}
	})
}

func TestAnUncappedImmediateRetryIsNoHotLoop(t *testing.T) {
	paused(t, func(s *service) {
		s.mount(streamrt.Spec{}, func(context.Context, string) outcome.HandlerOutcome { return outcome.Retry() }, exact)
		s.start()
		s.publish("a", "b")
		if s.ran() != 20 {
			s.t.Errorf("%d runs at once", s.ran())
		}
		s.Advance(5*time.Second + 500*time.Millisecond)
		if s.ran() != 30 {
			s.t.Errorf("%d runs after five waits of a second", s.ran())
		}
		if n := strings.Count(s.log.String(), "retried again and again"); n != 1 {
			s.t.Errorf("logged %d times", n)
		}
	})
}

func TestParkedMessagesAreBoundedAndReadingPauses(t *testing.T) {
	paused(t, func(s *service) {
		s.mount(streamrt.Spec{}, func(ctx context.Context, _ string) outcome.HandlerOutcome {
			if app.MessageFrom(ctx).Attempt == 1 {
				return outcome.RetryAfter(time.Minute)
			}
			return outcome.Ack()
		}, app.MaxParked(5))
		s.start()
		for i := range 12 {
			s.publish(fmt.Sprint(i))
		}
		if s.ran() != 5 || s.pending() != 5 {
			s.t.Errorf("%d runs, %d pending while five wait", s.ran(), s.pending())
		}
		if n := strings.Count(s.log.String(), "MaxParked"); n != 1 {
			s.t.Errorf("logged %d times", n)
		}
		s.Advance(4 * time.Minute)
		if s.ran() != 24 {
			s.t.Errorf("%d runs in the end", s.ran())
		}
		s.wantServer(0, 24, 0)
	})
}

func TestDelaysOfAnyLengthAreSafe(t *testing.T) {
	for mode, spec := range map[string]streamrt.Spec{"memory": {}, "set": {DelaySet: "later"}, "claim": {Claim: time.Second}} {
		for _, d := range []time.Duration{-5 * time.Second, 0, 1, 1<<63 - 1, -1 << 63} {
			t.Run(fmt.Sprint(mode, "/", d), func(t *testing.T) {
				paused(t, func(s *service) {
					s.mount(spec, func(ctx context.Context, _ string) outcome.HandlerOutcome {
						if app.MessageFrom(ctx).Attempt == 1 {
							return outcome.RetryAfter(d)
						}
						return outcome.Ack()
					})
					s.start()
					s.publish("x")
					s.Advance(10 * time.Second)
					want := []int{1, 2}
					if d > time.Minute && mode != "claim" {
						want = []int{1}
					}
					if !slices.Equal(s.attempts(), want) {
						s.t.Errorf("attempts %v", s.attempts())
					}
				})
			})
		}
	}
}

func TestALongClaimingHandlerIsNotRunTwice(t *testing.T) {
	paused(t, func(s *service) {
		s.mount(streamrt.Spec{Claim: time.Second}, func(ctx context.Context, body string) outcome.HandlerOutcome {
			if app.MessageFrom(ctx).Attempt > 1 {
				return outcome.Ack()
			}
			time.Sleep(10 * time.Second)
			if body == "ack" {
				return outcome.Ack()
			}
			return outcome.DeadLetter(errors.New("no"))
		}, app.DeadLetter("dlq"), app.MaxAttempts(9))
		s.start()
		s.publish("ack", "bury")
		s.Advance(30 * time.Second)
		if !slices.Equal(s.attempts(), []int{1, 1}) {
			s.t.Errorf("attempts %v\n%s", s.attempts(), s.log)
		}
		s.wantServer(0, 2, 1)
	})
}

func TestMiddleware(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		var order []string
		note := func(name string) app.MountOption {
			return app.Use(func(next app.Handler) app.Handler {
				order = append(order, "made "+name)
				return func(ctx context.Context) outcome.HandlerOutcome {
					order = append(order, name)
					return next(ctx)
				}
			})
		}
		a := app.New("test", "1", app.Logger(slog.New(slog.DiscardHandler)))
		m := a.Broker(h.Broker(), note("outer"))
		var ids []string
		m.Mount(subscription(streamrt.Spec{Stream: "in"}, func(ctx context.Context, _ string) outcome.HandlerOutcome {
			ids = append(ids, app.MessageFrom(ctx).ID)
			return outcome.Ack()
		}), note("inner"), app.Concurrency(1))
		h.Start(a)
		for range 2 {
			if err := m.Publish(h.T().Context(), broker.Stream("in"), []byte("x")); err != nil {
				h.T().Fatal(err)
			}
		}
		h.Advance(0)
		want := []string{"made inner", "made outer", "outer", "inner", "outer", "inner"}
		if !slices.Equal(order, want) || len(ids) != 2 || ids[0] == ids[1] {
			h.T().Errorf("%v, ids %v", order, ids)
		}
	})
}
