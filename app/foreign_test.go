package app_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

type click struct {
	Page string `stream:"page"`
	N    int    `stream:"n"`
}

// clicks is a mount that reads entries which somebody else writes.
type clicks struct {
	h    *apptest.H
	app  *app.App
	seen []click
	runs []app.Message
}

func readClicks(h *apptest.H, answer func(attempt int) outcome.HandlerOutcome, options ...app.MountOption) *clicks {
	c := &clicks{h: h, app: app.New("t", "1")}
	spec := streamrt.Spec{Name: "t.click", Stream: "clicks", Group: "billing"}
	c.app.Broker(h.Broker()).Mount(streamrt.Subscribe(spec, streamrt.Fields, func(ctx context.Context, v click) outcome.HandlerOutcome {
		m := app.MessageFrom(ctx)
		c.seen, c.runs = append(c.seen, v), append(c.runs, m)
		return answer(m.Attempt)
	}), append([]app.MountOption{app.Concurrency(1)}, options...)...)
	return c
}

// add writes an entry as the owner of the stream does.
func (c *clicks) add(fields ...any) {
	c.h.T().Helper()
	if err := c.h.Client().XAdd(context.Background(), &redis.XAddArgs{Stream: "clicks", Values: fields}).Err(); err != nil {
		c.h.T().Fatal(err)
	}
}

func (c *clicks) want(pending, length int64) {
	c.h.T().Helper()
	p, err := c.h.Client().XPending(context.Background(), "clicks", "billing").Result()
	if err != nil || p.Count != pending {
		c.h.T().Errorf("%d entries pending (%v), want %d", p.Count, err, pending)
	}
	if n := c.h.Client().XLen(context.Background(), "clicks").Val(); n != length {
		c.h.T().Errorf("the foreign stream has %d entries, want the %d of its owner", n, length)
	}
}

func TestAForeignEntryIsRetriedInPlace(t *testing.T) {
	for name, again := range map[string]struct {
		answer outcome.HandlerOutcome
		wait   time.Duration
	}{
		"at once": {outcome.Retry(), 0},
		"later":   {outcome.RetryAfter(10 * time.Second), 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			apptest.Paused(t, func(h *apptest.H) {
				c := readClicks(h, func(attempt int) outcome.HandlerOutcome {
					if attempt < 3 {
						return again.answer
					}
					return outcome.Ack()
				})
				h.Start(c.app)
				began := time.Now()
				c.add("page", "/a", "n", "7")
				h.Advance(2*again.wait + time.Second)
				if len(c.runs) != 3 || c.seen[2] != (click{"/a", 7}) {
					h.T().Fatalf("runs %+v of %+v", c.runs, c.seen)
				}
				for i, m := range c.runs {
					if m.Attempt != i+1 || m.Losses != 0 || m.EntryID != c.runs[0].EntryID {
						h.T().Errorf("run %d: attempt %d, losses %d, entry %s", i, m.Attempt, m.Losses, m.EntryID)
					}
				}
				if since := time.Since(began); since < 2*again.wait {
					h.T().Errorf("three runs within %s", since)
				}
				c.want(0, 1)
			})
		})
	}
}

func TestAForeignEntryAtTheCapIsBuriedElsewhere(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		c := readClicks(h, func(int) outcome.HandlerOutcome { return outcome.Retry() }, app.MaxAttempts(4), app.DeadLetter("clicks.dlq"))
		h.Start(c.app)
		c.add("page", "/a", "n", "7", "page", "/b")
		h.Advance(time.Second)
		if len(c.runs) != 4 {
			h.T().Errorf("%d runs, want 4", len(c.runs))
		}
		c.want(0, 1)
		letters := h.Client().XRange(context.Background(), "clicks.dlq", "-", "+").Val()
		if len(letters) != 1 || letters[0].Values["dlq_reason"] != "max_attempts" || letters[0].Values["dlq_attempts"] != "4" {
			h.T().Errorf("dead letters: %v", letters)
		}
	})
}

func TestAForeignEntryThatWaitsIsHandedBackWithItsAttempts(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		answer := func(attempt int) outcome.HandlerOutcome {
			if attempt == 1 {
				return outcome.RetryAfter(20 * time.Second)
			}
			return outcome.Ack()
		}
		first := readClicks(h, answer)
		h.Start(first.app)
		first.add("page", "/a", "n", "7")
		h.Advance(time.Second)
		h.Stop()
		second := readClicks(h, answer)
		h.Start(second.app)
		h.Advance(time.Minute)
		if len(first.runs) != 1 || len(second.runs) != 1 || second.runs[0].Attempt != 2 || second.runs[0].Losses != 0 {
			h.T().Errorf("the first process ran %+v, the second %+v", first.runs, second.runs)
		}
		second.want(0, 1)
	})
}

func TestAForeignEntryThatCannotBeReadIsMalformed(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		c := readClicks(h, func(int) outcome.HandlerOutcome { return outcome.Ack() }, app.DeadLetter("clicks.dlq"))
		h.Start(c.app)
		c.add("page", "/a")
		c.add("page", "/b", "n", "many")
		c.add("page", "/c", "n", "3")
		h.Advance(time.Second)
		if len(c.seen) != 1 || c.seen[0] != (click{"/c", 3}) {
			h.T().Errorf("handled %v", c.seen)
		}
		letters := h.Client().XRange(context.Background(), "clicks.dlq", "-", "+").Val()
		if len(letters) != 2 {
			h.T().Fatalf("%d dead letters", len(letters))
		}
		for i, field := range []string{"n", "n"} {
			v := letters[i].Values
			if v["dlq_reason"] != "malformed" || !mentions(v["dlq_error"].(string), []string{field}) || v["page"] == nil {
				h.T().Errorf("dead letter %d: %v", i, v)
			}
		}
		c.want(0, 3)
	})
}

// The owner of the stream trims it while an entry is in a handler, and while one waits for its next run. Its body is still
// here, and so is what it has behind it.
func TestATrimmedForeignEntryKeepsItsAttempts(t *testing.T) {
	for _, claim := range []time.Duration{0, time.Second} {
		for _, when := range []string{"in the handler", "while it waits"} {
			t.Run(claim.String()+" "+when, func(t *testing.T) {
				apptest.Paused(t, func(h *apptest.H) {
					ctx, a := context.Background(), app.New("t", "1")
					var runs []int
					trim := func() { h.Client().XTrimMaxLen(ctx, "clicks", 0) }
					spec := streamrt.Spec{Name: "t.click", Stream: "clicks", Group: "billing", Claim: claim, Foreign: true}
					a.Broker(h.Broker()).Mount(streamrt.Subscribe(spec, streamrt.Raw, func(ctx context.Context, _ []byte) outcome.HandlerOutcome {
						runs = append(runs, app.MessageFrom(ctx).Attempt)
						if len(runs) == 1 && when == "in the handler" {
							trim()
						}
						return outcome.RetryAfter(2 * time.Second)
					}), app.MaxAttempts(3), app.DeadLetter("clicks.dlq"))
					h.Start(a)
					if err := h.Client().XAdd(ctx, &redis.XAddArgs{Stream: "clicks", Values: []any{"page", "/a"}}).Err(); err != nil {
						h.T().Fatal(err)
					}
					h.Advance(time.Second / 2)
					if when == "while it waits" {
						trim()
					}
					h.Advance(30 * time.Second)
					if claim > 0 && when == "while it waits" {
						// It is with nobody by then: a claiming group finds it gone.
						if n := h.Client().XPending(ctx, "clicks", "billing").Val().Count; n != 0 || len(runs) != 1 {
							h.T().Errorf("%d entries are pending after the runs %v", n, runs)
						}
						return
					}
					if len(runs) != 3 || runs[0] != 1 || runs[1] != 2 || runs[2] != 3 {
						h.T().Errorf("the attempts were %v", runs)
					}
					if n := h.Client().XLen(ctx, "clicks.dlq").Val(); n != 1 {
						h.T().Errorf("%d dead letters", n)
					}
					if n := h.Client().XPending(ctx, "clicks", "billing").Val().Count; n != 0 {
						h.T().Errorf("%d entries are pending", n)
					}
				})
			})
		}
	}
}
