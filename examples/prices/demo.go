package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/examples/internal/stage"
)

var errFlicker = errors.New("the lamp flickers")

// demo publishes quotes before, while and after two boards listen.
func demo(ctx context.Context, s *stage.Stage) error {
	east, west := newBoard(s, "east", 0), newBoard(s, "west", 2)
	quiet := app.Logger(slog.New(slog.DiscardHandler))
	a1, m := Service(s.Broker(), east, quiet)
	a2, _ := Service(s.Broker(), west, quiet)

	publish := func(quotes ...Quote) (err error) {
		for _, q := range quotes {
			s.Say("published  %s at %d.%02d", q.Symbol, q.Cents/100, q.Cents%100)
			err = errors.Join(err, m.Publish(ctx, broker.Channel("prices"), q))
		}
		return err
	}
	s.Print("nobody listens on %s yet\n\n", s.Where)
	if err := publish(Quote{"MILL", 900, 1}); err != nil {
		return err
	}
	first, err := stage.Start(ctx, a1)
	if err != nil {
		return err
	}
	second, err := stage.Start(ctx, a2)
	if err != nil {
		return errors.Join(err, first.Stop())
	}
	s.Say("two boards listen")
	err = publish(Quote{"MILL", 950, 2}, Quote{"RACE", 1200, 1})
	shown := func(symbol string, seq int) func(context.Context) bool {
		return func(context.Context) bool { return east.Seq(symbol) == seq && west.Seq(symbol) == seq }
	}
	err = errors.Join(err,
		stage.Until(ctx, "both boards show RACE", shown("RACE", 1)),
		stage.Until(ctx, "both boards show MILL", shown("MILL", 2)),
		publish(Quote{"MILL", 875, 3}),
		stage.Until(ctx, "both boards show the new price", shown("MILL", 3)),
		first.Stop(), second.Stop())
	s.Print("\nboth boards: MILL %d, RACE %d cents; the server keeps %d keys\n", west.Quote("MILL").Cents, west.Quote("RACE").Cents,
		len(s.Client().Keys(ctx, s.Key("*")).Val()))
	return err
}

// newBoard returns a board that tells what it shows; its first lights fail.
func newBoard(s *stage.Stage, name string, failures int) *Board {
	left := make(chan struct{}, failures)
	for range failures {
		left <- struct{}{}
	}
	return &Board{Light: func(ctx context.Context, q Quote) error {
		select {
		case <-left:
			s.Say("%-9s  %s, attempt %d: %v, again in %s", name, q.Symbol, app.MessageFrom(ctx).Attempt, errFlicker, Pause)
			return errFlicker
		default:
			s.Say("%-9s  %s, attempt %d: shows %d.%02d", name, q.Symbol, app.MessageFrom(ctx).Attempt, q.Cents/100, q.Cents%100)
			return nil
		}
	}}
}
