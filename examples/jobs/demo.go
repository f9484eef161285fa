package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/examples/internal/stage"
	"github.com/millrace-go/millrace/examples/jobs/images"
	"github.com/millrace-go/millrace/examples/jobs/mail"
)

// jobs is what the demonstration publishes.
var jobs = []struct {
	task    string
	payload any
}{
	{"send_welcome", mail.Welcome{To: "ada"}},
	{"shrink", images.Picture{Name: "cat.png"}},
	{"send_invoice", mail.Invoice{To: "ada", Cents: 1999}},
	{"shrink", images.Picture{Name: "huge.png"}},
	{"send_invoice", mail.Invoice{To: "grace", Cents: 450}},
	{"send_welcome", mail.Welcome{To: "grace"}},
}

// demo publishes while only the first version runs, and then replaces it by the second one.
func demo(ctx context.Context, s *stage.Stage) error {
	quiet := app.Logger(slog.New(slog.DiscardHandler))
	var done atomic.Int64
	v1, v2 := workshop{s, "v1", &done}, workshop{s, "v2", &done}

	s.Print("workers of version 1 read from %s; they know nothing of invoices\n\n", s.Where)
	a1, m := Version1(s.Broker(), v1.sender(), v1.lab(), quiet)
	first, err := stage.Start(ctx, a1)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		err = errors.Join(err, m.Publish(ctx, broker.Stream("jobs"), j.payload, Task(j.task)))
	}
	err = errors.Join(err, stage.Until(ctx, "what version 1 knows is done", func(context.Context) bool { return done.Load() == 4 }))
	v1.tell("has put off %d jobs that it does not know", s.Client().ZCard(ctx, "{"+s.Key("jobs")+"}:deferred").Val())

	a2, _ := Version2(s.Broker(), v2.sender(), v2.lab(), quiet)
	second, startErr := stage.Start(ctx, a2)
	if startErr != nil {
		return errors.Join(err, startErr, first.Stop())
	}
	v2.tell("has been deployed")
	err = errors.Join(err, first.Stop())
	v1.tell("has been stopped")
	all := func(context.Context) bool { return int(done.Load()) == len(jobs) }
	err = errors.Join(err, stage.Until(ctx, "version 2 sends the invoices", all), second.Stop())
	s.Print("\n%d jobs done, %d dead letters\n", done.Load(), s.Client().XLen(ctx, s.Key("jobs.dlq")).Val())
	return err
}

// workshop is what the workers of one version do their work with: it tells of it.
type workshop struct {
	*stage.Stage
	name string
	done *atomic.Int64
}

func (w workshop) sender() *mail.Sender {
	return &mail.Sender{Send: func(_ context.Context, to, text string) error {
		w.tell("mail to %s: %s", to, text)
		w.done.Add(1)
		return nil
	}}
}

func (w workshop) lab() *images.Lab {
	return &images.Lab{Shrink: func(ctx context.Context, p images.Picture) error {
		if p.Name == "huge.png" && app.MessageFrom(ctx).Attempt == 1 {
			w.tell("no room for %s: asks for another attempt in a second", p.Name)
			return images.ErrNoMemory
		}
		w.tell("%s is smaller now", p.Name)
		w.done.Add(1)
		return nil
	}}
}

func (w workshop) tell(format string, args ...any) {
	w.Say("%s  %s", w.name, fmt.Sprintf(format, args...))
}
