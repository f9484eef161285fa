package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-go/millrace/app/internal/dispatch"
	"github.com/millrace-go/millrace/app/internal/telemetry"
	"github.com/millrace-go/millrace/broker"
)

// probeTime is how long a start that fails anyway asks the server what else is wrong.
const probeTime = 2 * time.Second

// closeTime bounds the closing of the connections.
const closeTime = time.Second

// Run starts everything that is mounted and works until ctx ends; then it stops in good order and returns nil. Before
// any of that it checks the whole app and reports every problem at once, one a line, each naming the mount and the fix.
//
// The order: checks; OnStartup hooks; connecting, tried again for [StartTimeout]; looking at the keys; subscribing;
// reading; AfterStartup hooks. And back: OnShutdown hooks; reading ends; handlers end within the [Grace] time, then
// their contexts end with [ErrShutdown]; outcomes are written; what is left is handed back to the group; AfterShutdown
// hooks; connections close. A handler that ignores its context does not hold Run, which then returns an error that
// names it, within a second after the grace time.
//
// Run handles no signals, see [App.Main]. An app runs once: a second Run is an error.
func (a *App) Run(ctx context.Context) error { return a.run(ctx, nil) }

// run is Run; closing now ends the grace time at once.
func (a *App) run(ctx context.Context, now <-chan struct{}) (err error) {
	a.mu.Lock()
	began := a.began
	a.began = true
	a.mu.Unlock()
	if began {
		return errors.New("app: Run was called before; make a new App with New")
	}
	if a.log == nil {
		a.log = slog.Default()
	}
	lines := newLines()
	a.log = slog.New(lines.handler(a.log.Handler()))
	a.enter(stateStarting, nil)
	defer func() { a.enter(stateStopped, err) }()
	defer a.watch(lines)()
	r := &running{app: a, groups: a.groups(), now: now}
	defer r.close(ctx)
	if found := a.check(); len(found) > 0 {
		return errors.Join(append(found, r.probe(ctx)...)...)
	}
	if ctx.Err() != nil {
		return nil
	}
	err = r.start(ctx)
	if err == nil {
		a.enter(stateRunning, nil)
		a.log.Info("running", "app", a.name, "version", a.version)
		select {
		case <-ctx.Done():
		case <-now:
		}
		a.log.Info("stopping", "app", a.name, "grace", a.grace)
	} else if ctx.Err() != nil {
		a.log.Info("told to stop before the start was over", "app", a.name, "error", err.Error())
		err = nil
	}
	a.enter(stateStopping, err)
	return errors.Join(err, r.stop(ctx))
}

// running is an app between start and stop.
type running struct {
	app    *App
	groups []*group
	now    <-chan struct{}
	opened []opened
	// reads: the engines were started.
	reads   bool
	watches []*telemetry.Watch
}

// opened is a reading whose subscription is open.
type opened struct {
	reading *reading
	sub     broker.Subscription
	engine  *dispatch.Engine
	vitals  *dispatch.Vitals
}

// probe asks the servers of an app that will not start what they have to say against it, so that it is in the same
// report. A broker whose own configuration is wrong is not asked.
func (r *running) probe(ctx context.Context) []error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	return r.each(func(g *group) []error {
		if len(g.mounts) == 0 || len(g.broker.Problems()) > 0 {
			return nil
		}
		if err := g.broker.Connect(ctx); err != nil {
			return []error{fmt.Errorf("app: %s does not answer: %w", g.broker.Address(), err)}
		}
		return inspect(ctx, g)
	})
}

// each calls f for all brokers side by side and returns what they found, in the order of the brokers.
func (r *running) each(f func(*group) []error) []error {
	found := make([][]error, len(r.groups))
	var all sync.WaitGroup
	for i, g := range r.groups {
		all.Go(func() { found[i] = f(g) })
	}
	all.Wait()
	var errs []error
	for _, list := range found {
		errs = append(errs, list...)
	}
	return errs
}

// inspect compares what the keys hold with what they are used as.
func inspect(ctx context.Context, g *group) []error {
	var uses []broker.KeyUse
	for _, mt := range g.mounts {
		if mt.subscription.IsZero() || mt.source.Key == "" {
			continue
		}
		uses = append(uses, mt.uses()...)
	}
	if len(uses) == 0 {
		return nil
	}
	return g.broker.Inspect(ctx, uses)
}

// start brings everything up, as far as it gets.
func (r *running) start(ctx context.Context) error {
	a := r.app
	if err := a.startHooks(ctx, onStartup); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, max(a.startTimeout, probeTime))
	defer cancel()
	if errs := r.each(func(g *group) []error { return a.connect(ctx, g) }); len(errs) > 0 {
		return errors.Join(errs...)
	}
	if errs := r.each(func(g *group) []error { return inspect(limited, g) }); len(errs) > 0 {
		return errors.Join(errs...)
	}
	// Not limited: a fixed consumer name that is still held is waited for.
	if err := r.subscribe(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	a.life.opened = r.opened
	a.mu.Unlock()
	for _, o := range r.opened {
		for _, mt := range o.reading.mounts {
			mt.logStart(o.sub.Capabilities())
		}
		o.engine.Start(ctx)
	}
	r.reads = true
	r.gauge(ctx)
	return a.startHooks(ctx, afterStartup)
}

// connect waits until the server answers, for StartTimeout at most. The waits between tries grow to a second.
func (a *App) connect(ctx context.Context, g *group) []error {
	if len(g.mounts) == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, a.startTimeout)
	defer cancel()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := g.broker.Connect(limited)
		a.waits(err)
		if err == nil {
			return nil
		}
		if wait == 50*time.Millisecond {
			a.log.Warn("the server does not answer; trying again", "address", g.broker.Address(), "error", err.Error(),
				"for", a.startTimeout)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			continue
		case <-limited.Done():
			timer.Stop()
		}
		if ctx.Err() != nil {
			return []error{fmt.Errorf("app: %s had not answered yet: %w", g.broker.Address(), err)}
		}
		return []error{fmt.Errorf("app: %s did not answer within %s (StartTimeout): %w", g.broker.Address(), a.startTimeout, err)}
	}
}

// subscribe opens all subscriptions.
func (r *running) subscribe(ctx context.Context) error {
	var errs []error
	for _, g := range r.groups {
		for _, reading := range readings(g.mounts) {
			o, err := reading.open(ctx, g.broker)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			r.opened = append(r.opened, o)
		}
	}
	return errors.Join(errs...)
}

// stop takes down what start brought up.
func (r *running) stop(ctx context.Context) error {
	a := r.app
	ctx = context.WithoutCancel(ctx)
	hooks, cancel := context.WithCancel(ctx)
	defer cancel()
	finished := make(chan struct{})
	defer close(finished)
	go func() { // A second signal also ends the contexts of the hooks.
		select {
		case <-r.now:
			cancel()
		case <-finished:
		}
	}()
	errs := []error{a.shutdownHooks(hooks, onShutdown)}
	found := make([]error, len(r.opened))
	var all sync.WaitGroup
	for i, o := range r.opened {
		all.Go(func() {
			if r.reads {
				found[i] = o.engine.Shutdown(ctx, a.grace, r.now)
				return
			}
			limited, cancel := context.WithTimeout(ctx, closeTime)
			defer cancel()
			o.sub.Stop(limited)
			found[i] = o.sub.Release(limited, nil)
		})
	}
	all.Wait()
	errs = append(errs, found...)
	return errors.Join(append(errs, a.shutdownHooks(hooks, afterShutdown))...)
}

// close ends the connections. What goes wrong there harms no message, so it is only logged.
func (r *running) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	for _, w := range r.watches {
		w.Close()
		defer w.Wait()
	}
	for _, g := range r.groups {
		if err := g.broker.Close(ctx); err != nil {
			r.app.log.Warn("closing the connections", "address", g.broker.Address(), "error", err.Error())
		}
	}
}
