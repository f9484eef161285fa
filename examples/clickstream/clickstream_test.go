package main

import (
	"context"
	"log/slog"
	"reflect"
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

// counter is what the views are counted with in a test.
type counter func(ctx context.Context, c Click) error

func (f counter) Count(ctx context.Context, c Click) error { return f(ctx, c) }

// bundle is the service with what a test looks at.
type bundle struct {
	*apptest.H

	mu      sync.Mutex // handlers run side by side
	clicks  []Click
	runs    []app.Message
	letters []app.Message
}

// serve starts the service; answer says how the counting of a click ends.
func serve(h *apptest.H, answer func(attempt int) error) *bundle {
	b := &bundle{H: h}
	count := counter(func(ctx context.Context, c Click) error {
		m := app.MessageFrom(ctx)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.clicks, b.runs = append(b.clicks, c), append(b.runs, m)
		return answer(m.Attempt)
	})
	tell := func(m app.Message) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.letters = append(b.letters, m)
	}
	h.Start(Service(h.Broker(), count, &Desk{Tell: tell}, app.Logger(slog.New(slog.DiscardHandler))))
	return b
}

// shop writes an entry as somebody does who knows nothing of us.
func (b *bundle) shop(fields ...any) {
	b.T().Helper()
	if err := b.Client().XAdd(b.T().Context(), &redis.XAddArgs{Stream: "clicks", Values: fields}).Err(); err != nil {
		b.T().Fatal(err)
	}
}

func (b *bundle) entries(key string) []redis.XMessage {
	b.T().Helper()
	all, err := b.Client().XRange(b.T().Context(), key, "-", "+").Result()
	if err != nil {
		b.T().Fatal(err)
	}
	return all
}

func (b *bundle) pending() int64 {
	b.T().Helper()
	return b.Client().XPending(b.T().Context(), "clicks", "views").Val().Count
}

func TestALockedPageIsCountedLater(t *testing.T) {
	locked := counter(func(context.Context, Click) error { return ErrLocked })
	if got := CountView(t.Context(), app.State[Views]{Value: locked}, Click{}); got != outcome.RetryAfter(time.Second).WithError(ErrLocked) {
		t.Errorf("got %v", got)
	}
}

// cut:place

// A click that is to be tried again stays where it is: the shop's stream is the same before and after, entry by entry.
func TestAClickIsRetriedInPlace(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		b := serve(h, func(attempt int) error {
			if attempt < 3 {
				return ErrLocked
			}
			return nil
		})
		b.shop("page", "/hats", "user", 17, "at", 1700000004567, "referrer", "/shoes")
		written := b.entries("clicks")
		h.Advance(2*time.Second - time.Millisecond)
		if len(b.runs) != 2 || b.pending() != 1 {
			h.T().Errorf("%d runs and %d pending before the second wait is over", len(b.runs), b.pending())
		}
		h.Advance(2 * time.Millisecond)
		if len(b.runs) != 3 || b.pending() != 0 {
			h.T().Fatalf("%d runs and %d pending after it", len(b.runs), b.pending())
		}
		for i, m := range b.runs {
			if m.Attempt != i+1 || m.EntryID != written[0].ID {
				h.T().Errorf("run %d was attempt %d of entry %s", i+1, m.Attempt, m.EntryID)
			}
		}
		if left := b.entries("clicks"); !reflect.DeepEqual(left, written) {
			h.T().Errorf("the shop's stream was %v and is %v", written, left)
		}
		from := "/shoes"
		if want := (Click{"/hats", 17, time.UnixMilli(1700000004567).UTC(), &from}); !reflect.DeepEqual(b.clicks[2], want) {
			h.T().Errorf("the click was read as %+v", b.clicks[2])
		}
	})
}

// cut:end

func TestAClickThatIsAlwaysLockedIsBuriedWithUs(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		b := serve(h, func(int) error { return ErrLocked })
		b.shop("page", "/hats", "user", 17, "at", 1700000004567)
		h.Advance(10 * time.Second)
		if len(b.runs) != 4 || len(b.letters) != 1 || b.pending() != 0 || len(b.entries("clicks")) != 1 {
			h.T().Fatalf("%d runs, %d letters, %d pending of %d", len(b.runs), len(b.letters), b.pending(), len(b.entries("clicks")))
		}
		if d := b.letters[0].DeadLetter; d.Reason != broker.ReasonMaxAttempts || d.Attempts != 4 || d.Source != "clicks" || d.Group != "views" {
			h.T().Errorf("the dead letter: %+v", d)
		}
	})
}

func TestClicksThatCannotBeReadStopNobody(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		b := serve(h, func(int) error { return nil })
		b.shop("page", "/hats", "user", "nobody", "at", 1700000006000)
		b.shop("page", "/gloves", "user", 4)
		b.shop("page", "/shoes", "user", 99, "at", 1700000008000, "campaign", "spring")
		h.Advance(time.Second)
		if len(b.clicks) != 1 || b.clicks[0].Page != "/shoes" || b.clicks[0].Referrer != nil {
			h.T().Errorf("counted %+v", b.clicks)
		}
		if n := len(b.entries("clicks")); n != 3 || b.pending() != 0 {
			h.T().Errorf("%d pending of %d", b.pending(), n)
		}
		letters := b.entries("views.dlq")
		if len(letters) != 2 {
			h.T().Fatalf("%d dead letters", len(letters))
		}
		pages := map[any]bool{}
		for _, letter := range letters {
			v := letter.Values
			pages[v["page"]] = true
			if v["dlq_reason"] != broker.ReasonMalformed || v["dlq_attempts"] != "0" {
				h.T().Errorf("a dead letter: %v", v)
			}
		}
		if !pages["/hats"] || !pages["/gloves"] {
			h.T().Errorf("the pages of the dead letters: %v", pages)
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
			"/locked-once  attempt 2", "dead letter, malformed", "dead letter, max_attempts",
			"views: map[/hats:1 /locked-once:1 /shoes:2]", "still has 7 entries, and 0 of them are pending",
		} {
			if !strings.Contains(out, line) {
				t.Errorf("no %q in\n%s", line, out)
			}
		}
	})
}
