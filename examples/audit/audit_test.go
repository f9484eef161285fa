package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
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

// paper is a trail that is busy until an attempt, and notes what it is asked to write.
type paper struct {
	busyUntil int

	mu    sync.Mutex // handlers run side by side
	lines []string
}

func (p *paper) Write(ctx context.Context, channel string, e Event) error {
	m := app.MessageFrom(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, fmt.Sprintf("%s: %s by %s, attempt %d", channel, e.Kind, e.Who, m.Attempt))
	if m.Attempt < p.busyUntil {
		return ErrDiskBusy
	}
	return nil
}

func start(h *apptest.H, busyUntil int) (*paper, *app.Mounts) {
	p := &paper{busyUntil: busyUntil}
	a, m := Service(h.Broker(), p, app.Logger(slog.New(slog.DiscardHandler)))
	h.Start(a)
	return p, m
}

func publish(h *apptest.H, m *app.Mounts, channel string, e Event) {
	h.T().Helper()
	if err := m.Publish(h.T().Context(), broker.Channel(channel), e); err != nil {
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

func TestABusyDiskIsTriedAgain(t *testing.T) {
	got := Record(t.Context(), app.State[Trail]{Value: &paper{busyUntil: 1}}, Event{})
	if got != outcome.RetryAfter(time.Second).WithError(ErrDiskBusy) {
		t.Errorf("got %v", got)
	}
}

func TestEveryChannelThatMatchesIsWrittenDown(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		p, m := start(h, 1)
		publish(h, m, "events.login", Event{"login", "ada"})
		publish(h, m, "weather", Event{"rain", "nobody"})
		publish(h, m, "events.logout", Event{"logout", "ada"})
		h.Advance(0)
		if want := []string{"events.login: login by ada, attempt 1", "events.logout: logout by ada, attempt 1"}; !slices.Equal(slices.Sorted(slices.Values(p.lines)), want) {
			h.T().Errorf("written down: %q", p.lines)
		}
	})
}

// cut:again

// Two processes listen to the pattern. The one that was busy gets the event again on the channel that the mount names.
func TestARetryComesBackOnTheChannelOfRetries(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		again := listen(h, "events.again")
		ready, m := start(h, 1)
		busy, _ := start(h, 2)
		publish(h, m, "events.login", Event{"login", "ada"})
		h.Advance(time.Second)
		if want := []string{"events.login: login by ada, attempt 1"}; !slices.Equal(ready.lines, want) {
			h.T().Errorf("the one that was ready wrote %q", ready.lines)
		}
		want := []string{"events.login: login by ada, attempt 1", "events.again: login by ada, attempt 2"}
		if !slices.Equal(busy.lines, want) {
			h.T().Errorf("the one that was busy wrote %q", busy.lines)
		}
		if len(again) != 1 {
			h.T().Errorf("%d copies were published", len(again))
		}
	})
}

// cut:end

func TestAnEventThatNobodyCouldWriteDownIsHeardAsLost(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		lost := listen(h, "audit.lost")
		p, m := start(h, 100)
		publish(h, m, "events.sabotage", Event{"sabotage", "mallory"})
		h.Advance(time.Minute)
		if len(p.lines) != 3 || len(lost) != 1 {
			h.T().Fatalf("written %q, %d dead letters", p.lines, len(lost))
		}
		letter := (<-lost).Payload
		for _, part := range []string{`{"kind":"sabotage","who":"mallory"}`, "dlq_source", "events.again", "max_attempts"} {
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
		for _, line := range []string{
			"payment by ada, attempt 2, heard on events.again", "heard on audit.lost", "4 of the 5 events that the pattern matches are written down",
		} {
			if !strings.Contains(out, line) {
				t.Errorf("no %q in\n%s", line, out)
			}
		}
	})
}
