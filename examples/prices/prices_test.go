package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/examples/internal/stage"
	"github.com/millrace-go/millrace/outcome"
)

// process is one board with the attempts that it saw.
type process struct {
	*Board
	attempts []int
}

// start runs one more process whose board fails before its n-th attempt at a quote.
func start(h *apptest.H, n int) (*process, *app.Mounts) {
	p := new(process)
	p.Board = &Board{Light: func(ctx context.Context, _ Quote) error {
		attempt := app.MessageFrom(ctx).Attempt
		p.attempts = append(p.attempts, attempt)
		if attempt < n {
			return errFlicker
		}
		return nil
	}}
	a, m := Service(h.Broker(), p.Board, app.Logger(slog.New(slog.DiscardHandler)))
	h.Start(a)
	return p, m
}

func publish(h *apptest.H, m *app.Mounts, q Quote) {
	h.T().Helper()
	if err := m.Publish(h.T().Context(), broker.Channel("prices"), q); err != nil {
		h.T().Fatal(err)
	}
}

// listen returns what is heard on the channel from now on.
func listen(h *apptest.H, channel string) <-chan *redis.Message {
	h.T().Helper()
	sub := h.Client().Subscribe(h.T().Context(), channel)
	h.T().Cleanup(func() { _ = sub.Close() })
	if _, err := sub.Receive(h.T().Context()); err != nil {
		h.T().Fatal(err)
	}
	return sub.Channel(redis.WithChannelHealthCheckInterval(0))
}

func TestABoardThatFlickersIsLeftAlone(t *testing.T) {
	board := &Board{Light: func(context.Context, Quote) error { return errFlicker }}
	got := Show(t.Context(), app.State[*Board]{Value: board}, Quote{"MILL", 900, 1})
	if got != outcome.RetryAfter(Pause).WithError(errFlicker) {
		t.Errorf("got %v", got)
	}
}

// cut:replica

// Three processes hear the channel. What one of them asks for again is published once more, and the others leave it alone.
func TestAFailureComesBackOnlyToTheBoardThatFailed(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		heard := listen(h, "prices")
		good, m := start(h, 1)
		flickersOnce, _ := start(h, 2)
		flickersTwice, _ := start(h, 3)
		publish(h, m, Quote{"MILL", 900, 1})
		h.Advance(2*Pause - time.Millisecond)
		if q := flickersTwice.Quote("MILL"); q.Seq != 0 {
			h.T().Errorf("shown before the second pause was over: %+v", q)
		}
		h.Advance(2 * time.Millisecond)
		for want, p := range map[int]*process{1: good, 2: flickersOnce, 3: flickersTwice} {
			if !slices.Equal(p.attempts, []int{1, 2, 3}[:want]) || p.Seq("MILL") != 1 {
				h.T().Errorf("a board that shows a quote at attempt %d saw the attempts %v and shows %+v", want, p.attempts, p.Quote("MILL"))
			}
		}
		if len(heard) != 4 {
			h.T().Errorf("the channel carried %d messages, want the quote and three copies", len(heard))
		}
		if first := (<-heard).Payload; first != `{"symbol":"MILL","cents":900,"seq":1}` {
			h.T().Errorf("a quote without headers is %q, want the bare JSON", first)
		}
		for range 3 {
			if c := (<-heard).Payload; !strings.Contains(c, broker.HeaderRetryGroup) {
				h.T().Errorf("a copy has no addressee: %q", c)
			}
		}
	})
}

// cut:end

func TestWhoDoesNotListenMissesTheQuote(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		early, m := start(h, 1)
		publish(h, m, Quote{"MILL", 900, 1})
		h.Advance(0)
		late, _ := start(h, 1)
		h.Advance(time.Hour)
		if early.Seq("MILL") != 1 || late.Seq("MILL") != 0 {
			h.T().Errorf("the boards show %+v and %+v", early.Quote("MILL"), late.Quote("MILL"))
		}
		publish(h, m, Quote{"MILL", 950, 2})
		h.Advance(0)
		if early.Seq("MILL") != 2 || late.Seq("MILL") != 2 {
			h.T().Errorf("the boards show %+v and %+v", early.Quote("MILL"), late.Quote("MILL"))
		}
		if keys := h.Client().Keys(h.T().Context(), "*").Val(); len(keys) != 0 {
			h.T().Errorf("the server keeps %v", keys)
		}
	})
}

func TestANewerQuoteIsNotReplacedByALateRetry(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		fail := true
		lit := 0
		board := &Board{Light: func(context.Context, Quote) error {
			if fail {
				return errors.New("dark")
			}
			lit++
			return nil
		}}
		a, m := Service(h.Broker(), board, app.Logger(slog.New(slog.DiscardHandler)))
		h.Start(a)
		publish(h, m, Quote{"MILL", 900, 1})
		h.Advance(0)
		fail = false
		publish(h, m, Quote{"MILL", 950, 2})
		h.Advance(2 * Pause)
		if q := board.Quote("MILL"); q.Cents != 950 || lit != 1 {
			h.T().Errorf("the board shows %+v, and was lit %d times", q, lit)
		}
	})
}

func TestAQuoteThatNeverLightsIsHeardOnTheChannelOfFailures(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		failed := listen(h, "prices.failed")
		p, m := start(h, 100)
		publish(h, m, Quote{"MILL", 900, 1})
		h.Advance(time.Minute)
		if !slices.Equal(p.attempts, []int{1, 2, 3}) || len(failed) != 1 {
			h.T().Fatalf("attempts %v, %d dead letters", p.attempts, len(failed))
		}
		letter := (<-failed).Payload
		for _, part := range []string{`{"symbol":"MILL","cents":900,"seq":1}`, "dlq_reason", "max_attempts", "the lamp flickers"} {
			if !strings.Contains(letter, part) {
				h.T().Errorf("no %s in the dead letter %q", part, letter)
			}
		}
	})
}

func TestTheDemonstration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		out, err := stage.Play(t.Context(), demo)
		if took := time.Since(start); err != nil || took > 10*time.Second {
			t.Fatalf("%v after %v\n%s", err, took, out)
		}
		if !strings.Contains(out, "both boards: MILL 875, RACE 1200 cents; the server keeps 0 keys") {
			t.Error(out)
		}
	})
}
