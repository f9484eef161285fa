package redisbroker

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// abortAfter is how long a command may go on after its context has ended. go-redis heeds a context's deadline while it
// waits for a reply, and not its end.
const abortAfter = 250 * time.Millisecond

// connections are the open connections of a broker's pool, so that a stop need not wait for a server that stands still, and
// the readers that follow them to another server. Safe for concurrent use.
type connections struct {
	mu      sync.Mutex // guards what follows; not held over I/O
	open    map[*connection]struct{}
	remote  string // where the last one leads
	readers map[*reader]struct{}
}

// connection takes itself off the list when it is closed.
type connection struct {
	net.Conn
	of *connections
}

func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// DialHook puts each connection that the client makes on the list.
func (cs *connections) DialHook(dial redis.DialHook) redis.DialHook {
	dial = dialer(dial)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := &connection{conn, cs}
		for _, r := range cs.add(c) {
			r.follow(conn.RemoteAddr())
		}
		return c, nil
	}
}

// add puts a connection on the list, and returns the readers if it leads elsewhere than the one before.
func (cs *connections) add(c *connection) (readers []*reader) {
	remote := c.RemoteAddr().String()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.open == nil {
		cs.open = make(map[*connection]struct{})
	}
	cs.open[c] = struct{}{}
	if _, failed := c.Conn.(*unreachable); failed || cs.remote == remote {
		return nil
	}
	cs.remote = remote
	return slices.Collect(maps.Keys(cs.readers))
}

// lead has the reader follow when a connection leads to another server.
func (cs *connections) lead(r *reader) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.readers == nil {
		cs.readers = make(map[*reader]struct{})
	}
	cs.readers[r] = struct{}{}
}

// release ends what lead began.
func (cs *connections) release(r *reader) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.readers, r)
}

// ProcessHook leaves commands alone.
func (cs *connections) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook leaves commands alone.
func (cs *connections) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// abort ends every command under way. The pool makes new connections for later ones.
func (cs *connections) abort() {
	cs.mu.Lock()
	open := make([]*connection, 0, len(cs.open))
	for c := range cs.open {
		open = append(open, c)
	}
	cs.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // the command reports it
	}
}

// do runs f, and ends the commands under way where f goes on after its context has ended.
func (cs *connections) do(ctx context.Context, f func(context.Context)) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(abortAfter)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			cs.abort()
		}
	})
	f(ctx)
	close(done)
	stop()
}

// guard has the tasks end their commands when their contexts end.
func (cs *connections) guard(tasks []broker.Task) []broker.Task {
	for i := range tasks {
		run := tasks[i].Run
		tasks[i].Run = func(ctx context.Context) { cs.do(ctx, run) }
	}
	return tasks
}
