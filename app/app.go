// Package app is the composition root of a service: it mounts subscriptions on brokers, says how often and how fast a
// message is tried and where it goes when it is given up, and runs the whole until it is told to stop.
//
//	a := app.New("refunds", "0.1.0")
//	m := a.Broker(redisbroker.Standalone("redis://localhost:6379"))
//	m.Mount(refunds.ProcessRefundSubscription.With(processor), app.MaxAttempts(5), app.DeadLetter("refunds.dlq"))
//	m.Mount(refunds.ReviewSubscription)
//	a.Main()
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-go/millrace/app/internal/dispatch"
	"github.com/millrace-go/millrace/app/internal/telemetry"
	"github.com/millrace-go/millrace/broker"
	streamrt "github.com/millrace-go/millrace/runtime"
)

var (
	// ErrShutdown is the cause ([context.Cause]) with which a handler's context ends when the app is stopping and the
	// grace time is over. From then on Ack, Drop and DeadLetter still count; a failure hands the message back instead, as
	// if it had not been delivered.
	ErrShutdown = dispatch.ErrShutdown
	// ErrLeaseLost is the cause with which a handler's context ends when its delivery belongs to another consumer by now.
	// Whatever the handler answers then has no effect.
	ErrLeaseLost = dispatch.ErrLeaseLost
)

// Option changes an [App] as a whole.
type Option interface{ applyApp(*App) }

type appOption func(*App)

func (f appOption) applyApp(a *App) { f(a) }

// Grace is how long handlers may go on after the app was told to stop, before their contexts end with [ErrShutdown].
// The default is 30 s; 0 ends them at once.
func Grace(d time.Duration) Option { return appOption(func(a *App) { a.grace = d }) }

// Logger receives the app's log. The default is [slog.Default] at the time of [New].
func Logger(l *slog.Logger) Option { return appOption(func(a *App) { a.log = l }) }

// StartTimeout is how long Run tries to reach the servers before it gives up. The default is 30 s.
func StartTimeout(d time.Duration) Option { return appOption(func(a *App) { a.startTimeout = d }) }

// MeterProvider receives the app's metrics, which docs/operations.md lists. The default, and nil, is the global one
// (otel.GetMeterProvider) as of the first publish or of Run; one that is set later takes the place of OpenTelemetry's own default.
func MeterProvider(p metric.MeterProvider) Option { return appOption(func(a *App) { a.meters = p }) }

// TracerProvider receives the app's spans: one for each delivery and one for each publish, see docs/operations.md. The default,
// and nil, is the global one (otel.GetTracerProvider), as for [MeterProvider]. Where none is set no span is made.
func TracerProvider(p trace.TracerProvider) Option { return appOption(func(a *App) { a.tracers = p }) }

// App is one service. Make it with [New], add brokers, mounts and hooks, and call [App.Run] or [App.Main] once.
// Its methods are safe for concurrent use.
type App struct {
	name, version string
	grace         time.Duration
	startTimeout  time.Duration
	log           *slog.Logger
	meters        metric.MeterProvider
	tracers       trace.TracerProvider
	telemetry     func() *telemetry.Telemetry

	mu      sync.Mutex
	began   bool
	brokers []*Mounts
	hooks   [hookKinds][]Hook
	life    life
}

// New returns an app with nothing mounted. Name and version stand in its log.
func New(name, version string, options ...Option) *App {
	a := &App{name: name, version: version, grace: 30 * time.Second, startTimeout: 30 * time.Second, log: slog.Default(), life: life{state: stateNew}}
	for _, option := range options {
		if option != nil {
			option.applyApp(a)
		}
	}
	a.telemetry = sync.OnceValue(func() *telemetry.Telemetry { return telemetry.New(a.meters, a.tracers) })
	return a
}

// Hook is what an app calls when it starts or stops. A hook that panics ends with an error that says so.
type Hook = func(context.Context) error

type hookKind uint8

const (
	onStartup hookKind = iota
	afterStartup
	onShutdown
	afterShutdown
	hookKinds
)

var hookNames = [hookKinds]string{"OnStartup", "AfterStartup", "OnShutdown", "AfterShutdown"}

// OnStartup adds a hook that runs before the first connection is made, after those added earlier. Its error stops the
// start; the shutdown hooks still run. Its context ends with that of Run.
func (a *App) OnStartup(f Hook) { a.hook(onStartup, f) }

// AfterStartup adds a hook that runs when every subscription reads, after those added earlier. Its error stops the app;
// the shutdown hooks still run. Its context ends with that of Run.
func (a *App) AfterStartup(f Hook) { a.hook(afterStartup, f) }

// OnShutdown adds a hook that runs before reading stops, ahead of those added earlier. Its context ends after the
// app's [Grace] time, and does not end with that of Run. Its error becomes part of Run's.
func (a *App) OnShutdown(f Hook) { a.hook(onShutdown, f) }

// AfterShutdown adds a hook that runs when the last delivery has been settled or handed back, before the connections
// close, ahead of those added earlier. Its context is as in [App.OnShutdown], and its error becomes part of Run's.
func (a *App) AfterShutdown(f Hook) { a.hook(afterShutdown, f) }

func (a *App) hook(kind hookKind, f Hook) {
	if f == nil {
		panic("app: " + hookNames[kind] + " was given a nil hook")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hooks[kind] = append(a.hooks[kind], f)
}

// added returns the hooks of one kind. They are read when they are about to run, so that a start hook may still add a
// shutdown hook for what it has opened.
func (a *App) added(kind hookKind) []Hook {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Hook(nil), a.hooks[kind]...)
}

// startHooks runs the hooks in the order added and stops at the first error.
func (a *App) startHooks(ctx context.Context, kind hookKind) error {
	for _, f := range a.added(kind) {
		if err := runHook(ctx, kind, f); err != nil {
			return err
		}
	}
	return nil
}

// shutdownHooks runs all hooks in the reverse order and collects their errors.
func (a *App) shutdownHooks(ctx context.Context, kind hookKind) error {
	ctx, cancel := context.WithTimeout(ctx, max(a.grace, time.Second))
	defer cancel()
	var errs []error
	hooks := a.added(kind)
	for i := len(hooks) - 1; i >= 0; i-- {
		if err := runHook(ctx, kind, hooks[i]); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func runHook(ctx context.Context, kind hookKind, f Hook) (err error) {
	fence := dispatch.FenceFrom(ctx)
	fence.Cross()
	defer fence.Cross()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("app: a hook of %s panicked: %v", hookNames[kind], p)
		}
	}()
	if err := f(ctx); err != nil {
		return fmt.Errorf("app: %s: %w", hookNames[kind], err)
	}
	return nil
}

// Broker adds a server to the app. The defaults hold for all mounts on it, which may override them; middleware adds up,
// the defaults' outermost. The returned Mounts publishes from now on, connecting at the first use.
func (a *App) Broker(b broker.Broker, defaults ...MountOption) *Mounts {
	m := &Mounts{app: a, broker: b, defaults: defaults, codec: newPolicy(defaults, nil).codec}
	if m.codec == nil {
		m.codec = streamrt.JSONCodec{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.began {
		panic("app: Broker was called after Run")
	}
	a.brokers = append(a.brokers, m)
	return m
}
