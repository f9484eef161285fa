package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/examples/internal/stage"
)

// events is what other services publish.
var events = []struct {
	channel string
	Event
}{
	{"events.login", Event{"login", "ada"}},
	{"events.login", Event{"login", "grace"}},
	{"weather", Event{"rain", "nobody"}},
	{"events.payment", Event{"payment", "ada"}},
	{"events.sabotage", Event{"sabotage", "mallory"}},
	{"events.logout", Event{"logout", "ada"}},
}

// demo publishes what happens, and ends when every event is written down or given up.
func demo(ctx context.Context, s *stage.Stage) error {
	t := &notebook{Stage: s}
	a, m := Service(s.Broker(), t, app.Logger(slog.New(slog.DiscardHandler)))
	running, err := stage.Start(ctx, a)
	if err != nil {
		return err
	}
	lost := s.Client().Subscribe(ctx, s.Key("audit.lost"))
	defer lost.Close() //nolint:errcheck // nothing was written through it
	_, err = lost.Receive(ctx)
	s.Print("the pattern events.* is heard on %s\n\n", s.Where)
	for _, e := range events {
		s.Say("published  on %s", e.channel)
		err = errors.Join(err, m.Publish(ctx, broker.Channel(e.channel), e.Event))
	}
	if err == nil {
		_, err = lost.ReceiveMessage(ctx)
		s.Say("lost       one event: heard on audit.lost")
	}
	written := func(context.Context) bool { return t.count() == 4 }
	err = errors.Join(err, stage.Until(ctx, "what can be written down is", written), running.Stop())
	s.Print("\n%d of the 5 events that the pattern matches are written down\n", t.count())
	return err
}

// notebook is a trail in memory that tells of each line.
type notebook struct {
	*stage.Stage
	mu    sync.Mutex
	lines int
}

// Write fails at the first payment, and at every sabotage.
func (t *notebook) Write(ctx context.Context, channel string, e Event) error {
	attempt := app.MessageFrom(ctx).Attempt
	if e.Kind == "sabotage" || e.Kind == "payment" && attempt == 1 {
		t.Say("busy       %s by %s, attempt %d: again in a second", e.Kind, e.Who, attempt)
		return ErrDiskBusy
	}
	t.Say("written    %s by %s, attempt %d, heard on %s", e.Kind, e.Who, attempt, channel)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines++
	return nil
}

func (t *notebook) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lines
}
