package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/examples/internal/stage"
)

// clicks is what the shop writes.
var clicks = [][]any{
	{"page", "/shoes", "user", 17, "at", 1700000000123},
	{"page", "/hats", "user", 17, "at", 1700000004567, "referrer", "/shoes"},
	{"page", "/locked-once", "user", 3, "at", 1700000005000},
	{"page", "/hats", "user", "nobody", "at", 1700000006000},
	{"page", "/gloves", "user", 4},
	{"page", "/locked", "user", 5, "at", 1700000007000},
	{"page", "/shoes", "user", 99, "at", 1700000008000, "campaign", "spring"},
}

// demo writes as the shop does and runs the service until each click is counted or buried.
func demo(ctx context.Context, s *stage.Stage) error {
	shop := s.Client()
	for _, fields := range clicks {
		if err := shop.XAdd(ctx, &redis.XAddArgs{Stream: s.Key("clicks"), Values: fields}).Err(); err != nil {
			return err
		}
	}
	s.Print("the shop has written %d clicks to %s\n\n", len(clicks), s.Where)

	t := &tally{Stage: s, pages: map[string]int{}}
	running, err := stage.Start(ctx, Service(s.Broker(), t, &Desk{Tell: t.buried}, app.Logger(slog.New(slog.DiscardHandler))))
	if err != nil {
		return err
	}
	err = stage.Until(ctx, "every click is counted or buried", func(context.Context) bool { return t.over() == len(clicks) })
	err = errors.Join(err, running.Stop())
	s.Print("\nviews: %v\nthe shop's stream still has %d entries, and %d of them are pending\n", t.pages,
		shop.XLen(ctx, s.Key("clicks")).Val(), shop.XPending(ctx, s.Key("clicks"), "views").Val().Count)
	return err
}

// tally counts views in memory and tells of it.
type tally struct {
	*stage.Stage
	mu      sync.Mutex
	pages   map[string]int
	settled int
}

// Count is given each click. The page /locked-once is locked at first, and /locked always.
func (t *tally) Count(ctx context.Context, c Click) error {
	attempt := app.MessageFrom(ctx).Attempt
	if c.Page == "/locked" || c.Page == "/locked-once" && attempt == 1 {
		t.Say("%-12s  attempt %d: %v", c.Page, attempt, ErrLocked)
		return ErrLocked
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pages[c.Page]++
	t.settled++
	t.Say("%-12s  attempt %d: user %d at %s", c.Page, attempt, c.User, c.At.UTC().Format("15:04:05.000"))
	return nil
}

func (t *tally) buried(m app.Message) {
	page := ""
	for _, f := range m.Fields {
		if f.Name == "page" {
			page = f.Value
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settled++
	t.Say("%-12s  dead letter, %s: %s", page, m.DeadLetter.Reason, m.DeadLetter.Error)
}

func (t *tally) over() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settled
}
