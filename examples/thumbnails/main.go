// Command thumbnails makes pictures small that come in through a list, as many programs use one for a queue.
//
//	go run ./examples/thumbnails                           on a server inside the process
//	go run ./examples/thumbnails -redis redis://localhost  on a real one
//
// What is to be tried again at once goes behind the pictures that wait, what has to wait is kept in a sorted set, and what
// fails too often goes to a second list.
package main

import (
	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/examples/internal/stage"
)

func main() { stage.Main("thumbnails", demo) }

// cut:app

// Service makes one picture small at a time, and collects those that it could not.
func Service(b broker.Broker, shrinker Shrinker, album *Album, options ...app.Option) (*app.App, *app.Mounts) {
	a := app.New("thumbnails", "0.1.0", options...)
	m := a.Broker(b)
	m.Mount(MakeThumbnailSubscription.With(shrinker), app.Concurrency(1), app.MaxAttempts(3), app.DeadLetter("thumbnails.dlq"))
	m.Mount(AlbumCollectSubscription.With(album))
	return a, m
}

// cut:end
