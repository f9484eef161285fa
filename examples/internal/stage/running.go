package stage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/app"
)

// Running is a service at work, in the place of a process.
type Running struct {
	stop context.CancelFunc
	over chan struct{}
	err  error // of Run, to be read when over is closed
}

// Start runs the service, and returns when all its subscriptions read. It has no hooks of AfterStartup yet that fail.
func Start(ctx context.Context, a *app.App) (*Running, error) {
	ctx, stop := context.WithCancel(ctx)
	r := &Running{stop: stop, over: make(chan struct{})}
	reads := make(chan struct{})
	a.AfterStartup(func(context.Context) error {
		close(reads)
		return nil
	})
	go func() {
		defer close(r.over)
		r.err = a.Run(ctx)
	}()
	select {
	case <-reads:
		return r, nil
	case <-r.over:
		stop()
		return nil, errors.Join(r.err, ctx.Err())
	}
}

// Stop ends the service as SIGTERM would, and waits for that. Only the first call counts.
func (r *Running) Stop() error {
	r.stop()
	<-r.over
	return r.err
}

// Until waits until cond holds; it asks a hundred times a second. The error says what never came about.
func Until(ctx context.Context, what string, cond func(context.Context) bool) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond(ctx) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("never: %s: %w", what, ctx.Err())
		}
	}
	return nil
}
