package snippets

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
)

// A price that cannot be shown at once is shown later, once for each subscription that has it.
func TestAPriceIsShownByEachSubscription(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		var shown []string
		failed := map[string]bool{}
		board := &Board{Show: func(_ context.Context, p Quote) error {
			if !failed[p.Symbol] {
				failed[p.Symbol] = true
				return errors.New("the board is being cleaned")
			}
			shown = append(shown, p.Symbol)
			return nil
		}}
		m := app.New("board", "1", quiet)
		mounts := m.Broker(h.Broker(), app.Concurrency(1))
		mountBoard(mounts, board)
		h.Start(m)
		for _, channel := range []string{"prices", "prices.eu"} {
			if err := mounts.Publish(h.T().Context(), broker.Channel(channel), Quote{Symbol: "MILL"}); err != nil {
				h.T().Fatal(err)
			}
		}
		h.Advance(time.Minute)
		slices.Sort(shown)
		if want := []string{"MILL", "prices.retries MILL"}; !slices.Equal(shown, want) {
			h.T().Errorf("shown were %q, want %q", shown, want)
		}
	})
}
