package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// servers holds the shared servers of this process.
var servers = &pool{entries: map[string]*entry{}}

// pool starts each kind of server at most once at a time and ends it when nobody holds it, or, under Main, at the end.
type pool struct {
	mu      sync.Mutex
	kept    bool
	entries map[string]*entry
}

// entry is one kind's server. Its own lock is held while the server starts or ends, so that a test which wants another
// kind does not wait for it.
type entry struct {
	mu   sync.Mutex
	refs int
	in   *instance
	gone error // a kind that is missing stays so for the life of the process
}

func (p *pool) entry(name string) *entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[name]
	if e == nil {
		e = &entry{}
		p.entries[name] = e
	}
	return e
}

// take returns the running server of a kind, starting it where it does not run.
func (p *pool) take(k kind) (*instance, error) {
	e := p.entry(k.name())
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone != nil {
		return nil, e.gone
	}
	if e.in == nil {
		in, err := launch(k, nil, false)
		if errors.Is(err, errMissing) {
			e.gone = err
		}
		if err != nil {
			return nil, err
		}
		e.in = in
	}
	e.refs++
	return e.in, nil
}

// put gives a server back; the last one to do so ends it, unless Main keeps it.
func (p *pool) put(k kind) error {
	p.mu.Lock()
	kept := p.kept
	p.mu.Unlock()
	e := p.entry(k.name())
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refs--
	if e.refs > 0 || kept {
		return nil
	}
	in := e.in
	e.in = nil
	return in.remove()
}

func (p *pool) keep() {
	p.mu.Lock()
	p.kept = true
	p.mu.Unlock()
}

// end removes every server. It runs after the last test, so no lease is open.
func (p *pool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, e := range p.entries {
		e.mu.Lock()
		if e.in != nil {
			if err := e.in.remove(); err != nil {
				fmt.Fprintf(os.Stderr, "redistest: end %s: %v\n", name, err)
			}
			e.in = nil
		}
		e.mu.Unlock()
	}
}

// launch bounds the start of a server.
func launch(k kind, args []string, fixedPort bool) (*instance, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return k.launch(ctx, args, fixedPort)
}

// lease gives the test one empty database of a kind's shared server.
func lease(t testing.TB, k kind) *Server {
	t.Helper()
	in, err := servers.take(k)
	if err != nil {
		give(t, err)
	}
	t.Cleanup(func() {
		if err := servers.put(k); err != nil {
			t.Errorf("redistest: end %s: %v", k.name(), err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), leaseWait)
	defer cancel()
	db, err := in.dbs.take(ctx)
	if err != nil {
		t.Fatalf("redistest: lease a database of %s: %v", k.name(), err)
	}
	s := &Server{in: in, db: db, client: in.client(db)}
	t.Cleanup(func() { s.release(t) })
	if err := s.client.FlushDB(ctx).Err(); err != nil {
		t.Fatalf("redistest: empty database %d of %s: %v", db, k.name(), err)
	}
	return s
}

// release empties the database and hands it back. A server that the test has cut off is reported, not waited for.
func (s *Server) release(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.client.FlushDB(ctx).Err(); err != nil {
		t.Errorf("redistest: empty database %d of %s: %v", s.db, s.Name(), err)
	}
	if err := s.client.Close(); err != nil && !t.Failed() {
		t.Logf("redistest: close the client of %s: %v", s.Name(), err)
	}
	s.in.dbs.put(s.db)
}

// startOwn starts a server for one test.
func startOwn(t testing.TB, k kind, args []string) *Server {
	t.Helper()
	in, err := launch(k, args, true)
	if err != nil {
		give(t, err)
	}
	s := &Server{in: in, own: true, client: in.client(0)}
	t.Cleanup(func() {
		_ = s.client.Close() // the test may have stopped the server under it
		if err := in.remove(); err != nil {
			t.Errorf("redistest: end %s: %v", k.name(), err)
		}
	})
	return s
}
