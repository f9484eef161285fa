package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

var update = flag.Bool("update", false, "rewrite the golden files and the commands in docs/streamctl.md")

func TestMain(m *testing.M) { redistest.Main(m) }

// stage is a server with apps on it, and calls of the tool.
type stage struct {
	*apptest.H
	t   *testing.T
	env map[string]string
	// answers is what a person types; without it there is no terminal.
	answers string
	// stdin is what is piped in.
	stdin string
	apps  int
	// stands: the clock is paused.
	stands bool
	// liveness is how long a consumer may be silent; the default is 30 s.
	liveness time.Duration
	// masks are what differs from run to run, each followed by what stands for it in a golden file.
	masks []string
	// transcript is what was called and printed.
	transcript bytes.Buffer
}

// paused runs the body on the embedded server and the paused clock.
func paused(t *testing.T, body func(s *stage)) {
	t.Helper()
	apptest.Paused(t, func(h *apptest.H) { body(&stage{H: h, t: h.T(), stands: true}) })
}

// each runs the body on the embedded server and on every server of the matrix.
func each(t *testing.T, body func(s *stage)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { paused(t, body) })
	live(t, body)
}

// live runs the body on every server of the matrix.
func live(t *testing.T, body func(s *stage)) {
	t.Helper()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		apptest.Live(t, server.URL(), func(h *apptest.H) { body(&stage{H: h, t: t, liveness: time.Second}) })
	})
}

// result is what a call printed, and its exit code.
type result struct {
	out, err string
	code     int
}

// call runs the tool in this process.
func (s *stage) call(args ...string) result {
	s.t.Helper()
	return s.callWith(s.t.Context(), args...)
}

func (s *stage) callWith(ctx context.Context, args ...string) result {
	s.t.Helper()
	var out, errs bytes.Buffer
	w := world{
		stdin: strings.NewReader(s.stdin), stdout: &out, stderr: &errs, getenv: func(name string) string { return s.env[name] },
		open: func(target) (*redisbroker.Broker, error) { return redisbroker.FromClient(s.Client()), nil },
	}
	if s.answers != "" {
		w.stdin, w.asks = strings.NewReader(s.answers), true
	}
	code := run(ctx, args, w)
	fmt.Fprintf(&s.transcript, "$ streamctl %s\n%s%s", strings.Join(args, " "), &out, marked(errs.String()))
	if code != 0 {
		fmt.Fprintf(&s.transcript, "exit code %d\n", code)
	}
	s.transcript.WriteString("\n")
	return result{out.String(), errs.String(), code}
}

// marked sets the lines of the standard error apart.
func marked(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("! " + line)
	}
	return out.String()
}

// does calls the tool and expects its exit code.
func (s *stage) does(code int, args ...string) result {
	s.t.Helper()
	r := s.call(args...)
	if r.code != code {
		s.t.Fatalf("streamctl %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.out, r.err)
	}
	return r
}

// has expects texts in what was printed.
func (s *stage) has(r result, texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.out+r.err, text) {
			s.t.Errorf("%q is not in:\n%s%s", text, r.out, r.err)
		}
	}
}

// golden compares everything that was called with a file.
func (s *stage) golden(name string) {
	s.t.Helper()
	path := filepath.Join("testdata", name+".golden")
	got := strings.TrimRight(strings.NewReplacer(s.masks...).Replace(s.transcript.String()), "\n") + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			s.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if got != string(want) {
		s.t.Errorf("%s: the calls print\n%s\nwant\n%s", path, got, want)
	}
}

// handler is the body of a subscription.
type handler func(ctx context.Context, body string) outcome.HandlerOutcome

func subscription(spec streamrt.Spec, f handler) streamrt.Subscription {
	if spec.Name == "" {
		spec.Name = "refunds.Process"
	}
	return streamrt.Subscribe(spec, streamrt.Raw, func(ctx context.Context, body []byte) outcome.HandlerOutcome {
		return f(ctx, string(body))
	})
}

// worker starts an app with one subscription, whose consumers are called worker-1, worker-2 and so on.
func (s *stage) worker(spec streamrt.Spec, f handler, options ...app.MountOption) *app.Mounts {
	s.t.Helper()
	return s.mounted(subscription(spec, f), options...)
}

func (s *stage) mounted(sub streamrt.Subscription, options ...app.MountOption) *app.Mounts {
	s.t.Helper()
	s.apps++
	a := app.New("test", "1", app.Logger(slog.New(slog.DiscardHandler)))
	of := []redisbroker.Option{redisbroker.Consumer(fmt.Sprintf("worker-%d", s.apps))}
	if s.liveness > 0 {
		of = append(of, redisbroker.Liveness(s.liveness))
	}
	m := a.Broker(redisbroker.FromClient(s.Client(), of...))
	m.Mount(sub, options...)
	s.Start(a)
	return m
}

// publish sends messages named m1, m2 and so on.
func (s *stage) publish(to broker.Destination, bodies ...string) {
	s.t.Helper()
	b := redisbroker.FromClient(s.Client())
	defer b.Close(s.t.Context())
	for i, body := range bodies {
		out := broker.NewOutgoing(to, []byte(body), broker.Header(broker.HeaderMessageID, fmt.Sprintf("m%d", i+1)))
		if err := b.Publish(s.t.Context(), []broker.Outgoing{out})[0]; err != nil {
			s.t.Fatal(err)
		}
	}
}

// length is how many messages stand at a stream.
func (s *stage) length(stream string) int64 {
	s.t.Helper()
	n, err := s.Client().XLen(s.t.Context(), stream).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// buried waits until so many dead letters stand at the stream.
func (s *stage) buried(stream string, n int64) {
	s.t.Helper()
	s.Eventually(fmt.Sprintf("%d dead letters in %s", n, stream), func(ctx context.Context) bool {
		return s.Client().XLen(ctx, stream).Val() == n
	})
}

// soon has failures come back after a second.
var soon = app.Backoff(app.Exponential{Initial: time.Second, Max: time.Second, NoJitter: true})

func xadd(stream string, values ...string) *redis.XAddArgs {
	return &redis.XAddArgs{Stream: stream, Values: values}
}

// owned runs the body on a server of its own, whose configuration it may change.
func owned(t *testing.T, body func(s *stage), args ...string) {
	t.Helper()
	server := redistest.Own(t, args...)
	apptest.Live(t, server.URL(), func(h *apptest.H) { body(&stage{H: h, t: t, liveness: time.Second}) })
}
