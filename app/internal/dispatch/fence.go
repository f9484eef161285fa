package dispatch

import (
	"context"
	"sync/atomic"
)

// Fence orders the memory accesses of a test against those of the handlers that it runs, for the race detector: on the
// paused clock they never overlap, but nothing else says so. Both sides cross the fence.
type Fence struct{ crossings atomic.Int64 }

// Cross makes everything before it visible to whoever crosses later. A nil fence is none.
func (f *Fence) Cross() {
	if f != nil {
		f.crossings.Add(1)
	}
}

type fenceKey struct{}

// WithFence returns a context under which an app's handlers and hooks cross the fence before and after each call.
func WithFence(ctx context.Context, f *Fence) context.Context {
	return context.WithValue(ctx, fenceKey{}, f)
}

// FenceFrom returns the fence of ctx, or nil.
func FenceFrom(ctx context.Context) *Fence {
	f, _ := ctx.Value(fenceKey{}).(*Fence)
	return f
}
