//go:build unix

package chaos

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker/redistest"
)

// absence is a way in which a server is no use to a worker.
type absence struct {
	name string
	// url is what the worker is given; it comes in by it while nothing is done.
	url func(t testing.TB, server *redistest.Server) string
	// leave and back are called with what url has prepared.
	leave, back func(t testing.TB, server *redistest.Server)
}

// absences are those that a worker has to sit out.
func absences() []absence {
	var door *proxy
	return []absence{
		{
			name:  "is down",
			url:   func(_ testing.TB, server *redistest.Server) string { return server.URL() },
			leave: func(t testing.TB, server *redistest.Server) { server.Stop(t) },
			back:  func(t testing.TB, server *redistest.Server) { server.Restart(t) },
		},
		{
			name: "has another password",
			url: func(t testing.TB, server *redistest.Server) string {
				setPassword(t, server, "right")
				return withUser(t, server.URL(), "right")
			},
			leave: func(t testing.TB, server *redistest.Server) {
				setPassword(t, server, "another")
				killUser(t, server)
			},
			back: func(t testing.TB, server *redistest.Server) { setPassword(t, server, "right") },
		},
		{
			name: "accepts and closes",
			url: func(t testing.TB, server *redistest.Server) string {
				door = newProxy(t, server.URL())
				return door.url(server.URL())
			},
			leave: func(testing.TB, *redistest.Server) { door.refuse(true) },
			back:  func(testing.TB, *redistest.Server) { door.refuse(false) },
		},
	}
}

const userName = "worker"

// setPassword makes the user, or gives it another password.
func setPassword(t testing.TB, server *redistest.Server, password string) {
	t.Helper()
	if err := server.Client().ACLSetUser(t.Context(), userName, "reset", "on", ">"+password, "~*", "&*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
}

// killUser ends the user's connections. There may be none.
func killUser(t testing.TB, server *redistest.Server) {
	t.Helper()
	if err := server.Client().Do(t.Context(), "CLIENT", "KILL", "USER", userName).Err(); err != nil {
		t.Fatal(err)
	}
}

func withUser(t testing.TB, address, password string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(userName, password)
	return u.String()
}

// While the server is no use a worker with ten subscriptions costs next to nothing and says little, and then goes on.
func TestAWorkerWithoutAServerIsQuiet(t *testing.T) {
	chaotic(t)
	for _, c := range absences() {
		t.Run("that "+c.name, func(t *testing.T) {
			t.Parallel()
			const subscriptions = 10
			away := pick(12*time.Second, time.Minute)
			server := redistest.Own(t)
			var mounts []mount
			for i := range subscriptions {
				name := "quiet" + string(rune('0'+i))
				mounts = append(mounts, mount{Stream: name, Group: "g", DelaySet: name + ".delayed", Block: time.Second})
			}
			s := newScene(t, server.Client(), order{URL: c.url(t, server), Liveness: ttl, Grace: time.Second, Mounts: mounts})
			w := s.start()
			await(t, patience, "the worker reads", func() bool { return s.ready(w) })
			lines := logLines(t, w)
			c.leave(t, server)
			time.Sleep(away)
			c.back(t, server)
			from := time.Now()
			for _, m := range mounts {
				s.publish(m.Stream, job{Key: m.Stream, Steps: []step{{Do: endAck}}})
			}
			await(t, patience, "every subscription works again", func() bool { return len(s.calls()) == subscriptions })
			took := time.Since(from)
			lines = logLines(t, w) - lines // those that say that it works again, too
			s.stop()
			// All that the process ever computed, its start included, set against the time without a server alone.
			share := float64(w.cmd.ProcessState.UserTime()+w.cmd.ProcessState.SystemTime()) / float64(away)
			t.Logf("without a server for %s: %.1f %% of a processor, %d lines in the log; works again after %s", away, 100*share, lines, took)
			if share > 0.10 {
				t.Errorf("%.1f %% of a processor, want at most 10 %%", 100*share)
			}
			if lines >= 200 {
				t.Errorf("%d lines in the log, want less than 200", lines)
			}
			if took > 10*time.Second {
				t.Errorf("works again after %s, want at most 10s", took)
			}
			if n := len(s.all()); n != 1 {
				t.Errorf("the worker ended and was started again, %d times", n-1)
			}
		})
	}
}

// A worker that cannot come in gives up when its time to start is over, and says where it knocked and what it was told.
func TestAWorkerThatCannotComeInSaysWhy(t *testing.T) {
	chaotic(t)
	for _, c := range []struct{ name, want string }{
		{name: "a wrong password", want: "WRONGPASS"},
		{name: "a port that accepts and closes", want: "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Own(t)
			address := server.URL()
			switch c.want {
			case "WRONGPASS":
				setPassword(t, server, "right")
				address = withUser(t, address, "wrong")
			default:
				door := newProxy(t, address)
				door.refuse(true)
				address = door.url(address)
			}
			const within = 3 * time.Second
			s := newScene(t, server.Client(), order{
				URL: address, Liveness: ttl, StartTimeout: within, Mounts: []mount{{Stream: "in", Group: "g"}},
			})
			from := time.Now()
			w := s.start()
			select {
			case <-w.done:
			case <-time.After(patience):
				t.Fatal("the worker did not give up")
			}
			took := time.Since(from)
			u, err := url.Parse(address)
			if err != nil {
				t.Fatal(err)
			}
			text := logOf(t, w)
			t.Logf("gave up after %s, and said:\n%s", took.Round(time.Millisecond), text)
			if took > within+3*time.Second || w.cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("it ended with %v after %s", w.cmd.ProcessState, took)
			}
			if !strings.Contains(text, u.Host) || !strings.Contains(text, c.want) || strings.Contains(text, "wrong@") {
				t.Errorf("the log does not name %s and %q", u.Host, c.want)
			}
			if n := logLines(t, w); n > 10 {
				t.Errorf("%d lines in the log", n)
			}
		})
	}
}

func logLines(t testing.TB, p *process) int {
	t.Helper()
	return strings.Count(logOf(t, p), "\n")
}
