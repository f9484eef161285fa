package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/millrace-go/millrace/broker"
)

// gauges are the instruments whose values are asked for when somebody collects.
type gauges struct {
	inFlight, concurrency, parked, maxParked, healthy metric.Int64ObservableGauge

	lag, pending, length, delayed, letters metric.Int64ObservableGauge
	overdue                                metric.Float64ObservableGauge
}

func newGauges(m metric.Meter) gauges {
	gauge := func(name, unit, description string) metric.Int64ObservableGauge {
		return made(m.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description)))
	}
	return gauges{
		inFlight:    gauge("millrace.in_flight", "{message}", "Messages in handlers of this process."),
		concurrency: gauge("millrace.concurrency", "{message}", "Messages that may be in handlers of this process at a time."),
		parked:      gauge("millrace.parked", "{message}", "Messages that wait in this process's memory for their delay."),
		maxParked:   gauge("millrace.parked.limit", "{message}", "Waiting messages at which reading pauses."),
		healthy:     gauge("millrace.healthy", "", "1 while the subscription's reads, sweeps and heartbeats succeed, 0 when one has not for too long."),
		lag:         gauge("millrace.lag", "{message}", "Messages that the group was not given yet; none where the server cannot tell."),
		pending:     gauge("millrace.pending", "{message}", "Messages given out and not acknowledged, over all processes."),
		length:      gauge("millrace.length", "{message}", "Messages that the stream or list holds."),
		delayed:     gauge("millrace.delayed", "{message}", "Messages that wait in the delay set."),
		letters:     gauge("millrace.dead_letter.length", "{message}", "Records that the dead letter holds."),
		overdue: made(m.Float64ObservableGauge("millrace.overdue", metric.WithUnit("s"),
			metric.WithDescription("How long ago the first message of the delay set was due, 0 where none is overdue."))),
	}
}

// Local is what a process knows of one of its mounts.
type Local struct {
	InFlight, Concurrency, Parked int64
	// MaxParked is 0 where nothing is parked for want of room.
	MaxParked int64
	Healthy   bool
}

// Gauged is one mount whose gauges are shown.
type Gauged struct {
	Subscription string
	Measurand    broker.Measurand
	Local        func() Local
}

const (
	// patience is how long a collection waits for a server, hurried how long for one that did not answer the last time.
	patience, hurried = 250 * time.Millisecond, 50 * time.Millisecond
	// askTime is how long the server may take at all.
	askTime = time.Second
)

// Watch shows the gauges of the mounts of one broker for as long as it is not closed. Nothing runs while nobody collects. A
// collection asks the server once for all mounts, and waits for a moment only: a server that is away has no numbers.
type Watch struct {
	broker   broker.Broker
	log      *slog.Logger
	gauges   *gauges
	mounts   []Gauged
	local    []metric.ObserveOption
	remote   []metric.ObserveOption
	bubble   string
	register []metric.Registration
	ends     context.Context
	end      context.CancelFunc
	asking   sync.WaitGroup

	mu       sync.Mutex // guards what follows; not held over I/O
	question *question
	closed   bool
	// silent: the server did not answer in time. refused: it refuses some of the numbers, which has been logged.
	silent, refused bool
}

// question is what collections that come at the same time wait for together.
type question struct {
	answered chan struct{}
	measures []broker.Measures
}

// Watch begins to show gauges. The mounts are all of the one broker.
func (t *Telemetry) Watch(ctx context.Context, b broker.Broker, log *slog.Logger, mounts []Gauged) *Watch {
	w := &Watch{broker: b, log: log, gauges: &t.gauges, mounts: mounts, bubble: bubble()}
	w.ends, w.end = context.WithCancel(context.WithoutCancel(ctx))
	for i := range mounts {
		name := attribute.String(subscriptionKey, mounts[i].Subscription)
		w.local = append(w.local, metric.WithAttributeSet(attribute.NewSet(name)))
		from := append(sourceAttributes(&mounts[i].Measurand.Source), name)
		w.remote = append(w.remote, metric.WithAttributeSet(attribute.NewSet(from...)))
	}
	g := w.gauges
	w.registered(t.meter.RegisterCallback(w.observeLocal, g.inFlight, g.concurrency, g.parked, g.maxParked, g.healthy))
	w.registered(t.meter.RegisterCallback(w.observeServer, g.lag, g.pending, g.length, g.delayed, g.letters, g.overdue))
	return w
}

func (w *Watch) registered(r metric.Registration, err error) {
	if err != nil {
		otel.Handle(err)
		return
	}
	w.register = append(w.register, r)
}

// Close ends it. A question that is under way ends with the broker's connections; wait for that with Wait.
func (w *Watch) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	for _, r := range w.register {
		if err := r.Unregister(); err != nil {
			otel.Handle(err)
		}
	}
	w.end()
}

// Wait returns when nothing of the watch runs any more.
func (w *Watch) Wait() { w.asking.Wait() }

func (w *Watch) observeLocal(_ context.Context, o metric.Observer) error {
	if w.bubble != bubble() {
		return nil
	}
	for i := range w.mounts {
		l, g, with := w.mounts[i].Local(), w.gauges, w.local[i]
		o.ObserveInt64(g.inFlight, l.InFlight, with)
		o.ObserveInt64(g.concurrency, l.Concurrency, with)
		o.ObserveInt64(g.parked, l.Parked, with)
		if l.MaxParked > 0 {
			o.ObserveInt64(g.maxParked, l.MaxParked, with)
		}
		healthy := int64(0)
		if l.Healthy {
			healthy = 1
		}
		o.ObserveInt64(g.healthy, healthy, with)
	}
	return nil
}

// observeServer shows what is known. What is not has no value: 0 would say that all is well.
func (w *Watch) observeServer(ctx context.Context, o metric.Observer) error {
	if w.bubble != bubble() {
		return nil
	}
	g := w.gauges
	for i, m := range w.measure(ctx) {
		for _, n := range []struct {
			gauge  metric.Int64Observable
			number broker.Number
		}{{g.lag, m.Lag}, {g.pending, m.Pending}, {g.length, m.Length}, {g.delayed, m.Delayed}, {g.letters, m.DeadLetters}} {
			if n.number.Known {
				o.ObserveInt64(n.gauge, n.number.N, w.remote[i])
			}
		}
		if m.HasOverdue {
			o.ObserveFloat64(g.overdue, m.Overdue.Seconds(), w.remote[i])
		}
	}
	return nil
}

// measure returns what the server answers within the patience, nil if it does not.
func (w *Watch) measure(ctx context.Context) []broker.Measures {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	q, wait := w.question, patience
	if w.silent {
		wait = hurried
	}
	if q == nil {
		q = &question{answered: make(chan struct{})}
		w.question = q
		w.asking.Go(func() { w.ask(q) })
	}
	w.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-q.answered:
		return q.measures
	case <-timer.C:
		w.mu.Lock()
		w.silent = true
		w.mu.Unlock()
	case <-ctx.Done():
	}
	return nil
}

// ask asks the server, and notes how it went.
func (w *Watch) ask(q *question) {
	ctx, cancel := context.WithTimeout(w.ends, askTime)
	defer cancel()
	sources := make([]broker.Measurand, len(w.mounts))
	for i := range w.mounts {
		sources[i] = w.mounts[i].Measurand
	}
	measures, err := w.broker.Measure(ctx, sources)
	q.measures = measures
	w.mu.Lock()
	w.question, w.silent = nil, measures == nil
	told := w.refused
	if measures != nil {
		w.refused = err != nil
	}
	w.mu.Unlock()
	close(q.answered)
	switch {
	case measures == nil || w.ends.Err() != nil:
		// Whoever reads from the server says so.
	case err != nil && !told:
		w.log.Warn("the server refuses numbers that metrics are made of; they are left out", "address", w.broker.Address(), "error", err.Error())
	case err == nil && told:
		w.log.Info("the server gives all numbers that metrics are made of again", "address", w.broker.Address())
	}
}
