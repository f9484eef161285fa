package main

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
)

//go:generate go run github.com/millrace-go/millrace/cmd/streamgen .

// Picture is a picture to be made small.
type Picture struct {
	Name string `json:"name"`
}

// Shrinker makes pictures small.
type Shrinker interface {
	Shrink(ctx context.Context, p Picture) error
}

// A picture cannot be made small in three ways.
var (
	ErrNoMemory    = errors.New("no memory left")
	ErrNotUploaded = errors.New("the upload is not complete")
	ErrNoPicture   = errors.New("not a picture")
)

// Upload is how long a picture may still be on its way.
const Upload = 2 * time.Second

// cut:handler

// MakeThumbnail takes pictures from the right end of a list, to which programs in any language LPUSH. While it works the
// picture is in a list in flight, so that a crash loses nothing.
//
//stream:subscriber list=thumbnails reliable delay-set=thumbnails.delayed
func MakeThumbnail(ctx context.Context, s app.State[Shrinker], p Picture) outcome.HandlerOutcome {
	err := s.Value.Shrink(ctx, p)
	switch {
	case errors.Is(err, ErrNoMemory):
		return outcome.Retry().WithError(err) // behind the pictures that wait
	case errors.Is(err, ErrNotUploaded):
		return outcome.RetryAfter(Upload).WithError(err) // kept in the sorted set until then
	case errors.Is(err, ErrNoPicture):
		return outcome.DeadLetter(err)
	}
	return outcome.Of(err)
}

// cut:end

// cut:letters

// Album keeps what could not be made small.
type Album struct {
	Keep func(body []byte, m app.Message)
}

// Collect reads the dead letters, which are a list, too.
//
//stream:subscriber list=thumbnails.dlq reliable codec=raw
func (a *Album) Collect(ctx context.Context, body []byte) error {
	a.Keep(body, app.MessageFrom(ctx))
	return nil
}

// cut:end
