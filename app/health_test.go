package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// healthBound is how long a check of a subscription with the default block may fail before it is bad.
const healthBound = 15 * time.Second

// probe asks one of the paths of the health handler.
func probe(t testing.TB, a *app.App, path string) (status int, h app.Health) {
	t.Helper()
	w := httptest.NewRecorder()
	a.HealthHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("%s: Content-Type %q", path, got)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &h); err != nil {
		t.Fatalf("%s: %v in\n%s", path, err, w.Body)
	}
	return w.Code, h
}

// wantProbes compares what the handler answers.
func wantProbes(t testing.TB, a *app.App, state string, live, ready int) app.Health {
	t.Helper()
	l, _ := probe(t, a, "/livez")
	r, h := probe(t, a, "/readyz")
	if l != live || r != ready || h.State != state || h.Ready != (ready == http.StatusOK) {
		t.Errorf("/livez %d, /readyz %d, %+v; want %d and %d while %s", l, r, h, live, ready, state)
	}
	return h
}

// badOf are the names of the checks that are bad of a subscription.
func badOf(t testing.TB, h app.Health, name string) []string {
	t.Helper()
	for _, s := range h.Subscriptions {
		if s.Name != name {
			continue
		}
		var checks []string
		for _, b := range s.Bad {
			checks = append(checks, b.Check)
		}
		if s.Good != (len(checks) == 0) {
			t.Errorf("%+v is good and has bad checks, or neither", s)
		}
		return checks
	}
	t.Fatalf("%q is not among %+v", name, h.Subscriptions)
	return nil
}

// lines are those of the log that hold the text.
func (l *logText) lines(text string) (found []string) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

const (
	unhealthy = "a subscription is unhealthy"
	healthy   = "the subscription is healthy again"
)

// What a subscription does over and over is good until it has not succeeded for twice the block and 5 s, is named then
// with what the server says, and is good again by itself when that is mended. The log says each once.
func TestACheckThatFailsIsNamedAndMendsItself(t *testing.T) {
	wrongType := func(key string) (func(*service), func(*service)) {
		return func(s *service) {
				s.Client().Del(s.t.Context(), key)
				s.Client().Set(s.t.Context(), key, "in the way", 0)
			}, func(s *service) {
				s.Client().Del(s.t.Context(), key)
			}
	}
	alive := func(s *service) string {
		keys := s.Client().Keys(s.t.Context(), "*in*:alive:*").Val()
		if len(keys) != 1 {
			s.t.Fatalf("the liveness keys are %v", keys)
		}
		return keys[0]
	}
	broken, mended := wrongType("in")
	brokenSet, mendedSet := wrongType("delayed")
	brokenLetter, mendedLetter := wrongType("dlq")
	aliveKey := ""
	for _, c := range []struct {
		name   string
		spec   streamrt.Spec
		breaks func(*service)
		mend   func(*service)
		late   time.Duration // how long after the bound at most
		want   []string
		says   string
	}{
		{name: "the stream is something else", breaks: broken, mend: mended, late: 2 * time.Second, want: []string{"read", "sweep"}, says: "WRONGTYPE"},
		{name: "the claimed stream is something else", spec: streamrt.Spec{Claim: time.Second}, breaks: broken, mend: mended, late: 6 * time.Second, want: []string{"read", "sweep"}, says: "WRONGTYPE"},
		{name: "the delay set is something else", spec: streamrt.Spec{DelaySet: "delayed"}, breaks: brokenSet, mend: mendedSet, late: 2 * time.Second, want: []string{"sweep"}, says: `"delayed": WRONGTYPE`},
		{name: "the liveness key is something else", breaks: func(s *service) {
			aliveKey = alive(s)
			s.Client().Del(s.t.Context(), aliveKey)
			s.Client().LPush(s.t.Context(), aliveKey, "in the way")
		}, mend: func(s *service) { s.Client().Del(s.t.Context(), aliveKey) }, late: 11 * time.Second, want: []string{"heartbeat"}, says: "WRONGTYPE"},
		{name: "the dead letter is something else", breaks: func(s *service) { brokenLetter(s); s.publish("bury") }, mend: mendedLetter, late: 2 * time.Second, want: []string{"settle"}, says: `bury to "dlq"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			paused(t, func(s *service) {
				s.mount(c.spec, func(context.Context, string) outcome.HandlerOutcome { return outcome.DeadLetter(errors.New("no")) }, app.DeadLetter("dlq"))
				s.m.Mount(subscription(streamrt.Spec{Stream: "other"}, ack))
				s.start()
				s.Advance(time.Hour)
				wantProbes(s.t, s.app, "running", http.StatusOK, http.StatusOK)
				broke := time.Now()
				c.breaks(s)
				s.Advance(healthBound - 5*time.Second - time.Millisecond) // a read may have succeeded as much before
				wantProbes(s.t, s.app, "running", http.StatusOK, http.StatusOK)
				s.Advance(5*time.Second + c.late)
				h := wantProbes(s.t, s.app, "running", http.StatusOK, http.StatusServiceUnavailable)
				got := badOf(s.t, h, "test.in")
				slices.Sort(got)
				if !slices.Equal(got, c.want) || len(badOf(s.t, h, "test.other")) > 0 {
					s.t.Errorf("bad: %v of test.in, want %v; %+v", got, c.want, h)
				}
				for _, sub := range h.Subscriptions {
					for _, b := range sub.Bad {
						if since := b.Since.Sub(broke); since < -11*time.Second || since > time.Second || !strings.Contains(b.Error, c.says) {
							s.t.Errorf("%s has been bad since %s after it broke, and says %s", b.Check, since, b.Error)
						}
					}
				}
				s.Advance(10 * time.Minute)
				if n := len(s.log.lines(unhealthy)); n != 1 {
					s.t.Errorf("the log says %d times that it is bad:\n%s", n, s.log)
				}
				c.mend(s)
				s.Advance(11 * time.Second)
				wantProbes(s.t, s.app, "running", http.StatusOK, http.StatusOK)
				if n := len(s.log.lines(healthy)); n != 1 {
					s.t.Errorf("the log says %d times that it is good:\n%s", n, s.log)
				}
			})
		})
	}
}

// network is between a broker and its server, and swallows what is sent while it is down.
type network struct{ down atomic.Bool }

type networkConn struct {
	net.Conn
	of *network
	// until is the deadline of reads.
	until atomic.Pointer[time.Time]
}

func (c *networkConn) Write(b []byte) (int, error) {
	if c.of.down.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *networkConn) SetReadDeadline(t time.Time) error {
	c.until.Store(&t)
	return c.Conn.SetReadDeadline(t)
}

func (c *networkConn) SetDeadline(t time.Time) error {
	c.until.Store(&t)
	return c.Conn.SetDeadline(t)
}

// Read loses what comes while the network is down.
func (c *networkConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for n > 0 && c.of.down.Load() {
		if until := c.until.Load(); until != nil && !until.IsZero() && time.Now().After(*until) {
			return 0, os.ErrDeadlineExceeded
		}
		n, err = c.Conn.Read(b)
	}
	return n, err
}

// behind is a new broker on the harness's server behind the network.
func (n *network) behind(h *apptest.H, o ...redisbroker.Option) broker.Broker {
	options := *h.Client().Options()
	dial := options.Dialer
	options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &networkConn{Conn: c, of: n}, nil
	}
	client := redis.NewClient(&options)
	h.T().Cleanup(func() { _ = client.Close() })
	return redisbroker.FromClient(client, o...)
}

// A server that stands still lets every kind of subscription turn bad within the bound, and each comes back. The process
// is alive all the while.
func TestAServerThatStandsStillTurnsEverySourceBad(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		n := new(network)
		s := newService(h, n.behind(h))
		specs := []streamrt.Spec{
			{Name: "plain", Stream: "plain"},
			{Name: "set", Stream: "set", DelaySet: "set.delayed"},
			{Name: "claiming", Stream: "claiming", Claim: time.Second},
			{Name: "reclaiming", Stream: "plain", Reclaim: time.Minute},
			{Name: "foreign", Stream: "foreign", Foreign: true},
			{Name: "task.a", Stream: "tasks", Task: "a"},
			{Name: "task.b", Stream: "tasks", Task: "b"},
			{Name: "list", List: "list"},
			{Name: "reliable", List: "reliable", Reliable: true},
			{Name: "channel", Channel: "channel"},
			{Name: "pattern", Pattern: "pattern.*"},
		}
		for _, spec := range specs {
			if spec.Stream != "" {
				spec.Group = group
			}
			var options []app.MountOption
			if spec.Pattern != "" {
				options = append(options, app.OutRetry("elsewhere"))
			}
			s.m.Mount(streamrt.Subscribe(spec, streamrt.Raw, func(context.Context, []byte) outcome.HandlerOutcome { return outcome.Ack() }), options...)
		}
		s.start()
		for range 20 {
			s.Advance(7 * time.Second)
			wantProbes(s.t, s.app, "running", http.StatusOK, http.StatusOK)
		}
		n.down.Store(true)
		s.Advance(healthBound + 2*time.Second) // a sweep is due a second later
		health := wantProbes(s.t, s.app, "running", http.StatusOK, http.StatusServiceUnavailable)
		for _, spec := range specs {
			if bad := badOf(s.t, health, spec.Name); len(bad) == 0 {
				s.t.Errorf("%s is still good", spec.Name)
			}
		}
		s.Advance(time.Minute)
		wantProbes(s.t, s.app, "running", http.StatusOK, http.StatusServiceUnavailable)
		n.down.Store(false)
		s.Advance(30 * time.Second)
		wantProbes(s.t, s.app, "running", http.StatusOK, http.StatusOK)
		// Two mounts share the stream of the tasks.
		for _, text := range []string{unhealthy, healthy} {
			if lines := s.log.lines(text); len(lines) != len(specs)-1 {
				s.t.Errorf("%d lines, want %d:\n%s", len(lines), len(specs)-1, strings.Join(lines, ""))
			}
		}
	})
}

// Slots that are taken are no fault of the server's, however long that lasts.
func TestASubscriptionWhoseSlotsAreTakenIsGood(t *testing.T) {
	paused(t, func(s *service) {
		s.mount(streamrt.Spec{}, func(context.Context, string) outcome.HandlerOutcome {
			time.Sleep(time.Hour)
			return outcome.Ack()
		}, app.Concurrency(1))
		s.start()
		s.publish("long", "waits")
		for range 10 {
			s.Advance(5 * time.Minute)
			wantProbes(s.t, s.app, "running", http.StatusOK, http.StatusOK)
		}
		s.Advance(90 * time.Minute)
	})
}

// Reading that pauses because too much waits is seen, and is not bad.
func TestAPauseIsVisible(t *testing.T) {
	paused(t, func(s *service) {
		s.mount(streamrt.Spec{}, func(ctx context.Context, _ string) outcome.HandlerOutcome {
			if app.MessageFrom(ctx).Attempt > 1 {
				return outcome.Ack()
			}
			return outcome.RetryAfter(time.Hour)
		}, app.MaxParked(2), app.Concurrency(1))
		s.start()
		s.publish("a", "b", "c", "d")
		s.Advance(10 * time.Minute)
		h := wantProbes(s.t, s.app, "running", http.StatusOK, http.StatusOK)
		if !strings.Contains(h.Subscriptions[0].Paused, "MaxParked") {
			s.t.Errorf("%+v does not say that reading pauses", h.Subscriptions)
		}
		s.Advance(3 * time.Hour)
		if h := s.app.Health(); h.Subscriptions[0].Paused != "" || s.ran() != 8 {
			s.t.Errorf("after %d runs: %+v", s.ran(), h.Subscriptions)
		}
	})
}

// From before Run to after its end: a start is waited for and says what it waits for, hooks included; a stop is not ready
// from its first moment on.
func TestProbesFollowTheLife(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		n := new(network)
		n.down.Store(true)
		s := newService(h, n.behind(h), app.StartTimeout(time.Minute))
		s.mount(streamrt.Spec{}, ack)
		health := wantProbes(s.t, s.app, "new", http.StatusOK, http.StatusServiceUnavailable)
		if len(health.Subscriptions) != 1 || health.Subscriptions[0].Name != "test.in" || health.Subscriptions[0].Good {
			s.t.Errorf("before Run: %+v", health)
		}
		s.app.AfterStartup(func(context.Context) error {
			wantProbes(s.t, s.app, "starting", http.StatusOK, http.StatusServiceUnavailable)
			return nil
		})
		s.app.OnShutdown(func(context.Context) error {
			wantProbes(s.t, s.app, "stopping", http.StatusOK, http.StatusServiceUnavailable)
			return nil
		})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- s.app.Run(ctx) }()
		s.Advance(20 * time.Second)
		health = wantProbes(s.t, s.app, "starting", http.StatusOK, http.StatusServiceUnavailable)
		if !strings.Contains(health.Error, "does not answer") {
			s.t.Errorf("while the server is away: %+v", health)
		}
		n.down.Store(false)
		s.Advance(10 * time.Second)
		health = wantProbes(s.t, s.app, "running", http.StatusOK, http.StatusOK)
		want := app.SubscriptionHealth{Name: "test.in", Source: "stream in", Group: group, Good: true, Address: health.Subscriptions[0].Address}
		if got := health.Subscriptions[0]; got.Name != want.Name || got.Source != want.Source || got.Group != want.Group || !got.Good || got.Address == "" {
			s.t.Errorf("%+v, want %+v", got, want)
		}
		if _, err := s.stop(cancel, done); err != nil {
			s.t.Fatal(err)
		}
		wantProbes(s.t, s.app, "stopped", http.StatusOK, http.StatusServiceUnavailable)
	})
}

// A process whose Run has failed does not work any more, and says why.
func TestAFailedRunIsNotAlive(t *testing.T) {
	paused(t, func(s *service) {
		s.mount(streamrt.Spec{}, ack)
		s.app.AfterStartup(func(context.Context) error { return errors.New("no table") })
		if err := s.app.Run(s.t.Context()); err == nil {
			s.t.Fatal("no error")
		}
		if h := wantProbes(s.t, s.app, "stopped", http.StatusServiceUnavailable, http.StatusServiceUnavailable); !strings.Contains(h.Error, "no table") {
			s.t.Errorf("%+v", h)
		}
	})
}
