// Package apptest runs an app inside a test: on an in-process server and a paused clock, where a delay of half an hour
// takes a millisecond, or, the same test body, on a real server.
//
//	apptest.Paused(t, func(h *apptest.H) {
//		a := app.New("refunds", "test")
//		m := a.Broker(h.Broker())
//		m.Mount(refunds.ProcessRefundSubscription.With(processor))
//		h.Start(a)
//		m.Publish(t.Context(), broker.Stream("refunds"), refund)
//		h.Advance(30 * time.Second)
//	})
package apptest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/internal/dispatch"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/embedded"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

// The waits of the harness. A handler that does not come is a failed test, not one that hangs.
const (
	startTime  = time.Minute
	stopTime   = 2 * time.Minute
	eventually = 15 * time.Second
	pollLive   = 5 * time.Millisecond
	pollPaused = 10 * time.Millisecond
)

// H is a server and the apps that run on it in one test. Its methods are called from the test's own goroutine.
//
// What a test reads and writes without a lock is ordered against the handlers by Start, Stop, Advance and Eventually, so
// that on the paused clock a handler may append to a slice that the test looks at after Advance.
type H struct {
	t       *testing.T
	paused  bool
	broker  func() broker.Broker
	client  *redis.Client
	fence   dispatch.Fence
	apps    []*started
	brokers []broker.Broker
}

// started is an app that runs.
type started struct {
	cancel context.CancelFunc
	done   chan error
}

// Paused runs f in a bubble of testing/synctest with an in-process server. Time stands still while anything works and
// jumps when everything waits: use h.Advance, time.Sleep or a timer to let it pass. Inside of f there are no real
// sockets and no subtests. What waits for the context of the test outside stops the clock for as long as it waits; h.T
// is the test whose context belongs to the bubble.
func Paused(t *testing.T, f func(h *H)) {
	t.Helper()
	// f may use the context of the test outside. Its channel, made at the first use, must not belong to the bubble: it is
	// closed when the bubble is gone, which would end the whole test binary.
	t.Context().Done()
	synctest.Test(t, func(t *testing.T) {
		server := embedded.NewServer()
		defer server.Close()
		client := server.Client()
		defer client.Close() //nolint:errcheck // the server goes with it
		h := &H{t: t, paused: true, client: client, broker: func() broker.Broker { return server.Broker() }}
		defer h.close()
		defer h.Stop()
		f(h)
	})
}

// Live runs f on the server at url (as redisbroker.Standalone takes it), in real time. The server is not emptied: give
// each test keys of its own, or a server.
func Live(t *testing.T, url string, f func(h *H)) {
	t.Helper()
	// Its report leaves out what may be a password.
	if problems := redisbroker.Standalone(url).Problems(); len(problems) > 0 {
		t.Fatalf("apptest: %v", errors.Join(problems...))
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal("apptest: the URL cannot be parsed")
	}
	client := redis.NewClient(options)
	defer client.Close() //nolint:errcheck // nothing was written through it that could be lost
	h := &H{t: t, client: client, broker: func() broker.Broker { return redisbroker.Standalone(url) }}
	defer h.close()
	defer h.Stop()
	f(h)
}

// T is the test to report to; on the paused clock it is the bubble's own.
func (h *H) T() *testing.T { return h.t }

// Broker returns a new broker on the test's server, as one more process would have.
func (h *H) Broker() broker.Broker {
	b := h.broker()
	h.brokers = append(h.brokers, b)
	return b
}

// close ends the connections of all brokers: a body may have published without starting an app.
func (h *H) close() {
	for _, b := range h.brokers {
		_ = b.Close(context.Background()) // nothing is written any more
	}
}

// Client returns a client of the same server, for looking at what is stored there. The harness closes it.
func (h *H) Client() *redis.Client { return h.client }

// Start runs the app and returns when every subscription reads and the hooks of AfterStartup are through. An error of
// the start fails the test at once. Several apps may run on one server.
func (h *H) Start(a *app.App) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(dispatch.WithFence(context.Background(), &h.fence))
	s := &started{cancel: cancel, done: make(chan error, 1)}
	runs := make(chan struct{})
	a.AfterStartup(func(context.Context) error {
		close(runs)
		return nil
	})
	h.fence.Cross()
	go func() { s.done <- a.Run(ctx) }()
	timer := time.NewTimer(startTime)
	defer timer.Stop()
	select {
	case <-runs:
		h.apps = append(h.apps, s)
		h.settle()
	case err := <-s.done:
		cancel()
		h.t.Fatalf("apptest: the app did not start: %v", err)
	case <-timer.C:
		cancel()
		h.t.Fatalf("apptest: the app did not start within %s", startTime)
	}
	h.fence.Cross()
}

// Stop stops all apps that were started, as SIGTERM would, and fails the test on an error. It runs by itself at the
// end of the test.
func (h *H) Stop() {
	h.t.Helper()
	h.fence.Cross()
	for _, s := range h.apps {
		s.cancel()
	}
	timer := time.NewTimer(stopTime)
	defer timer.Stop()
	var errs []error
	for _, s := range h.apps {
		select {
		case err := <-s.done:
			errs = append(errs, err)
		case <-timer.C:
			errs = append(errs, errors.New("the app did not stop"))
		}
	}
	h.apps = nil
	h.fence.Cross()
	if err := errors.Join(errs...); err != nil {
		h.t.Errorf("apptest: stopping: %v", err)
	}
}

// Advance lets d pass. On the paused clock it passes at once, and Advance returns when everything that was due by then
// has been done. Due times are stored on the server in whole milliseconds and rounded up, so that nothing is early. On a
// live server Advance waits.
func (h *H) Advance(d time.Duration) {
	h.fence.Cross()
	h.settle()
	time.Sleep(d)
	h.settle()
	h.fence.Cross()
}

// settle waits on the paused clock until nothing is left to do at this moment.
func (h *H) settle() {
	if !h.paused {
		return
	}
	synctest.Wait()
}

// Eventually waits until cond holds, and fails the test at once when it does not within 15 s. On the paused clock that
// much time passes at most. what completes the sentence "never: …".
func (h *H) Eventually(what string, cond func(ctx context.Context) bool) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually)
	defer cancel()
	poll := pollLive
	if h.paused {
		poll = pollPaused
	}
	for {
		h.settle()
		h.fence.Cross()
		if cond(ctx) {
			h.fence.Cross()
			return
		}
		h.fence.Cross()
		timer := time.NewTimer(poll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			h.t.Fatalf("apptest: never: %s", what)
		}
	}
}
