package brokertest_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// worker is one process of a service whose handlers answer by what the message says. It is safe for concurrent use.
type worker struct {
	*app.Mounts
	app *app.App

	mu   sync.Mutex
	text bytes.Buffer // the log
	runs map[string]int
}

func newWorker(b broker.Broker) *worker {
	w := &worker{runs: make(map[string]int)}
	w.app = app.New("brokertest", "test", app.Logger(slog.New(slog.NewTextHandler(w, nil))), app.StartTimeout(5*time.Second))
	w.Mounts = w.app.Broker(b)
	return w
}

// Write takes a line of the log.
func (w *worker) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(line)
}

func (w *worker) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// ran returns how often each message was handled.
func (w *worker) ran() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	runs := make(map[string]int, len(w.runs))
	for body, n := range w.runs {
		runs[body] = n
	}
	return runs
}

// mount mounts a subscription of the group g that answers as handle says.
func (w *worker) mount(spec streamrt.Spec, handle func(ctx context.Context, body string) outcome.HandlerOutcome, options ...app.MountOption) {
	spec.Group = "g"
	if spec.Name == "" {
		spec.Name = "test." + spec.Stream
	}
	w.Mount(streamrt.Subscribe(spec, streamrt.Raw, func(ctx context.Context, body []byte) outcome.HandlerOutcome {
		w.mu.Lock()
		w.runs[string(body)]++
		w.mu.Unlock()
		return handle(ctx, string(body))
	}), options...)
}

// start returns a function that stops the worker and waits for it. The worker reads when start returns.
func (w *worker) start(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	reads, ended := make(chan struct{}), make(chan error, 1)
	w.app.AfterStartup(func(context.Context) error { close(reads); return nil })
	go func() { ended <- w.app.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the app ended with %v; its log:\n%s", err, w.log())
			}
		})
	}
	t.Cleanup(stop)
	select {
	case <-reads:
	case err := <-ended:
		ended <- nil
		t.Fatalf("the app did not start: %v", err)
	}
	return stop
}

// send publishes messages, each until it is published: a server that is just being replaced refuses some.
func (w *worker) send(t *testing.T, stream string, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		soon(t, "published", func() bool {
			return w.Publish(t.Context(), broker.Stream(stream), []byte(body), broker.Header("message-id", body)) == nil
		})
	}
}

// soon waits until cond holds.
func soon(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
