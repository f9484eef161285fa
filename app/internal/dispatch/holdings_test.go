package dispatch

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app/internal/telemetry"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// watched is a source that looks at what is held while it settles.
type watched struct {
	*endless
	holdings *Holdings
	settling []broker.Held
}

func (w *watched) Settle(ctx context.Context, batch []*broker.Settlement) {
	w.settling = append(w.settling, w.holdings.Held(0)...)
	w.endless.Settle(ctx, batch)
}

// A transport learns which entries are in hand, and of which of them the outcome may have been carried out by now. Those
// are still in hand: an outcome may take long to be written.
func TestWhatIsBeingSettledIsInHandAndKnownToBeSettled(t *testing.T) {
	for _, o := range []outcome.HandlerOutcome{outcome.Ack(), outcome.Retry()} {
		holdings := NewHoldings()
		source := &watched{endless: &endless{body: []byte("x"), target: 1, done: make(chan struct{})}, holdings: holdings}
		var running []broker.Held
		engine := New(Config{
			Name: "t",
			Routes: []Route{{
				Name: "t",
				Subscription: streamrt.Subscribe(streamrt.Spec{}, streamrt.Raw, func(context.Context, []byte) outcome.HandlerOutcome {
					running = holdings.Held(0)
					return o
				}),
				Concurrency: 1, Logger: slog.New(slog.DiscardHandler), Telemetry: telemetry.New(nil, nil).Mount("t", broker.Source{}, Outcomes),
			}},
			MaxParked: 10, Logger: slog.New(slog.DiscardHandler), Holdings: holdings, Vitals: NewVitals(0),
		}, source)
		engine.Start(t.Context())
		<-source.done
		if err := engine.Shutdown(t.Context(), time.Second, nil); err != nil {
			t.Fatal(err)
		}
		if len(running) != 1 || running[0].Settling {
			t.Errorf("%v: held while the handler runs: %+v", o, running)
		}
		if len(source.settling) != 1 || !source.settling[0].Settling {
			t.Errorf("%v: held while the outcome is written: %+v", o, source.settling)
		}
		if left := holdings.Held(0); len(left) != 0 {
			t.Errorf("%v: held in the end: %+v", o, left)
		}
	}
}

// Whoever looks at what is in hand while the engine itself changes a delivery count finds another one on the server. That is
// nobody else's doing: an entry that was let go for it would be handed out a second time.
func TestWhatTheEngineItselfRecountsIsNotLost(t *testing.T) {
	for _, c := range []struct {
		what    string
		between func(h *Holdings, x *holding)
		lost    bool
	}{
		{"nothing", func(*Holdings, *holding) {}, true},
		{"its count is being changed", func(h *Holdings, x *holding) {
			x.settling.Store(true)
			h.move(x, 1)
		}, false},
		{"its count was changed", func(h *Holdings, x *holding) { h.kept(x, 1) }, false},
		{"its count was changed there and back", func(h *Holdings, x *holding) {
			h.kept(x, 1)
			h.kept(x, 2)
		}, false},
		{"an outcome is being written", func(_ *Holdings, x *holding) { x.settling.Store(true) }, false},
	} {
		holdings, told := NewHoldings(), 0
		holdings.lost = func(lost []broker.Held) { told += len(lost) }
		var x holding
		holdings.add(&x, "1-0", 2, time.Now())
		seen := holdings.Held(0)
		c.between(holdings, &x)
		holdings.Lost(seen)
		if left := len(holdings.Held(0)); (left == 0) != c.lost || (told == 1) != c.lost {
			t.Errorf("%s: %d held, %d told of as lost; lost is %v", c.what, left, told, c.lost)
		}
	}
}
