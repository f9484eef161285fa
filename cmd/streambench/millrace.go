package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// service is an app with one mount, which stops when its handler says so.
type service struct {
	b       *bench
	app     *app.App
	mounts  *app.Mounts
	handled atomic.Int64
	stop    context.CancelFunc
}

func (b *bench) service(options ...redisbroker.Option) *service {
	a := app.New("bench", "0", app.Logger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))))
	return &service{b: b, app: a, mounts: a.Broker(redisbroker.Standalone(b.url, options...))}
}

func (s *service) mount(spec streamrt.Spec, handle func(context.Context, order) outcome.HandlerOutcome, options ...app.MountOption) {
	if spec.Name == "" {
		spec.Name = "bench"
	}
	if spec.Stream == "" && spec.List == "" {
		spec.Stream, spec.Group = stream, group
	}
	s.mounts.Mount(streamrt.Subscribe(spec, streamrt.JSON[order], handle), append([]app.MountOption{app.Concurrency(s.b.concurrency)}, options...)...)
}

// run runs the app until enough was handled; starting and stopping it is part of the time.
func (s *service) run(n int) error {
	ctx, cancel := context.WithCancel(s.b.ctx)
	defer cancel()
	s.stop = cancel
	s.b.begin()
	err := s.app.Run(ctx)
	s.b.end(n)
	if err != nil {
		return err
	}
	if got := int(s.handled.Load()); got != n {
		return fmt.Errorf("%d of %d messages were handled", got, n)
	}
	pending, err := s.b.client.XPending(s.b.ctx, stream, group).Result()
	if err == nil && pending.Count != 0 {
		return fmt.Errorf("%d messages are pending in the end", pending.Count)
	}
	return nil
}

// count notes one handled message, and stops the app after the n-th.
func (s *service) count(n int) {
	if s.handled.Add(1) == int64(n) {
		s.stop()
	}
}

func consumeMillrace(b *bench, work bool) error { return b.consume(streamrt.Spec{}, work) }

func claimingMillrace(b *bench) error { return b.consume(streamrt.Spec{Claim: time.Minute}, false) }

func (b *bench) consume(spec streamrt.Spec, work bool) error {
	if err := b.fillOrders(b.n); err != nil {
		return err
	}
	s := b.service()
	s.mount(spec, func(context.Context, order) outcome.HandlerOutcome {
		if work {
			time.Sleep(time.Millisecond)
		}
		s.count(b.n)
		return outcome.Ack()
	})
	return s.run(b.n)
}

func listMillrace(b *bench) error {
	if err := b.fillList(); err != nil {
		return err
	}
	s := b.service()
	s.mount(streamrt.Spec{List: stream, Reliable: true}, func(context.Context, order) outcome.HandlerOutcome {
		s.count(b.n)
		return outcome.Ack()
	})
	return s.run(b.n)
}

func lightMillrace(b *bench) error {
	s := b.service()
	s.mount(streamrt.Spec{}, func(_ context.Context, o order) outcome.HandlerOutcome {
		b.late(time.Duration(time.Now().UnixNano() - o.Sent))
		s.count(b.n)
		return outcome.Ack()
	})
	var published <-chan error
	s.app.AfterStartup(func(context.Context) error {
		published = b.publishSlowly(func(body []byte) error { return s.mounts.Publish(b.ctx, broker.Stream(stream), body) })
		return nil
	})
	if err := s.run(b.n); err != nil {
		return err
	}
	return <-published
}

func publishMillrace(b *bench) error {
	s := b.service()
	err := b.publish(func(body []byte) error { return s.mounts.Publish(b.ctx, broker.Stream(stream), body) })
	return errors.Join(err, s.mounts.Close(b.ctx))
}

func batchMillrace(b *bench) error {
	s := b.service()
	messages := make([]app.Outgoing, batch)
	for i := range messages {
		messages[i] = app.Outgoing{To: broker.Stream(stream), Value: newOrder(7, 0).body()}
	}
	b.begin()
	for range b.n / batch {
		if err := s.mounts.PublishBatch(b.ctx, messages...); err != nil {
			return err
		}
	}
	b.end(b.n / batch * batch)
	return s.mounts.Close(b.ctx)
}

func retriesMillrace(b *bench) error {
	if err := b.fillOrders(b.n); err != nil {
		return err
	}
	s := b.service()
	s.mount(streamrt.Spec{}, func(ctx context.Context, _ order) outcome.HandlerOutcome {
		if app.MessageFrom(ctx).Attempt == 1 {
			return outcome.Retry()
		}
		s.count(b.n)
		return outcome.Ack()
	}, app.MaxAttempts(3))
	return s.run(b.n)
}

func buriesMillrace(b *bench) error {
	if err := b.fillOrders(b.n); err != nil {
		return err
	}
	s := b.service()
	failure := errors.New("no")
	s.mount(streamrt.Spec{}, func(context.Context, order) outcome.HandlerOutcome {
		s.count(b.n)
		return outcome.DeadLetter(failure)
	}, app.DeadLetter("orders.dlq"))
	if err := s.run(b.n); err != nil {
		return err
	}
	if n := b.client.XLen(b.ctx, "orders.dlq").Val(); n != int64(b.n) {
		return fmt.Errorf("%d dead letters of %d", n, b.n)
	}
	return nil
}

const delaySet = "orders.delayed"

// moveMillrace measures how fast what is due gets into the stream. The handler waits, so that nothing else is measured.
func moveMillrace(b *bench) error {
	s := b.service()
	messages := make([]app.Outgoing, 1000)
	for i := range messages {
		messages[i] = app.Outgoing{To: broker.Stream(stream), Value: newOrder(i, 0).body(), Options: []broker.PublishOption{broker.After(delaySet, time.Millisecond)}}
	}
	for range b.n / len(messages) {
		if err := s.mounts.PublishBatch(b.ctx, messages...); err != nil {
			return err
		}
	}
	release := make(chan struct{})
	s.mount(streamrt.Spec{DelaySet: delaySet}, func(context.Context, order) outcome.HandlerOutcome {
		<-release
		return outcome.Ack()
	})
	old := b.client.ConfigGet(b.ctx, "slowlog-log-slower-than").Val()["slowlog-log-slower-than"]
	b.client.ConfigSet(b.ctx, "slowlog-log-slower-than", "0")
	b.client.ConfigSet(b.ctx, "slowlog-max-len", "100000")
	defer b.client.ConfigSet(b.ctx, "slowlog-log-slower-than", old)
	b.client.Do(b.ctx, "SLOWLOG", "RESET")
	worst, stopPing := b.ping()
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	b.begin()
	go func() { failed <- s.app.Run(ctx) }()
	var first time.Time // the first look that found some of them moved
	left := int64(b.n)
	err := b.until("all are moved", func() bool {
		n := b.client.ZCard(ctx, delaySet).Val()
		if n < int64(b.n) && first.IsZero() {
			first, left = time.Now(), n
		}
		return n == 0
	})
	b.extra["moved_per_second"] = float64(left) / time.Since(first).Seconds()
	b.end(b.n)
	stopPing()
	b.extra["worst_ping_ms"] = milliseconds(worst())
	for _, entry := range b.client.SlowLogGet(b.ctx, 100_000).Val() {
		if strings.EqualFold(entry.Args[0], "EVALSHA") {
			b.extra["worst_script_ms"] = max(b.extra["worst_script_ms"], milliseconds(entry.Duration))
		}
	}
	if n := b.client.XLen(b.ctx, stream).Val(); n != int64(b.n) {
		return fmt.Errorf("%d of %d are in the stream", n, b.n)
	}
	close(release)
	cancel()
	return errors.Join(err, <-failed)
}

// ping asks the server for a sign of life all the time, and tells how long the slowest answer took.
func (b *bench) ping() (worst func() time.Duration, stop func()) {
	var slowest atomic.Int64
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		client := redis.NewClient(b.client.Options())
		defer client.Close() //nolint:errcheck // nothing was written
		for ctx.Err() == nil {
			start := time.Now()
			if client.Ping(ctx).Err() == nil {
				slowest.Store(max(slowest.Load(), int64(time.Since(start))))
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return func() time.Duration { return time.Duration(slowest.Load()) }, func() { cancel(); <-done }
}

func latenessMemory(b *bench) error { return b.lateness(streamrt.Spec{}) }
func latenessSet(b *bench) error    { return b.lateness(streamrt.Spec{DelaySet: delaySet}) }

// asked is when the first attempt of each message answered.
type asked []atomic.Int64

func (b *bench) lateness(spec streamrt.Spec) error {
	s := b.service()
	first := make(asked, b.n)
	s.mount(spec, func(ctx context.Context, o order) outcome.HandlerOutcome {
		if app.MessageFrom(ctx).Attempt == 1 {
			first[o.ID].Store(time.Now().UnixNano())
			return outcome.RetryAfter(time.Second)
		}
		b.late(time.Duration(time.Now().UnixNano()-first[o.ID].Load()) - time.Second)
		s.count(b.n)
		return outcome.Ack()
	}, app.MaxAttempts(3))
	s.app.AfterStartup(func(context.Context) error {
		b.publishSlowly(func(body []byte) error { return s.mounts.Publish(b.ctx, broker.Stream(stream), body) })
		return nil
	})
	err := s.run(b.n)
	b.extra["earliest_ms"] = b.earliest()
	return err
}

func (b *bench) earliest() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	least := time.Hour
	for _, l := range b.latencies {
		least = min(least, l)
	}
	return milliseconds(least)
}

// recoveryMillrace measures how fast what is pending under a dead owner is handled once it may be taken.
func recoveryMillrace(b *bench) error {
	const ttl = time.Second
	if err := b.fillOrders(b.n); err != nil {
		return err
	}
	for left := b.n; left > 0; left -= 1000 {
		if err := b.client.XReadGroup(b.ctx, &redis.XReadGroupArgs{Group: group, Consumer: "dead", Streams: []string{stream, ">"}, Count: 1000}).Err(); err != nil {
			return err
		}
	}
	time.Sleep(ttl)
	s := b.service(redisbroker.Liveness(ttl))
	var began, over atomic.Int64
	s.mount(streamrt.Spec{}, func(context.Context, order) outcome.HandlerOutcome {
		began.CompareAndSwap(0, time.Now().UnixNano())
		over.Store(time.Now().UnixNano())
		s.count(b.n)
		return outcome.Ack()
	})
	if err := s.run(b.n); err != nil {
		return err
	}
	b.extra["recovered_per_second"] = float64(b.n) / time.Duration(over.Load()-began.Load()).Seconds()
	return nil
}

// idleMillrace takes its figures for 100 mounts over 10 seconds.
func idleMillrace(b *bench) error {
	const mounts, seconds = 100, 10
	s := b.service()
	for i := range mounts {
		key := fmt.Sprintf("idle%d", i)
		s.mount(streamrt.Spec{Name: key, Stream: key, Group: group}, func(context.Context, order) outcome.HandlerOutcome { return outcome.Ack() })
	}
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	started := make(chan struct{})
	s.app.AfterStartup(func(context.Context) error { close(started); return nil })
	failed := make(chan error, 1)
	go func() { failed <- s.app.Run(ctx) }()
	select {
	case <-started:
	case err := <-failed:
		return err
	}
	time.Sleep(3 * time.Second) // what comes only at the start
	b.begin()
	time.Sleep(seconds * time.Second)
	b.end(1)
	b.extra["core_percent"] = (b.after.cpu - b.before.cpu).Seconds() / seconds * 100
	b.extra["commands_per_mount_second"] = float64(b.after.commands-b.before.commands) / mounts / seconds
	cancel()
	return <-failed
}

// memoryMillrace takes the heap while all messages wait for their next attempt.
func memoryMillrace(b *bench) error {
	if err := b.fillOrders(b.n); err != nil {
		return err
	}
	s := b.service()
	s.mount(streamrt.Spec{}, func(context.Context, order) outcome.HandlerOutcome {
		s.count(b.n + 1)
		return outcome.RetryAfter(time.Hour)
	}, app.MaxAttempts(3), app.MaxParked(2*b.n))
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	s.stop = cancel
	failed := make(chan error, 1)
	before := heap()
	b.begin()
	go func() { failed <- s.app.Run(ctx) }()
	err := b.until("all wait", func() bool { return s.handled.Load() == int64(b.n) })
	b.end(b.n)
	time.Sleep(time.Second) // the last of them are on their way
	b.extra["bytes_per_message"] = (heap() - before) / float64(b.n)
	cancel()
	return errors.Join(err, <-failed)
}

func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
