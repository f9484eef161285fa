package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) {
	if os.Getenv(envFake) != "" {
		fakeServer()
	}
	Main(m)
}

func TestStartGivesAnEmptyDatabaseOfItsOwn(t *testing.T) {
	ctx := t.Context()
	a, b := Start(t), Start(t)
	if a.URL() == b.URL() {
		t.Fatalf("both tests got %s", a.URL())
	}
	for _, s := range []*Server{a, b} {
		if n := s.Client().DBSize(ctx).Val(); n != 0 {
			t.Errorf("%s has %d keys at the start", s.URL(), n)
		}
	}
	if err := a.Client().Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n := b.Client().Exists(ctx, "k").Val(); n != 0 {
		t.Error("a key of one test is seen by the other")
	}
	opts, err := redis.ParseURL(a.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(opts)
	defer c.Close()
	if got := c.Get(ctx, "k").Val(); got != "v" {
		t.Errorf("URL leads to another database than Client: k = %q", got)
	}
}

func TestDatabaseIsEmptiedAndHandedBack(t *testing.T) {
	seen := map[string]int{Start(t).URL(): 1}
	// More leases one after another than there are databases.
	for i := range databaseCount + 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			s := Start(t)
			seen[s.URL()]++
			if n := s.Client().DBSize(t.Context()).Val(); n != 0 {
				t.Errorf("lease %d finds %d keys", i, n)
			}
			s.Client().Set(t.Context(), "left", "behind", 0)
		})
	}
	if len(seen) > databaseCount-1 {
		t.Errorf("leases used %d databases", len(seen))
	}
}

func TestLeasesSideBySideNeverMeet(t *testing.T) {
	var mu sync.Mutex
	held := map[string]string{Start(t).URL(): t.Name()}
	for i := range 2 * databaseCount {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			s := Start(t)
			mu.Lock()
			if other, taken := held[s.URL()]; taken {
				t.Errorf("%s is held by %s too", s.URL(), other)
			}
			held[s.URL()] = t.Name()
			mu.Unlock()
			time.Sleep(2 * time.Millisecond)
			mu.Lock()
			delete(held, s.URL())
			mu.Unlock()
		})
	}
}

func TestEachNamesServersAndTheirVersions(t *testing.T) {
	want := map[string]string{"redis-7.0": "7.0.", "redis-8": "8.", "valkey-9": "9.", nameEnv: "", nameLocal: ""}
	ran := map[string]bool{}
	Each(t, func(t *testing.T, s *Server) {
		ran[s.Name()] = true
		prefix, known := want[s.Name()]
		if !known {
			t.Errorf("a server is called %q", s.Name())
		}
		if s.Version() == "" || !strings.HasPrefix(s.Version(), prefix) {
			t.Errorf("%s says that its version is %q", s.Name(), s.Version())
		}
		if !strings.HasSuffix(t.Name(), "/"+s.Name()) {
			t.Errorf("subtest %s runs on %s", t.Name(), s.Name())
		}
	})
	if ran["redis-8"] && len(ran) != 3 {
		t.Errorf("with Docker the matrix ran %v", ran)
	}
}

func TestOwnServerTakesArgumentsAndSurvivesARestart(t *testing.T) {
	Each(t, func(t *testing.T, shared *Server) {
		t.Parallel()
		ctx := t.Context()
		s := shared.Own(t, "--appendonly", "yes", "--hz", "50")
		if got := s.Client().ConfigGet(ctx, "hz").Val()["hz"]; got != "50" {
			t.Errorf("hz = %q, want the argument", got)
		}
		if err := s.Client().Set(ctx, "k", "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
		url := s.URL()
		s.Stop(t)
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		if err := s.Client().Ping(short).Err(); err == nil {
			t.Error("a stopped server answers")
		}
		s.Restart(t)
		if s.URL() != url {
			t.Errorf("address changed from %s to %s", url, s.URL())
		}
		if got, err := s.Client().Get(ctx, "k").Result(); got != "v" {
			t.Errorf("after the restart k = %q, %v", got, err)
		}
	})
}

func TestOwnWithBadArgumentsFailsAndLeavesNothing(t *testing.T) {
	k := firstStartable(t)
	in, err := launch(k, []string{"--no-such-directive", "1"}, true)
	if err == nil {
		_ = in.remove()
		t.Fatal("a server started with an unknown directive")
	}
	if judge(err, false).skip {
		t.Errorf("would skip: %v", err)
	}
	if !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("the error does not carry the server's words: %v", err)
	}
}

func TestImageThatCannotBePulledIsAMissingServer(t *testing.T) {
	if err := machine.docker(); err != nil {
		t.Skipf("no Docker engine answers: start Docker to run this test")
	}
	// A registry on loopback where nobody listens: nothing leaves the machine.
	_, err := servers.take(containerKind{"nowhere", "127.0.0.1:1/nowhere:1", "redis-server"})
	if !errors.Is(err, errMissing) || !strings.Contains(err.Error(), "127.0.0.1:1/nowhere:1") {
		t.Fatalf("err = %v", err)
	}
	start := time.Now()
	if _, again := servers.take(containerKind{label: "nowhere"}); again == nil || again.Error() != err.Error() {
		t.Errorf("the second try says %v", again)
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("the second try took %v", d)
	}
}
