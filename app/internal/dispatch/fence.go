package dispatch

import (
	"context"
	"sync/atomic"
)

// Fence orders the memory accesses of a test against those of the handlers that it runs, for the race detector: on the
// paused clock they never overlap, but nothing else says so. Both sides cross the fence.
type Fence struct{ crossings atomic.Int64 }

// Cross makes everything before it visible to whoever crosses later.
func (f *Fence) Cross() { f.crossings.Add(1) }

type fenceKey struct{}

// WithFence returns a context under which an app's handlers cross the fence before and after each call.
func WithFence(ctx context.Context, f *Fence) context.Context {
	return context.WithValue(ctx, fenceKey{}, f)
}

func fenceFrom(ctx context.Context) *Fence {
	f, _ := ctx.Value(fenceKey{}).(*Fence)
	return f
}
