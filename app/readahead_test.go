package app_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// New entries that are always read ahead leave no slot free for long. What dead owners left is taken all the same.
func TestReadingAheadDoesNotStarveWhatIsTakenBack(t *testing.T) {
	for _, claim := range []time.Duration{0, time.Minute} {
		t.Run(claim.String(), func(t *testing.T) {
			paused(t, func(s *service) {
				var taken atomic.Int64
				s.mount(streamrt.Spec{Claim: claim}, func(_ context.Context, body string) outcome.HandlerOutcome {
					if body == "left" {
						taken.Add(1)
					}
					time.Sleep(100 * time.Millisecond)
					return outcome.Ack()
				}, app.MaxDeliveries(3), app.Concurrency(2), app.Prefetch(20))
				for range 5 {
					s.left("left", 1)
				}
				for range 2000 {
					s.publish("new")
				}
				s.start()
				s.Advance(60 * time.Second)
				if taken.Load() != 5 {
					s.t.Errorf("%d of 5 were taken back after %d runs", taken.Load(), s.ran())
				}
				if s.ran() < 1000 {
					s.t.Errorf("%d runs in a minute: the slots were not kept busy", s.ran())
				}
			})
		})
	}
}
