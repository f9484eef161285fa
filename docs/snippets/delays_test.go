package snippets

import (
	"context"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// The guide's table: what becomes of a delay of three seconds in each way of keeping one.
func TestEachWayKeepsItsDelay(t *testing.T) {
	for _, c := range []struct {
		subscription streamrt.Subscription
		want         time.Duration
	}{
		{InMemorySubscription, 3 * time.Second},
		{InSetSubscription, 3 * time.Second},
		{ByClaimSubscription, 10 * time.Second},
		{ClaimAndSetSubscription, 3 * time.Second},
	} {
		t.Run(c.subscription.Spec().Name, func(t *testing.T) {
			apptest.Paused(t, func(h *apptest.H) {
				var runs []time.Time
				note := app.Use(func(next app.Handler) app.Handler {
					return func(ctx context.Context) outcome.HandlerOutcome {
						runs = append(runs, time.Now())
						return next(ctx)
					}
				})
				a := app.New("test", "1", quiet)
				m := a.Broker(h.Broker(), note)
				m.Mount(c.subscription)
				h.Start(a)
				if err := m.Publish(h.T().Context(), broker.Stream(c.subscription.Spec().Stream), Reminder{}); err != nil {
					h.T().Fatal(err)
				}
				h.Advance(time.Minute)
				if len(runs) != 2 {
					h.T().Fatalf("%d runs", len(runs))
				}
				if late := runs[1].Sub(runs[0]) - c.want; late < 0 || late > time.Millisecond {
					h.T().Errorf("%v after what was promised", late)
				}
			})
		})
	}
}
