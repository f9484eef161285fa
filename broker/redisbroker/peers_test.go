package redisbroker_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker/embedded"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// ttl is the liveness of the tests: the least that is allowed.
const ttl = time.Second

// peers runs the body with a function that makes one more process on the same server.
func peers(t *testing.T, body func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		server := embedded.NewServer()
		t.Cleanup(server.Close)
		client := server.Client()
		t.Cleanup(func() { _ = client.Close() })
		body(t, client, func(options ...redisbroker.Option) *redisbroker.Broker {
			b := server.Broker(append([]redisbroker.Option{redisbroker.Liveness(ttl)}, options...)...)
			t.Cleanup(func() { _ = b.Close(context.Background()) })
			return b
		})
	})
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		body(t, s.Client(), func(options ...redisbroker.Option) *redisbroker.Broker {
			b := redisbroker.Standalone(s.URL(), append([]redisbroker.Option{redisbroker.Liveness(ttl)}, options...)...)
			t.Cleanup(func() { _ = b.Close(context.Background()) })
			return b
		})
	})
}

// paused is peers on the embedded server and the paused clock.
func paused(t *testing.T, body func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker)) {
	t.Context().Done() // made outside of the bubble, where it ends
	synctest.Test(t, func(t *testing.T) {
		server := embedded.NewServer()
		t.Cleanup(server.Close)
		client := server.Client()
		t.Cleanup(func() { _ = client.Close() })
		body(t, client, func(options ...redisbroker.Option) *redisbroker.Broker {
			b := server.Broker(append([]redisbroker.Option{redisbroker.Liveness(ttl)}, options...)...)
			t.Cleanup(func() { _ = b.Close(context.Background()) })
			return b
		})
	})
}

// start runs the subscription's tasks until the test or the returned function ends them.
func (f *fixture) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	tasks := f.sub.Tasks()
	for _, task := range tasks {
		go func() { task.Run(ctx); done <- struct{}{} }()
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		for range tasks {
			<-done
		}
	}
	f.t.Cleanup(stop)
	return stop
}

// consumer is the name that the process reads under, as the server shows it.
func (f *fixture) consumer() string {
	f.t.Helper()
	keys := f.client.Keys(f.t.Context(), "{s}:alive:g:*").Val()
	if len(keys) != 1 {
		f.t.Fatalf("liveness keys %v", keys)
	}
	return strings.TrimPrefix(keys[0], "{s}:alive:g:")
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// collect reads until n deliveries have come, and returns when each did.
func (f *fixture) collect(n int) map[string]time.Time {
	f.t.Helper()
	got := map[string]time.Time{}
	for deadline := time.Now().Add(10 * time.Second); len(got) < n && time.Now().Before(deadline); {
		for _, d := range f.read(n) {
			got[d.ID] = time.Now()
		}
	}
	if len(got) < n {
		f.t.Fatalf("%d of %d entries came", len(got), n)
	}
	return got
}
