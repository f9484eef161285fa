package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/examples/internal/stage"
)

// demo fills the list, partly as another program does, and ends when each picture is small or in the album.
func demo(ctx context.Context, s *stage.Stage) error {
	l := &lab{Stage: s}
	a, m := Service(s.Broker(), l, &Album{Keep: l.collected}, app.Logger(slog.New(slog.DiscardHandler)))
	var err error
	names := []string{"cat", "huge", "dog", "on-its-way", "text", "broken"}
	for _, name := range names {
		err = errors.Join(err, m.Publish(ctx, broker.List("thumbnails"), Picture{name}))
	}
	err = errors.Join(err,
		s.Client().LPush(ctx, s.Key("thumbnails"), `{"name":"from a shell script"}`).Err(),
		s.Client().LPush(ctx, s.Key("thumbnails"), `{"name":`).Err())
	if err != nil {
		return err
	}
	s.Print("%d pictures wait in a list on %s\n\n", len(names)+2, s.Where)
	running, err := stage.Start(ctx, a)
	if err != nil {
		return err
	}
	over := func(context.Context) bool { return int(l.small.Load()+l.letters.Load()) == len(names)+2 }
	err = errors.Join(stage.Until(ctx, "each picture is small or in the album", over), running.Stop())
	s.Print("\n%d are small, %d are in the album, %d wait\n", l.small.Load(), l.letters.Load(), s.Client().LLen(ctx, s.Key("thumbnails")).Val())
	return err
}

// lab makes pictures small and tells of it. Each name has its own way.
type lab struct {
	*stage.Stage
	small, letters atomic.Int64
}

// Shrink fails at some pictures.
func (l *lab) Shrink(ctx context.Context, p Picture) error {
	attempt := app.MessageFrom(ctx).Attempt
	err := error(nil)
	switch {
	case p.Name == "huge" && attempt == 1, p.Name == "broken":
		err = ErrNoMemory
	case p.Name == "on-its-way" && attempt == 1:
		err = ErrNotUploaded
	case p.Name == "text":
		err = ErrNoPicture
	}
	if err != nil {
		l.Say("%-19s  attempt %d: %v", p.Name, attempt, err)
		return err
	}
	l.Say("%-19s  attempt %d: small", p.Name, attempt)
	l.small.Add(1)
	return nil
}

func (l *lab) collected(body []byte, m app.Message) {
	l.Say("%-19s  into the album: %s", body, m.DeadLetter.Reason)
	l.letters.Add(1)
}
