package dispatch

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/app/internal/telemetry"
	"github.com/millrace-go/millrace/broker"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// Route is one mount: the handler and the policy of the messages that it takes. It has been validated.
type Route struct {
	// Name is the subscription's name.
	Name string
	// Task is the name that the messages of this mount carry in their header task. It is "" where the mount takes all
	// messages of its source, and is then the engine's only one.
	Task         string
	Subscription streamrt.Subscription
	// Codec decodes where the directive names no codec; nil is JSON.
	Codec streamrt.PayloadCodec
	// Wrap puts the middleware around a handler; nil where there is none. It is called once.
	Wrap func(Handler) Handler
	// MaxAttempts is 0 for no cap, DeadLetter the full key or "" for none.
	MaxAttempts int
	DeadLetter  string
	// Backoff may be the service's own code: it may panic and return anything.
	Backoff func(attempt int, err error) time.Duration
	// MaxDeliveries is how many owners a message may outlive, 0 for any number.
	MaxDeliveries int
	// Concurrency is at least 1.
	Concurrency int
	Logger      *slog.Logger
	// Telemetry was made with [Outcomes].
	Telemetry *telemetry.Mount
}

// route is a mount at work.
type route struct {
	Route
	rules rules
	// handle is the handler behind its middleware; nil where there is no middleware.
	handle Handler
	// rawBody: the handler owns the bytes that it is given, so it must not be given those that a copy is made from.
	rawBody bool

	// ended are runs of the batch that is being settled. They belong to the settler.
	ended [labels]int64

	// parked are the messages that the room counts as such.
	parked atomic.Int64

	slowedOnce sync.Once

	queue
}

func newRoute(r Route, source broker.Source, capabilities broker.Capabilities, config *Config) *route {
	rt := &route{
		Route:   r,
		rawBody: r.Subscription.Codec() == "raw",
	}
	rt.rules = rules{
		name: r.Name, source: source.Key, group: source.Group,
		deadLetter: r.DeadLetter, maxAttempts: int64(r.MaxAttempts), maxDeliveries: int64(r.MaxDeliveries),
		unknownDelay: config.UnknownDelay, unknownTimeout: config.UnknownTimeout,
		caps: capabilities, backoff: rt.backoff,
	}
	if r.Wrap != nil {
		rt.handle = r.Wrap(callFromContext)
	}
	return rt
}

// backoff asks the mount's policy. One that panics must not take the process with it.
func (rt *route) backoff(attempt int64, err error) (d time.Duration) {
	defer func() {
		if p := recover(); p != nil {
			rt.Logger.Error("the backoff policy panicked; waiting a second instead", "panic", panicText(p))
			d = time.Second
		}
	}()
	return rt.Backoff(asInt(attempt), err)
}
