// Package dispatch runs one mount: it reads deliveries, decodes them, calls the handler, decides what becomes of each
// and settles it.
//
// An [Engine] has one reader, a fixed set of workers, one settler, one room for messages that wait in memory, and the
// tasks of its subscription. What the outcome of a handler means is decided in one place, by the pure function
// rules.decide; nothing else in the package knows the contract's tables.
package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// The causes with which a handler's context ends, besides context.DeadlineExceeded. Package app exports them.
var (
	ErrShutdown  = errors.New("app: the grace time of the shutdown is over")
	ErrLeaseLost = errors.New("app: the delivery belongs to another consumer by now")
)

// Handler is the call of one delivery.
type Handler = func(context.Context) outcome.HandlerOutcome

// Config is a mount as the engine needs it. It has been validated.
type Config struct {
	// Name is the subscription's name.
	Name string
	// Source has been resolved.
	Source       broker.Source
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
	// Concurrency and MaxParked are at least 1. Prefetch is how many new entries are read ahead of the slots.
	Concurrency, MaxParked, Prefetch int
	// Holdings was given to the subscription as its holder.
	Holdings *Holdings
	Logger   *slog.Logger
	Meters   *Meters
}

// Engine runs one mount. Start and Shutdown are called once each, in this order.
type Engine struct {
	config Config
	rules  rules
	sub    broker.Subscription
	log    *slog.Logger
	meters *Meters

	// base is the context of all handlers; it ends with ErrShutdown when the grace time is over.
	base context.Context
	cut  context.CancelCauseFunc
	// isCut is set before base ends: from then on a failure is a release.
	isCut atomic.Bool
	// fence orders a test's memory accesses against those of handlers; nil outside of tests.
	fence *Fence
	// handle is the handler behind its middleware; nil where there is no middleware.
	handle Handler
	// rawBody: the handler owns the bytes that it is given, so it must not be given those that a copy is made from.
	rawBody bool

	room *room
	work chan *item
	// recalled are suspects whose turn has come; it has a place for all that can be aside.
	recalled chan *item
	slots    []slot
	holdings *Holdings
	suspects suspects
	workers  sync.WaitGroup
	parking  *parking
	settler  *settler
	hands    *hands
	readDone chan struct{}
	// stopping is closed when the shutdown begins: what has not started by then is handed back.
	stopping chan struct{}
	// stopped is closed when the subscription has been told and its read has ended.
	stopped chan struct{}

	background sync.WaitGroup
	// untilRelease are the tasks that go on while the last handlers run.
	untilRelease sync.WaitGroup
	endReads     context.CancelFunc
	endTasks     context.CancelFunc
	endAlive     context.CancelFunc
	endParking   context.CancelFunc
	endSettles   context.CancelFunc

	heldMu sync.Mutex
	held   []broker.Held

	slowedOnce sync.Once
}

// New makes the engine of a mount whose subscription is open. It starts nothing.
func New(config Config, sub broker.Subscription) *Engine {
	capabilities := sub.Capabilities()
	e := &Engine{
		config:   config,
		sub:      sub,
		log:      config.Logger,
		meters:   config.Meters,
		rawBody:  config.Subscription.Codec() == "raw",
		room:     newRoom(config.Concurrency, config.Prefetch, config.MaxParked, !capabilities.KeepsPending && !capabilities.DelaySet),
		work:     make(chan *item, config.Concurrency+config.Prefetch),
		recalled: make(chan *item, 2*config.Concurrency+config.Prefetch+maxAside),
		slots:    make([]slot, config.Concurrency),
		holdings: config.Holdings,
		parking:  newParking(),
		readDone: make(chan struct{}),
		stopping: make(chan struct{}),
		stopped:  make(chan struct{}),
	}
	e.rules = rules{
		name: config.Name, source: config.Source.Key, group: config.Source.Group,
		deadLetter: config.DeadLetter, maxAttempts: int64(config.MaxAttempts), maxDeliveries: int64(config.MaxDeliveries),
		caps: capabilities, backoff: e.backoff,
	}
	if config.Wrap != nil {
		e.handle = config.Wrap(callFromContext)
	}
	if capabilities.KeepsPending {
		e.hands = newHands(e.holdings)
	}
	e.holdings.lost = e.lost
	e.settler = newSettler(e)
	return e
}

// Start begins to read. The engine keeps the values of ctx and not its end: a handler that runs when the app is told
// to stop gets its grace time.
func (e *Engine) Start(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	e.fence = FenceFrom(ctx)
	e.base, e.cut = context.WithCancelCause(ctx)

	var reads, tasks, alive, parked, settles context.Context
	reads, e.endReads = context.WithCancel(ctx)
	tasks, e.endTasks = context.WithCancel(ctx)
	alive, e.endAlive = context.WithCancel(ctx)
	parked, e.endParking = context.WithCancel(ctx)
	settles, e.endSettles = context.WithCancel(ctx)

	e.workers.Add(e.config.Concurrency)
	for i := range e.slots {
		go e.worker(&e.slots[i])
	}
	e.background.Go(func() { e.settler.run(settles) })
	e.background.Go(func() { e.parking.run(parked, e.unpark) })
	for _, task := range e.sub.Tasks() {
		if task.UntilRelease {
			e.untilRelease.Go(func() { task.Run(alive) })
			continue
		}
		e.background.Go(func() { task.Run(tasks) })
	}
	go e.read(reads)
}

// backoff asks the mount's policy. One that panics must not take the process with it.
func (e *Engine) backoff(attempt int64, err error) (d time.Duration) {
	defer func() {
		if p := recover(); p != nil {
			e.log.Error("the backoff policy panicked; waiting a second instead", "panic", panicText(p))
			d = time.Second
		}
	}()
	return e.config.Backoff(asInt(attempt), err)
}

// lost ends the contexts of handlers that run with these entries.
func (e *Engine) lost(ids []string) {
	lost := make(map[string]bool, len(ids))
	for _, id := range ids {
		lost[id] = true
	}
	if e.hands != nil {
		e.hands.part(lost)
	}
	for i := range e.slots {
		if it := e.slots[i].lose(lost, ErrLeaseLost); it != nil {
			e.log.Warn("the entry that a handler runs with belongs to another consumer by now", "id", it.delivery.ID)
		}
	}
}

// isStopping reports whether the shutdown has begun.
func (e *Engine) isStopping() bool { return isClosed(e.stopping) }

// handBack notes a delivery that Release is to hand back as if it had never been handed out.
func (e *Engine) handBack(d *broker.Delivery) {
	e.hold(broker.Held{ID: d.ID, Count: max(d.Count-1, 0)})
}

func (e *Engine) hold(held ...broker.Held) {
	e.heldMu.Lock()
	e.held = append(e.held, held...)
	e.heldMu.Unlock()
}
