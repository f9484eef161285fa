package app_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// One handler at a time sees the stream's order also where entries are read ahead of it and one process replaces another:
// what the old one had read and not begun goes before what was published since.
func TestAReplacedProcessThatReadAheadKeepsTheOrder(t *testing.T) {
	for _, claim := range []time.Duration{0, time.Minute} {
		t.Run(fmt.Sprintf("claim=%s", claim), func(t *testing.T) {
			apptest.Paused(t, func(h *apptest.H) {
				const messages, restarts = 200, 4
				var bodies []string
				deploy := func() *service {
					s := newService(h, h.Broker())
					s.mount(streamrt.Spec{Claim: claim}, func(ctx context.Context, body string) outcome.HandlerOutcome {
						bodies = append(bodies, body)
						time.Sleep(100 * time.Millisecond)
						if m := app.MessageFrom(ctx); m.Attempt != 1 || m.Losses != 0 {
							s.t.Errorf("message %s: attempt %d, losses %d", body, m.Attempt, m.Losses)
						}
						return outcome.Ack()
					}, app.Concurrency(1), app.Prefetch(30))
					return s
				}
				s := deploy()
				cancel, done := s.run()
				for i := range messages {
					s.publish(fmt.Sprint(i))
					if i%(messages/(restarts+1)) == messages/(restarts+1)-1 {
						s.Advance(250 * time.Millisecond)
						if _, err := s.stop(cancel, done); err != nil {
							s.t.Fatal(err)
						}
						s = deploy()
						cancel, done = s.run()
					}
				}
				s.Advance(time.Minute)
				if _, err := s.stop(cancel, done); err != nil {
					s.t.Fatal(err)
				}
				if len(bodies) != messages {
					s.t.Errorf("%d calls, want %d", len(bodies), messages)
				}
				for i, body := range bodies {
					if body != fmt.Sprint(i) {
						s.t.Fatalf("call %d was message %s", i, body)
					}
				}
			})
		})
	}
}

// The read of a process that has stopped is over: what is published right after the stop is new to the next process, and
// comes to it at once.
func TestWhatIsPublishedRightAfterAStopIsNew(t *testing.T) {
	for _, claim := range []time.Duration{0, time.Minute} {
		t.Run(fmt.Sprintf("claim=%s", claim), func(t *testing.T) {
			apptest.Paused(t, func(h *apptest.H) {
				for i := range 50 {
					stopped := newService(h, h.Broker())
					stopped.mount(streamrt.Spec{Claim: claim}, ack)
					cancel, done := stopped.run()
					stopped.Advance(100 * time.Millisecond)
					if _, err := stopped.stop(cancel, done); err != nil {
						t.Fatal(err)
					}
					next := newService(h, h.Broker())
					next.mount(streamrt.Spec{Claim: claim}, ack)
					next.publish("x")
					cancel, done = next.run()
					next.Advance(time.Second)
					if len(next.runs) != 1 || next.runs[0].Attempt != 1 || next.runs[0].Losses != 0 {
						t.Fatalf("after %d stops: %+v\n%s\nstopped:\n%s", i+1, next.runs, next.log, stopped.log)
					}
					if _, err := next.stop(cancel, done); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}
