package dispatch

import (
	"log/slog"
	"slices"
	"sync"
	"time"

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
	Meters      *Meters
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

	slowedOnce sync.Once

	// Where several routes share the slots each has its own bound: a message that finds all of its route's in use gives the
	// slot back and waits.
	mu      sync.Mutex
	running int
	waiting []*item
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

// enter reports whether the message may start now. Otherwise it waits for leave to return it, and counts as aside in the
// room.
func (rt *route) enter(it *item, room *room) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.running < rt.Concurrency {
		rt.running++
		return true
	}
	room.aside.Add(1)
	rt.waiting = append(rt.waiting, it)
	return false
}

// leave notes that a message of the route is over, and returns the one that has waited longest and starts in its place,
// nil for none.
func (rt *route) leave() *item {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if len(rt.waiting) == 0 {
		rt.running--
		return nil
	}
	it := rt.waiting[0]
	rt.waiting = slices.Delete(rt.waiting, 0, 1)
	return it
}

// drain takes out all that wait.
func (rt *route) drain() []*item {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	all := rt.waiting
	rt.waiting = nil
	return all
}

// routeOf finds the mount of a message. One whose task nobody here knows is put off, and settled under the policy of the
// first mount that has a dead letter; so is one that has no name that could be read.
func (e *Engine) routeOf(d *broker.Delivery) (rt *route, known bool) {
	if e.byTask == nil {
		return e.routes[0], true
	}
	task, _ := d.Header(broker.HeaderTask)
	if rt := e.byTask[task]; rt != nil {
		return rt, true
	}
	return e.fallback, false
}
