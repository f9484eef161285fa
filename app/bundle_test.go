package app_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(asProgram); kind != "" {
		program(kind)
	}
	goleak.VerifyTestMain(m)
}

const group = "g"

// handler is the body of one subscription: it gets the payload as it was published.
type handler func(ctx context.Context, body string) outcome.HandlerOutcome

func subscription(spec streamrt.Spec, f handler) streamrt.Subscription {
	if spec.Name == "" {
		spec.Name = "test." + spec.Stream
	}
	if spec.Group == "" {
		spec.Group = group
	}
	return streamrt.Subscribe(spec, streamrt.Raw, func(ctx context.Context, body []byte) outcome.HandlerOutcome {
		return f(ctx, string(body))
	})
}

// service is an app under test with what a test asks of it.
type service struct {
	*apptest.H
	t   *testing.T
	app *app.App
	m   *app.Mounts
	log *logText
	// runs are the messages as the handlers saw them, in order.
	runs []app.Message
	mu   sync.Mutex
}

// paused runs f on the paused clock.
func paused(t *testing.T, f func(s *service)) {
	t.Helper()
	apptest.Paused(t, func(h *apptest.H) { f(newService(h, h.Broker())) })
}

func newService(h *apptest.H, b broker.Broker, options ...app.Option) *service {
	log := new(logText)
	s := &service{H: h, t: h.T(), log: log}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.app = app.New("test", "1", append([]app.Option{app.Logger(logger)}, options...)...)
	s.m = s.app.Broker(b)
	return s
}

// mount mounts f on the stream "in" and notes each run.
func (s *service) mount(spec streamrt.Spec, f handler, options ...app.MountOption) {
	if spec.Stream == "" {
		spec.Stream = "in"
	}
	s.m.Mount(subscription(spec, func(ctx context.Context, body string) outcome.HandlerOutcome {
		s.mu.Lock()
		s.runs = append(s.runs, app.MessageFrom(ctx))
		s.mu.Unlock()
		return f(ctx, body)
	}), options...)
}

func (s *service) start() { s.t.Helper(); s.Start(s.app) }

func (s *service) publish(bodies ...string) {
	s.t.Helper()
	for _, body := range bodies {
		if err := s.m.Publish(s.t.Context(), broker.Stream("in"), []byte(body)); err != nil {
			s.t.Fatal(err)
		}
	}
	s.Advance(0)
}

func (s *service) attempts() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	attempts := make([]int, len(s.runs))
	for i, m := range s.runs {
		attempts[i] = m.Attempt
	}
	return attempts
}

func (s *service) ran() int { return len(s.attempts()) }

func (s *service) pending() int64 {
	s.t.Helper()
	p, err := s.Client().XPending(s.t.Context(), "in", group).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	return p.Count
}

func (s *service) length(stream string) int64 {
	s.t.Helper()
	n, err := s.Client().XLen(s.t.Context(), stream).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *service) entries(stream string) []redis.XMessage {
	s.t.Helper()
	entries, err := s.Client().XRange(s.t.Context(), stream, "-", "+").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	return entries
}

// wantServer compares what the server holds when the test is over.
func (s *service) wantServer(pending, in, dead int64) {
	s.t.Helper()
	if p, i, d := s.pending(), s.length("in"), s.length("dlq"); p != pending || i != in || d != dead {
		s.t.Errorf("%d pending of %d, %d dead letters; want %d of %d, %d", p, i, d, pending, in, dead)
	}
}

// logText is a log that tests read.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// exact makes the waits of failures one second each.
var exact = app.Backoff(app.Exponential{Initial: time.Second, Max: time.Second, NoJitter: true})

var slogDiscard = slog.New(slog.DiscardHandler)
