// Package images is what the workers do to pictures. It shares a stream and a group with package mail, and knows nothing
// of it.
package images

import (
	"context"
	"errors"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
)

//go:generate go run github.com/millrace-go/millrace/cmd/streamgen .

// Picture is one to be made smaller.
type Picture struct {
	Name string `json:"name"`
}

// ErrNoMemory is a picture for which there is no room just now.
var ErrNoMemory = errors.New("too many pictures at once")

// Lab works on pictures.
type Lab struct {
	Shrink func(ctx context.Context, p Picture) error
}

// cut:handler

// Shrink takes the messages whose header task is shrink.
//
//stream:subscriber stream=jobs group=workers task=shrink
func Shrink(ctx context.Context, lab app.State[*Lab], p Picture) outcome.HandlerOutcome {
	err := lab.Value.Shrink(ctx, p)
	if errors.Is(err, ErrNoMemory) {
		return outcome.RetryAfter(time.Second).WithError(err)
	}
	return outcome.Of(err)
}

// cut:end
