package app_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// pausedWith is paused with options for the app.
func pausedWith(t *testing.T, options []app.Option, f func(s *service)) {
	t.Helper()
	apptest.Paused(t, func(h *apptest.H) { f(newService(h, h.Broker(), options...)) })
}

// stop stops the app and returns what Run did, and how long it took.
func (s *service) stop(cancel context.CancelFunc, done chan error) (time.Duration, error) {
	began := time.Now()
	cancel()
	err := <-done
	return time.Since(began), err
}

// run starts the app by hand, for tests that look at the error of Run.
func (s *service) run() (context.CancelFunc, chan error) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	up := make(chan struct{})
	s.app.AfterStartup(func(context.Context) error { close(up); return nil })
	done := make(chan error, 1)
	go func() { done <- s.app.Run(ctx) }()
	select {
	case <-up:
	case err := <-done:
		s.t.Fatal(err)
	}
	return cancel, done
}

func TestHandlersMayEndWithinTheGraceTime(t *testing.T) {
	paused(t, func(s *service) {
		s.mount(streamrt.Spec{}, func(ctx context.Context, _ string) outcome.HandlerOutcome {
			time.Sleep(20 * time.Second)
			if ctx.Err() != nil {
				s.t.Error("the context ended within the grace time")
			}
			return outcome.Ack()
		})
		cancel, done := s.run()
		s.publish("x")
		took, err := s.stop(cancel, done)
		if err != nil || took < 19*time.Second || took > 21*time.Second {
			s.t.Errorf("%v after %s", err, took)
		}
		s.wantServer(0, 1, 0)
	})
}

// After the cut Ack, Drop and DeadLetter count; a failure hands the message back with its counters as they were.
func TestOutcomesAfterTheCut(t *testing.T) {
	for _, claim := range []time.Duration{0, time.Second} {
		for _, c := range []struct {
			o             outcome.HandlerOutcome
			pending, dead int64
		}{
			{outcome.Ack(), 0, 0},
			{outcome.Drop(), 0, 0},
			{outcome.DeadLetter(errors.New("no")), 0, 1},
			{outcome.Retry(), 1, 0},
			{outcome.RetryAfter(time.Hour), 1, 0},
			{outcome.Of(errors.New("cut")), 1, 0},
			{outcome.HandlerOutcome{}, 1, 0},
		} {
			t.Run(fmt.Sprintf("claim=%s/%v", claim, c.o), func(t *testing.T) {
				apptest.Paused(t, func(h *apptest.H) {
					s := newService(h, h.Broker(), app.Grace(5*time.Second))
					options := []app.MountOption{app.MaxAttempts(3), app.DeadLetter("dlq")}
					s.mount(streamrt.Spec{Claim: claim}, func(ctx context.Context, _ string) outcome.HandlerOutcome {
						<-ctx.Done()
						if !errors.Is(context.Cause(ctx), app.ErrShutdown) {
							s.t.Errorf("the cause is %v", context.Cause(ctx))
						}
						return c.o
					}, options...)
					cancel, done := s.run()
					s.publish("x")
					if took, err := s.stop(cancel, done); err != nil || took > 6*time.Second {
						s.t.Errorf("%v after %s", err, took)
					}
					s.wantServer(c.pending, 1, c.dead)
					if c.pending == 0 {
						return
					}
					// The next process gets it at once, as if it had never been handed out.
					next := newService(h, h.Broker())
					next.mount(streamrt.Spec{Claim: claim}, ack, options...)
					next.start()
					next.Advance(2500 * time.Millisecond)
					if len(next.runs) != 1 || next.runs[0].Attempt != 1 || next.runs[0].Losses != 0 {
						s.t.Errorf("after the restart: %+v\n%s", next.runs, next.log)
					}
					next.wantServer(0, 1, 0)
				})
			})
		}
	}
}

func TestTheAnswerAfterADeadlineCountsEvenAfterTheCut(t *testing.T) {
	pausedWith(t, []app.Option{app.Grace(5 * time.Second)}, func(s *service) {
		s.mount(streamrt.Spec{Timeout: 2 * time.Second}, func(ctx context.Context, _ string) outcome.HandlerOutcome {
			time.Sleep(5*time.Second + 100*time.Millisecond)
			return outcome.Of(ctx.Err())
		}, app.MaxAttempts(1), app.DeadLetter("dlq"))
		cancel, done := s.run()
		s.publish("x")
		if _, err := s.stop(cancel, done); err != nil {
			s.t.Error(err)
		}
		s.wantServer(0, 1, 1)
		if !strings.Contains(s.log.String(), "ignores its deadline") {
			s.t.Error("the late handler is not logged")
		}
	})
}

func TestAHandlerThatIgnoresItsContextDoesNotHoldRun(t *testing.T) {
	pausedWith(t, []app.Option{app.Grace(5 * time.Second)}, func(s *service) {
		s.mount(streamrt.Spec{Name: "stubborn"}, func(context.Context, string) outcome.HandlerOutcome {
			time.Sleep(time.Minute)
			return outcome.Ack()
		})
		s.mount(streamrt.Spec{Name: "quick", Stream: "other"}, ack)
		cancel, done := s.run()
		s.publish("x")
		took, err := s.stop(cancel, done)
		if err == nil || !strings.Contains(err.Error(), "mount stubborn") || strings.Contains(err.Error(), "quick") {
			s.t.Errorf("%v", err)
		}
		if took > 6*time.Second {
			s.t.Errorf("it took %s", took)
		}
		// Its entry is free, and what it answers in the end changes nothing.
		time.Sleep(2 * time.Minute)
		if s.pending() != 1 {
			s.t.Errorf("%d pending", s.pending())
		}
	})
}

func TestWhatWasNotStartedIsHandedBack(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		s := newService(h, h.Broker())
		s.mount(streamrt.Spec{}, func(ctx context.Context, _ string) outcome.HandlerOutcome {
			if app.MessageFrom(ctx).Attempt == 1 {
				return outcome.RetryAfter(10 * time.Second)
			}
			return outcome.Ack()
		})
		cancel, done := s.run()
		s.publish("a", "b", "c")
		s.Advance(5 * time.Second)
		if took, err := s.stop(cancel, done); err != nil || took > 100*time.Millisecond {
			s.t.Errorf("%v after %s: a stop does not wait for delays", err, took)
		}
		s.wantServer(3, 3, 0)

		next := newService(h, h.Broker())
		next.mount(streamrt.Spec{}, ack)
		next.start()
		next.Advance(3 * time.Second)
		if next.ran() != 0 {
			s.t.Errorf("%d runs before the delay is over", next.ran())
		}
		next.Advance(10 * time.Second)
		if !slices.Equal(next.attempts(), []int{2, 2, 2}) {
			s.t.Errorf("attempts %v: a stop keeps the failures", next.attempts())
		}
		next.wantServer(0, 3, 0)
	})
}
