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
				Concurrency: 1, Logger: slog.New(slog.DiscardHandler), Telemetry: telemetry.New(nil).Mount("t", broker.Source{}, Outcomes),
			}},
			MaxParked: 10, Logger: slog.New(slog.DiscardHandler), Holdings: holdings,
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
