package snippets

import (
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
)

// What the guide publishes stands where the guide says.
func TestWhatIsPublishedStandsThere(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		ctx, client := h.T().Context(), h.Client()
		m := app.New("shop", "1", quiet).Broker(h.Broker())
		check := func(err error) {
			h.T().Helper()
			if err != nil {
				h.T().Fatal(err)
			}
		}
		check((&Shop{m}).Sell(ctx, Order{ID: 1, Tenant: "eu"}))
		check(Later(ctx, m, Order{ID: 2}))
		check(Trimmed(ctx, m, Order{ID: 3}))
		failed, err := Import(ctx, m, []Order{{ID: 4}, {ID: 5}})
		check(err)
		check(PublishOnly(ctx, h.Broker()))
		if err := Everywhere(ctx, m, Order{ID: 6}); err == nil {
			h.T().Error("the embedded server knows SPUBLISH by now: require it")
		}
		first := client.XRange(ctx, "orders", "-", "+").Val()
		if len(failed) != 0 || len(first) != 5 || first[0].Values["h:tenant"] != "eu" {
			h.T().Errorf("orders %v", first)
		}
		if list := client.LRange(ctx, "thumbnails", 0, -1).Val(); len(list) != 1 || list[0] != `{"id":6,"tenant":""}` {
			h.T().Errorf("thumbnails %q", list)
		}
		due := client.ZRangeWithScores(ctx, "reminders.delayed", 0, -1).Val()
		if len(due) != 1 || time.Until(time.UnixMilli(int64(due[0].Score))).Round(time.Minute) != 30*time.Minute {
			h.T().Errorf("the delay set %v", due)
		}
	})
}

// The orders that were not written are those that Import returns.
func TestImportReturnsWhatWasNotWritten(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		h.Client().Set(h.T().Context(), "orders", "no stream", 0)
		m := app.New("shop", "1", quiet).Broker(h.Broker())
		failed, err := Import(h.T().Context(), m, []Order{{ID: 1}, {ID: 2}})
		if err == nil || len(failed) != 2 || failed[1].ID != 2 {
			h.T().Errorf("%v, %v", failed, err)
		}
		if err := m.Publish(h.T().Context(), broker.Stream("clicks"), Order{}, broker.MaxLen(0)); err == nil {
			h.T().Error("MaxLen(0) is no error")
		}
	})
}
