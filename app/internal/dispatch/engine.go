// Package dispatch runs one mount, or the several mounts that share a group by task: it reads deliveries, decodes them,
// calls the handler, decides what becomes of each and settles it.
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
)

// The causes with which a handler's context ends, besides context.DeadlineExceeded. Package app exports them.
var (
	ErrShutdown  = errors.New("app: the grace time of the shutdown is over")
	ErrLeaseLost = errors.New("app: the delivery belongs to another consumer by now")
)

// Handler is the call of one delivery.
type Handler = func(context.Context) outcome.HandlerOutcome

// Config is what one source needs. It has been validated.
type Config struct {
	// Name is what errors and logs call the source's mount, or its mounts.
	Name string
	// Source has been resolved.
	Source broker.Source
	// Routes are the mounts that share the source: one, or several that take different tasks. The engine has as many
	// handler slots as they have together.
	Routes []Route
	// MaxParked is at least 1. Prefetch is how many new entries are read ahead of the slots, Adaptive as many as the slots
	// finish at their own pace within a moment.
	MaxParked, Prefetch int
	// UnknownDelay is how long a message that nobody here knows is put off at first, UnknownTimeout how long it may stay
	// unknown.
	UnknownDelay, UnknownTimeout time.Duration
	// Holdings was given to the subscription as its holder.
	Holdings *Holdings
	// Vitals took the pulses of the subscription.
	Vitals *Vitals
	Logger *slog.Logger
}

// Engine runs the mounts of one source. Start and Shutdown are called once each, in this order.
type Engine struct {
	config Config
	caps   broker.Capabilities
	sub    broker.Subscription
	log    *slog.Logger

	routes []*route
	// byTask is nil where the one route takes everything. fallback is whose policy settles what no route takes.
	byTask   map[string]*route
	fallback *route

	// base is the context of all handlers; it ends with ErrShutdown when the grace time is over.
	base context.Context
	cut  context.CancelCauseFunc
	// isCut is set before base ends: from then on a failure is a release.
	isCut atomic.Bool
	// fence orders a test's memory accesses against those of handlers; nil outside of tests.
	fence *Fence
	room  *room
	// pace is nil where it is fixed how many entries are read ahead.
	pace *pace
	// inbox is where everything waits that is to go into a slot: what was read, what waited for its turn, what runs again.
	inbox     inbox
	slots     []slot
	holdings  *Holdings
	reads     *pulse
	suspects  suspects
	strangers strangers
	workers   sync.WaitGroup
	parking   *parking
	settler   *settler
	hands     *hands
	readDone  chan struct{}
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
}

// New makes the engine of a source whose subscription is open. It starts nothing.
func New(config Config, sub broker.Subscription) *Engine {
	capabilities, slots := sub.Capabilities(), 0
	for i := range config.Routes {
		slots += config.Routes[i].Concurrency
	}
	ahead, adaptive := config.Prefetch, false
	if ahead == Adaptive {
		// What a channel has published is in this process anyway.
		ahead, adaptive = 0, capabilities.Acks || config.Source.Structure == broker.StructureList
	}
	e := &Engine{
		config:   config,
		caps:     capabilities,
		sub:      sub,
		log:      config.Logger,
		room:     newRoom(slots, ahead, config.MaxParked, !capabilities.KeepsPending && !capabilities.DelaySet),
		slots:    newSlots(slots),
		holdings: config.Holdings,
		reads:    config.Vitals.pulse(broker.CheckRead, 0),
		parking:  newParking(),
		readDone: make(chan struct{}),
		stopping: make(chan struct{}),
		stopped:  make(chan struct{}),
	}
	if adaptive {
		e.pace = &pace{e.slots}
	}
	e.addRoutes()
	if capabilities.KeepsPending {
		e.hands = newHands(e.holdings, e.turn)
	}
	e.holdings.lost = e.lost
	e.settler = newSettler(e)
	return e
}

func (e *Engine) addRoutes() {
	for _, r := range e.config.Routes {
		rt := newRoute(r, e.config.Source, e.caps, &e.config)
		e.routes = append(e.routes, rt)
		if r.Task != "" {
			if e.byTask == nil {
				e.byTask = make(map[string]*route, len(e.config.Routes))
			}
			e.byTask[r.Task] = rt
		}
		if e.fallback == nil || e.fallback.DeadLetter == "" && r.DeadLetter != "" {
			e.fallback = rt
		}
	}
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

	e.config.Vitals.begin()
	e.workers.Add(len(e.slots))
	for i := range e.slots {
		go e.worker(&e.slots[i], nil)
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

// lost ends the contexts of handlers that run with these entries.
func (e *Engine) lost(lost []broker.Held) {
	if e.hands != nil {
		ids := make(map[string]bool, len(lost))
		for _, l := range lost {
			ids[l.ID] = true
		}
		e.hands.part(ids)
	}
	counts := make(map[string]int64, len(lost))
	for _, l := range lost {
		counts[l.ID] = l.Count
	}
	e.endRuns(func(it *item) bool {
		count, ok := counts[it.delivery.ID]
		return ok && count == e.holdings.count(&it.holding)
	})
}

// endRuns ends the contexts of the handlers that run with such deliveries.
func (e *Engine) endRuns(such func(*item) bool) {
	for i := range e.slots {
		if it := e.slots[i].lose(such, ErrLeaseLost); it != nil {
			e.log.Warn("the entry that a handler runs with belongs to another consumer by now", "id", it.delivery.ID)
		}
	}
}

// isStopping reports whether the shutdown has begun.
func (e *Engine) isStopping() bool { return isClosed(e.stopping) }

// handBack notes a delivery that Release is to hand back as if it had never been handed out. started: its handler has
// begun, which matters where the server keeps nothing that could be handed back.
func (e *Engine) handBack(d *broker.Delivery, started bool) {
	e.hold(broker.Held{ID: d.ID, Count: max(d.Count-1, 0), Delivery: d, Started: started})
}

func (e *Engine) hold(held ...broker.Held) {
	e.heldMu.Lock()
	e.held = append(e.held, held...)
	e.heldMu.Unlock()
}
