package app_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// flaky is a broker whose subscriptions do not carry out all settlements.
type flaky struct {
	broker.Broker
	// fails says which settlements end with an error.
	fails func(*broker.Settlement) bool
	calls atomic.Int64
}

func (f *flaky) Subscribe(ctx context.Context, c broker.Config) (broker.Subscription, error) {
	sub, err := f.Broker.Subscribe(ctx, c)
	return &flakySubscription{sub, f}, err
}

type flakySubscription struct {
	broker.Subscription
	f *flaky
}

func (s *flakySubscription) Settle(ctx context.Context, batch []*broker.Settlement) {
	var sound []*broker.Settlement
	for _, st := range batch {
		if s.f.fails(st) {
			s.f.calls.Add(1)
			st.Err = errors.New("OOM command not allowed")
			continue
		}
		sound = append(sound, st)
	}
	if len(sound) > 0 {
		s.Subscription.Settle(ctx, sound)
	}
}

func TestASettlementThatFailsIsRepeatedWithoutTheHandler(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		var down atomic.Bool
		down.Store(true)
		f := &flaky{Broker: h.Broker(), fails: func(st *broker.Settlement) bool { return down.Load() && st.Action != broker.Ack }}
		s := newService(h, f)
		s.mount(streamrt.Spec{}, func(ctx context.Context, body string) outcome.HandlerOutcome {
			if body == "retry" && app.MessageFrom(ctx).Attempt == 1 {
				return outcome.Retry()
			}
			return outcome.Ack()
		})
		s.start()
		s.publish("retry", "retry", "fine", "fine")
		s.Advance(time.Minute)
		if s.ran() != 4 || s.pending() != 2 {
			s.t.Errorf("%d runs, %d pending while settling fails", s.ran(), s.pending())
		}
		if n := f.calls.Load(); n < 20 || n > 60 {
			s.t.Errorf("%d tries in a minute for two settlements", n)
		}
		down.Store(false)
		s.Advance(5 * time.Second)
		if s.ran() != 6 {
			s.t.Errorf("%d runs in the end", s.ran())
		}
		s.wantServer(0, 6, 0)
		if n := strings.Count(s.log.String(), "answers with errors"); n != 1 || !strings.Contains(s.log.String(), "the server works again") {
			s.t.Errorf("%d lines about it", n)
		}
	})
}

func TestReadingPausesWhereNothingCanBeSettled(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		f := &flaky{Broker: h.Broker(), fails: func(*broker.Settlement) bool { return true }}
		s := newService(h, f, app.Grace(time.Second))
		s.mount(streamrt.Spec{}, ack)
		cancel, done := s.run()
		for range 500 {
			s.publish("x")
		}
		s.Advance(time.Minute)
		if s.ran() < 100 || s.ran() > 200 {
			s.t.Errorf("%d of 500 messages were run although none could be settled", s.ran())
		}
		took, err := s.stop(cancel, done)
		if err == nil || !mentions(err.Error(), []string{"mount test.in", "OOM", "will run again"}) || took > 10*time.Second {
			s.t.Errorf("%v after %s", err, took)
		}
	})
}

// An entry that was trimmed while it was in hand cannot stay pending; its body is still there, so nothing is lost.
func TestATrimmedEntryIsCopiedInsteadOfKept(t *testing.T) {
	for _, claim := range []time.Duration{0, time.Second} {
		apptest.Paused(t, func(h *apptest.H) {
			s := newService(h, h.Broker())
			s.mount(streamrt.Spec{Claim: claim}, func(ctx context.Context, _ string) outcome.HandlerOutcome {
				if m := app.MessageFrom(ctx); m.Attempt == 1 {
					if err := h.Client().XDel(ctx, "in", m.EntryID).Err(); err != nil {
						s.t.Error(err)
					}
					return outcome.RetryAfter(time.Hour)
				}
				return outcome.Ack()
			})
			s.start()
			s.publish("x")
			// A claiming subscription keeps every delay for as long as it claims after.
			delay := time.Hour
			if claim > 0 {
				delay = claim
			}
			s.Advance(delay - time.Millisecond)
			if got := s.attempts(); len(got) != 1 {
				s.t.Errorf("claim=%s: attempts %v before the delay was over", claim, got)
			}
			s.Advance(2 * time.Millisecond)
			if got := s.attempts(); len(got) != 2 || s.pending() != 0 {
				s.t.Errorf("claim=%s: attempts %v, %d pending", claim, got, s.pending())
			}
		})
	}
}
