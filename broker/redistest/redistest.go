// Package redistest gives a test a real Redis or Valkey server.
//
// Where the server comes from is decided once a process, in this order:
//
//  1. MILLRACE_REDIS_URL: that server. A server that does not answer there fails the test, because somebody asked for
//     it by name.
//  2. A Docker engine: a container of redis:7.0, redis:8 or valkey/valkey:9, through testcontainers-go. An image that
//     is neither on the machine nor to be pulled counts as a missing server.
//  3. A redis-server or valkey-server binary on the PATH, 7.0 or later, started on a free loopback port.
//  4. Nothing: the test is skipped with a text that says how to get a server.
//
// MILLRACE_REQUIRE_REDIS=1 turns each of those skips into a failure; continuous integration sets it, so that live tests
// cannot vanish unnoticed.
//
// Servers are shared by the tests of one process and each test leases a logical database of its own, so a Start costs a
// round trip and not a server. What is not per database is shared: channels, CONFIG, the script cache, SCRIPT FLUSH and
// FLUSHALL. A test that touches those takes [Own].
//
// A package with live tests hands its TestMain to [Main], which keeps servers from one test to the next; without it a
// server ends with the last test that holds it. A process that panics or is killed leaves its containers to the
// reaper of testcontainers.
package redistest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// EnvURL names the environment variable with the address of the server to use: a redis://, rediss:// or unix://
	// URL. Its logical databases 1 to 15 are flushed; database 0 keeps a few short-lived keys that mark which of them
	// are taken, so that test processes side by side stay apart. A URL that names a database above 0 limits redistest
	// to that one.
	EnvURL = "MILLRACE_REDIS_URL"
	// EnvRequire names the environment variable that, set to 1, fails a test which would be skipped for want of a
	// server.
	EnvRequire = "MILLRACE_REQUIRE_REDIS"
)

// Server is one leased logical database of a running server, or, from [Own], a whole server. Its methods may be called
// from several goroutines; it is valid until the test that it was given to ends.
type Server struct {
	in     *instance
	db     int
	own    bool
	client *redis.Client
}

// Start leases an empty logical database until the test and its subtests end, and empties it again then. With Docker
// the server is the first of redis-8, redis-7.0 and valkey-9 that can be had; [Each] runs a test on all of them.
//
// The test is skipped, or failed under MILLRACE_REQUIRE_REDIS=1, where there is no server. A server that is there and
// does not start fails it. All 15 databases being taken makes Start wait, at most two minutes.
func Start(t testing.TB) *Server {
	t.Helper()
	return lease(t, first(t))
}

// Each runs f once for each server of the matrix, as a subtest with a database of its own: redis-7.0, redis-8 and
// valkey-9 with Docker, else the one server that there is, as env or local. A server that cannot be had skips its own
// subtest only, or fails it under MILLRACE_REQUIRE_REDIS=1. f may call t.Parallel.
func Each(t *testing.T, f func(t *testing.T, s *Server)) {
	t.Helper()
	for _, k := range kinds(t) {
		t.Run(k.name(), func(t *testing.T) {
			f(t, lease(t, k))
		})
	}
}

// Own starts a server that nobody else uses and ends it with the test: for tests that change its configuration, stop
// it or restart it. Each call starts one, which takes about half a second. args are added to the command line, for
// example "--appendonly", "yes"; by default nothing is saved. The server is of the kind that [Start] would give;
// where that is MILLRACE_REDIS_URL, one from Docker or a local binary takes its place.
func Own(t testing.TB, args ...string) *Server {
	t.Helper()
	return startOwn(t, firstStartable(t), args)
}

// Own is [Own] with a server of the kind of s, so that a test under [Each] covers the matrix with it.
func (s *Server) Own(t testing.TB, args ...string) *Server {
	t.Helper()
	k := s.in.kind
	if k.name() == nameEnv {
		k = firstStartable(t)
	}
	return startOwn(t, k, args)
}

// Main runs the tests of a package and keeps the shared servers from the first test that needs one to the last:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
//
// It starts nothing by itself and returns once the servers have ended; the exit code is that of m.Run.
func Main(m *testing.M) {
	servers.keep()
	defer servers.end()
	m.Run()
}

// URL is the address of the leased database in the form that redis.ParseURL and redisbroker.Standalone read, for
// example redis://127.0.0.1:49153/3.
func (s *Server) URL() string { return s.in.url(s.db) }

// Client is connected to the leased database. It is the same client at every call and is closed when the test ends.
func (s *Server) Client() *redis.Client { return s.client }

// Name is how the matrix calls the server: redis-7.0, redis-8, valkey-9, env or local.
func (s *Server) Name() string { return s.in.kind.name() }

// Version is what the server says of itself, for example 7.0.15. For Valkey it is Valkey's own version, not the Redis
// version that it also reports for old clients.
func (s *Server) Version() string { return s.in.version }

// Stop ends the process of a server from [Own] the orderly way (SIGTERM); [Server.Restart] brings it back. A server
// that is shared cannot be stopped: that fails the test.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.mustOwn(t, "Stop")
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.in.proc.stop(ctx); err != nil {
		t.Fatalf("redistest: stop %s: %v", s.Name(), err)
	}
}

// Restart stops a server from [Own], unless it is stopped already, and starts it again at the same address with the
// same arguments. Data survives only what the arguments save ("--appendonly", "yes"). It returns when the server
// answers.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop(t)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := s.in.proc.start(ctx); err != nil {
		t.Fatalf("redistest: restart %s: %v", s.Name(), err)
	}
	if err := s.in.answer(ctx); err != nil {
		t.Fatalf("redistest: restart %s: %v", s.Name(), err)
	}
}

func (s *Server) mustOwn(t testing.TB, method string) {
	t.Helper()
	if !s.own {
		t.Fatalf("redistest: %s on a shared server would break other tests; take one from redistest.Own", method)
	}
}

const (
	// startTimeout is for a server whose image or binary is there already.
	startTimeout = time.Minute
	stopTimeout  = 20 * time.Second
)
