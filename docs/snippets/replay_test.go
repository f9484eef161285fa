package snippets

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/deadletter"
)

// cut:replay

// Repair gives what the bank did not answer another chance, and says what was left alone.
func Repair(ctx context.Context, b broker.Broker) (string, error) {
	letters := deadletter.Open(b, "charges.dlq")
	filter := deadletter.Filter{Reason: broker.ReasonMaxAttempts, Text: "no answer", NewerThan: 24 * time.Hour}
	for record, err := range letters.All(ctx, filter) {
		if err != nil {
			return "", err
		}
		fmt.Println(record.MessageID, record.Handler, record.Error)
	}
	report, err := letters.Replay(ctx, filter, deadletter.Rate(500))
	for _, r := range report.Refusals {
		fmt.Println(r.ID, r.Err)
	}
	return fmt.Sprintf("%d of %d replayed", report.Done, report.Matched), err
}

// cut:end

func TestTheBankAnswersAfterAReplay(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		answer, runs := ErrNoAnswer, 0
		a := app.New("test", "1", quiet)
		m := a.Broker(h.Broker())
		bank := func(context.Context, Charge) error { runs++; return answer }
		m.Mount(BillingTakeMoneySubscription.With(&Billing{Bank: bank}), app.MaxAttempts(2), app.DeadLetter("charges.dlq"))
		h.Start(a)
		if err := m.Publish(h.T().Context(), broker.Stream("charges"), Charge{ID: 7}); err != nil {
			h.T().Fatal(err)
		}
		h.Advance(time.Minute)
		answer = nil
		if text, err := Repair(h.T().Context(), h.Broker()); err != nil || text != "1 of 1 replayed" {
			h.T().Fatal(text, err)
		}
		h.Advance(time.Minute)
		if n := h.Client().XLen(h.T().Context(), "charges.dlq").Val(); runs != 3 || n != 0 {
			h.T().Errorf("%d runs, %d records left", runs, n)
		}
	})
}
