package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
)

const (
	nameEnv   = "env"
	nameLocal = "local"
)

// kind is one way to a server: an address, an image or a binary.
type kind interface {
	// name is what the matrix calls it.
	name() string
	// launch starts a server with extra arguments. An error that wraps errMissing means that this kind cannot be had
	// on this machine; any other means that it is there and broken.
	launch(ctx context.Context, args []string, fixedPort bool) (*instance, error)
}

// errMissing marks what skips a test instead of failing it.
var errMissing = errors.New("no server")

// missing makes an error that wraps errMissing with a reason.
func missing(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errMissing, fmt.Sprintf(format, args...))
}

// howTo ends the text of every skip: what the reader can do about it.
const howTo = "start Docker (the images redis:7.0, redis:8 and valkey/valkey:9 are used), or install redis-server 7.0 " +
	"or later, or set " + EnvURL + "=redis://localhost:6379"

// verdict is what happens to a test whose server could not be had.
type verdict struct {
	skip bool
	text string
}

// judge decides between a skip and a failure: a missing server skips unless servers are required, and a server that is
// there but does not start always fails.
func judge(err error, required bool) verdict {
	switch {
	case !errors.Is(err, errMissing):
		return verdict{text: "redistest: " + err.Error()}
	case required:
		return verdict{text: fmt.Sprintf("redistest: %v, and %s=1 requires one: %s", err, EnvRequire, howTo)}
	default:
		return verdict{skip: true, text: fmt.Sprintf("redistest: %v: %s", err, howTo)}
	}
}

// give ends the test that found no server.
func give(t testing.TB, err error) {
	t.Helper()
	v := judge(err, os.Getenv(EnvRequire) == "1")
	if v.skip {
		t.Skip(v.text)
	}
	t.Fatal(v.text)
}

// sources is the machine as the resolution sees it; tests build their own.
type sources struct {
	env    func() string
	docker func() error
	binary func() (string, error)
}

var machine = sources{
	env:    func() string { return os.Getenv(EnvURL) },
	docker: dockerAnswers,
	binary: findBinary,
}

// all returns the kinds that the matrix runs, or an error that wraps errMissing and names what was looked for.
func (s sources) all() ([]kind, error) {
	if url := s.env(); url != "" {
		return []kind{envKind{url}}, nil
	}
	return s.startable()
}

// startable is all without the environment's server, which is not redistest's to start.
func (s sources) startable() ([]kind, error) {
	dockerErr := s.docker()
	if dockerErr == nil {
		return []kind{
			containerKind{"redis-7.0", "redis:7.0", "redis-server"},
			containerKind{"redis-8", "redis:8", "redis-server"},
			containerKind{"valkey-9", "valkey/valkey:9", "valkey-server"},
		}, nil
	}
	path, binaryErr := s.binary()
	if binaryErr == nil {
		return []kind{binaryKind{path}}, nil
	}
	return nil, missing("no Docker engine answers (%v) and %v", dockerErr, binaryErr)
}

func kinds(t testing.TB) []kind {
	t.Helper()
	ks, err := machine.all()
	if err != nil {
		give(t, err)
	}
	return ks
}

// preferred is the order in which Start and Own try the images: one server stands for all, so the newest Redis first.
var preferred = []string{"redis-8", "redis-7.0", "valkey-9"}

func inPreferredOrder(ks []kind) []kind {
	var out []kind
	for _, name := range preferred {
		for _, k := range ks {
			if k.name() == name {
				out = append(out, k)
			}
		}
	}
	if len(out) == 0 {
		return ks
	}
	return out
}

// first is the kind that Start uses.
func first(t testing.TB) kind {
	t.Helper()
	return firstThere(t, machine.all)
}

// firstStartable is the kind that Own uses.
func firstStartable(t testing.TB) kind {
	t.Helper()
	return firstThere(t, machine.startable)
}

// firstThere skips over images that cannot be had; the last kind is returned unseen, so that its own reason is told.
func firstThere(t testing.TB, list func() ([]kind, error)) kind {
	t.Helper()
	ks, err := list()
	if err != nil {
		give(t, err)
	}
	ks = inPreferredOrder(ks)
	for _, k := range ks[:len(ks)-1] {
		if c, ok := k.(containerKind); !ok || ensureImage(c.image) == nil {
			return k
		}
	}
	return ks[len(ks)-1]
}
