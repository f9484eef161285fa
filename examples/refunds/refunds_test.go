package main

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/examples/internal/stage"
	"github.com/millrace-go/millrace/outcome"
)

// cut:alone

// A handler alone is a function: no broker, no app.
func TestABusyProcessorIsAskedAgainLater(t *testing.T) {
	p := &Processor{}
	got := ProcessRefund(t.Context(), app.State[*Processor]{Value: p}, Refund{ID: 2, Card: "busy-once"})
	if got != outcome.RetryAfter(Backoff).WithError(ErrBusy) {
		t.Errorf("got %v", got)
	}
}

// cut:end

// cut:paused

// On the paused clock the whole service runs, and two seconds pass at once: for the delay set and for the claiming
// subscription alike.
func TestABusyRefundIsSentOnceTheBackoffIsOver(t *testing.T) {
	for _, stream := range []string{"refunds", "refunds.priority"} {
		t.Run(stream, func(t *testing.T) {
			apptest.Paused(t, func(h *apptest.H) {
				p := &Processor{}
				a, m := Service(h.Broker(), p, &Reviewer{})
				h.Start(a)
				if err := m.Publish(t.Context(), broker.Stream(stream), Refund{ID: 2, Card: "busy-once"}); err != nil {
					t.Fatal(err)
				}
				h.Advance(Backoff - time.Millisecond)
				if n := p.Calls(2); n != 1 {
					t.Errorf("%d calls before the backoff is over", n)
				}
				h.Advance(time.Millisecond)
				if n := p.Calls(2); n != 2 {
					t.Errorf("%d calls after it", n)
				}
			})
		})
	}
}

// cut:end

// A processor that never answers costs exactly as many calls as the cap allows, and leaves one dead letter, which the
// reviewer gets.
func TestARefundThatNeverSucceedsReachesThePerson(t *testing.T) {
	for stream, attempts := range map[string]int{"refunds": 5, "refunds.priority": 3} {
		t.Run(stream, func(t *testing.T) {
			apptest.Paused(t, func(h *apptest.H) {
				p := &Processor{}
				var letters atomic.Int64
				a, m := Service(h.Broker(), p, &Reviewer{Show: func(letter []byte, m app.Message) {
					letters.Add(1)
					d := m.DeadLetter
					if d.Reason != broker.ReasonMaxAttempts || d.Attempts != attempts || d.Source != stream || m.Attempt != 1 {
						t.Errorf("dead letter %+v, attempt %d", d, m.Attempt)
					}
					if string(letter) != `{"id":5,"card":"silent","cents":100}` {
						t.Errorf("payload %s", letter)
					}
				}})
				h.Start(a)
				if err := m.Publish(t.Context(), broker.Stream(stream), Refund{ID: 5, Card: "silent", Cents: 100}); err != nil {
					t.Fatal(err)
				}
				h.Advance(time.Duration(attempts) * Backoff)
				if n := p.Calls(5); n != attempts || letters.Load() != 1 {
					t.Errorf("%d calls, %d dead letters", n, letters.Load())
				}
				for _, key := range []string{"refunds", "refunds.priority"} {
					if n := h.Client().XPending(t.Context(), key, "refunds").Val().Count; n != 0 {
						t.Errorf("%d entries of %s are pending", n, key)
					}
				}
			})
		})
	}
}

func TestTheClaimTimeIsTheBackoff(t *testing.T) {
	if claim := ProcessPriorityRefundSubscription.With(nil).Spec().Claim; claim != Backoff {
		t.Errorf("claim=%v, Backoff is %v: a busy processor's delay would be rounded", claim, Backoff)
	}
}

func TestTheDemonstrationEndsWithEveryFate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		out, err := play(t, false)
		if took := time.Since(start); err != nil || took > 15*time.Second {
			t.Fatalf("%v after %v\n%s", err, took, out)
		}
		for _, fate := range []string{"refunded", "dropped", "dead letter: max_attempts", "dead letter: malformed"} {
			if !strings.Contains(out, fate) {
				t.Errorf("no %q in\n%s", fate, out)
			}
		}
	})
}

// An outage is what the guide to operations begins with: nothing is refunded, and every refund waits in the dead letter.
func TestAnOutageLeavesADozenDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, err := play(t, true)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		_, table, _ := strings.Cut(out, "REFUND")
		if died := strings.Count(table, "dead letter: max_attempts"); died != len(refunds) || !strings.Contains(table, "dead letter: malformed") {
			t.Errorf("%d of %d died of too many attempts\n%s", died, len(refunds), out)
		}
	})
}

func play(t *testing.T, outage bool) (string, error) {
	t.Helper()
	return stage.Play(t.Context(), func(ctx context.Context, s *stage.Stage) error { return demo(ctx, s, outage) })
}
