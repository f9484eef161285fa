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

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/examples/internal/stage"
	"github.com/millrace-go/millrace/outcome"
)

// bundle is the service with what a test looks at.
type bundle struct {
	*apptest.H
	m     *app.Mounts
	fails map[string]error
	runs  []string

	mu      sync.Mutex // dead letters are collected side by side
	letters []app.Message
}

// Shrink fails at every attempt at the pictures named in fails, and at the first one only where the name ends in "once".
func (b *bundle) Shrink(ctx context.Context, p Picture) error {
	m := app.MessageFrom(ctx)
	b.runs = append(b.runs, fmt.Sprintf("%s %d", p.Name, m.Attempt))
	if strings.HasSuffix(p.Name, "once") && m.Attempt > 1 {
		return nil
	}
	return b.fails[p.Name]
}

// serve prepares the service; begin starts it.
func serve(h *apptest.H, fails map[string]error) (b *bundle, begin func()) {
	b = &bundle{H: h, fails: fails}
	keep := func(_ []byte, m app.Message) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.letters = append(b.letters, m)
	}
	a, m := Service(h.Broker(), b, &Album{Keep: keep}, app.Logger(slog.New(slog.DiscardHandler)))
	b.m = m
	return b, func() { h.Start(a) }
}

func (b *bundle) publish(names ...string) {
	b.T().Helper()
	for _, name := range names {
		if err := b.m.Publish(b.T().Context(), broker.List("thumbnails"), Picture{name}); err != nil {
			b.T().Fatal(err)
		}
	}
}

// wantServer compares how many pictures wait, are in flight and are delayed.
func (b *bundle) wantServer(waiting, inFlight, delayed int64) {
	b.T().Helper()
	ctx, client := b.T().Context(), b.Client()
	var flying int64
	for _, key := range client.Keys(ctx, "{thumbnails}:inflight:*").Val() {
		flying += client.LLen(ctx, key).Val()
	}
	w, d := client.LLen(ctx, "thumbnails").Val(), client.ZCard(ctx, "thumbnails.delayed").Val()
	if w != waiting || flying != inFlight || d != delayed {
		b.T().Errorf("%d wait, %d are in flight, %d are delayed; want %d, %d, %d", w, flying, d, waiting, inFlight, delayed)
	}
}

func TestEachFailureHasItsOutcome(t *testing.T) {
	for name, want := range map[string]outcome.HandlerOutcome{
		"fine":       outcome.Ack(),
		"huge":       outcome.Retry().WithError(ErrNoMemory),
		"on its way": outcome.RetryAfter(Upload).WithError(ErrNotUploaded),
		"text":       outcome.DeadLetter(ErrNoPicture),
	} {
		b := &bundle{fails: map[string]error{"huge": ErrNoMemory, "on its way": ErrNotUploaded, "text": ErrNoPicture}}
		if got := MakeThumbnail(t.Context(), app.State[Shrinker]{Value: b}, Picture{name}); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// cut:behind

// A picture that is to be tried again at once lets the ones that wait go first.
func TestARetryGoesBehindWhatWaits(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		b, begin := serve(h, map[string]error{"huge once": ErrNoMemory})
		b.publish("huge once", "cat", "dog")
		begin()
		h.Advance(0)
		if want := []string{"huge once 1", "cat 1", "dog 1", "huge once 2"}; !slices.Equal(b.runs, want) {
			h.T().Errorf("the order was %q, want %q", b.runs, want)
		}
		b.wantServer(0, 0, 0)
	})
}

// cut:end

// cut:delay

// A delay is in the sorted set and not in the process: another one keeps it as well.
func TestADelayOutlivesTheProcess(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		b, begin := serve(h, map[string]error{"film once": ErrNotUploaded})
		b.publish("film once")
		asked := time.Now()
		begin()
		h.Advance(0)
		b.wantServer(0, 0, 1)
		h.Stop()
		b.wantServer(0, 0, 1)

		next, begin := serve(h, nil)
		begin()
		h.Advance(Upload - time.Since(asked) - time.Millisecond)
		if len(next.runs) != 0 {
			h.T().Errorf("the next process ran %q after %v", next.runs, time.Since(asked))
		}
		h.Advance(time.Millisecond)
		if want := []string{"film once 2"}; !slices.Equal(next.runs, want) {
			h.T().Errorf("the next process ran %q, want %q", next.runs, want)
		}
		next.wantServer(0, 0, 0)
	})
}

// cut:end

func TestWhatFailsTooOftenGoesToTheListOfDeadLetters(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		b, begin := serve(h, map[string]error{"broken": ErrNoMemory, "text": ErrNoPicture})
		b.publish("broken", "text")
		if err := h.Client().LPush(h.T().Context(), "thumbnails", `{"name":`).Err(); err != nil {
			h.T().Fatal(err)
		}
		begin()
		h.Advance(time.Second)
		if want := []string{"broken 1", "text 1", "broken 2", "broken 3"}; !slices.Equal(b.runs, want) {
			h.T().Errorf("the runs were %q, want %q", b.runs, want)
		}
		reasons := map[string]int{}
		for _, m := range b.letters {
			reasons[m.DeadLetter.Reason] = m.DeadLetter.Attempts
			if m.DeadLetter.Source != "thumbnails" {
				h.T().Errorf("a dead letter comes from %s", m.DeadLetter.Source)
			}
		}
		if len(b.letters) != 3 || reasons[broker.ReasonMaxAttempts] != 3 || reasons[broker.ReasonMalformed] != 0 || reasons[broker.ReasonRejected] != 0 {
			h.T().Errorf("%d dead letters, the attempts of each reason: %v", len(b.letters), reasons)
		}
		if n := h.Client().LLen(h.T().Context(), "thumbnails.dlq").Val(); n != 0 {
			h.T().Errorf("%d dead letters are not collected", n)
		}
		b.wantServer(0, 0, 0)
	})
}

func TestTheDemonstration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		out, err := stage.Play(t.Context(), demo)
		if took := time.Since(start); err != nil || took > 10*time.Second {
			t.Fatalf("%v after %v\n%s", err, took, out)
		}
		for _, line := range []string{"on-its-way           attempt 2: small", "into the album: malformed", "5 are small, 3 are in the album, 0 wait"} {
			if !strings.Contains(out, line) {
				t.Errorf("no %q in\n%s", line, out)
			}
		}
	})
}
