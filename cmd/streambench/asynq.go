package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

const taskType = "order"

// asynqServer runs the handler until stop is called; everything is as asynq has it by default but the concurrency.
func (b *bench) asynqServer(handle func(context.Context, order) error, config asynq.Config) (stop func(), err error) {
	connection, err := asynq.ParseRedisURI(b.url)
	if err != nil {
		return nil, err
	}
	config.Concurrency, config.LogLevel = b.concurrency, asynq.FatalLevel
	server := asynq.NewServer(connection, config)
	mux := asynq.NewServeMux()
	mux.HandleFunc(taskType, func(ctx context.Context, t *asynq.Task) error {
		var o order
		if err := json.Unmarshal(t.Payload(), &o); err != nil {
			return err
		}
		return handle(ctx, o)
	})
	return server.Shutdown, server.Start(mux)
}

func (b *bench) asynqClient() (*asynq.Client, error) {
	connection, err := asynq.ParseRedisURI(b.url)
	if err != nil {
		return nil, err
	}
	return asynq.NewClient(connection), nil
}

// asynqFill enqueues from many goroutines: asynq has no call for many tasks.
func (b *bench) asynqFill(n int, options ...asynq.Option) error {
	client, err := b.asynqClient()
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // what was enqueued is there
	body := newOrder(7, 0).body()
	const hands = 32
	var group sync.WaitGroup
	errs := make(chan error, hands)
	for hand := range hands {
		group.Go(func() {
			for range n/hands + min(max(n%hands-hand, 0), 1) {
				if _, err := client.EnqueueContext(b.ctx, asynq.NewTask(taskType, body), options...); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(errs)
	return <-errs
}

// asynqRun handles until n tasks are done.
func (b *bench) asynqRun(n int, config asynq.Config, handle func(ctx context.Context, o order, done func()) error) error {
	var handled atomic.Int64
	all := make(chan struct{})
	done := func() {
		if handled.Add(1) == int64(n) {
			close(all)
		}
	}
	b.begin()
	stop, err := b.asynqServer(func(ctx context.Context, o order) error { return handle(ctx, o, done) }, config)
	if err != nil {
		return err
	}
	select {
	case <-all:
	case <-b.ctx.Done():
		err = b.ctx.Err()
	case <-time.After(5 * time.Minute):
		err = fmt.Errorf("%d of %d tasks were handled in five minutes", handled.Load(), n)
	}
	stop()
	b.end(n)
	return err
}

func consumeAsynq(b *bench, work bool) error {
	if err := b.asynqFill(b.n); err != nil {
		return err
	}
	return b.asynqRun(b.n, asynq.Config{}, func(_ context.Context, _ order, done func()) error {
		if work {
			time.Sleep(time.Millisecond)
		}
		done()
		return nil
	})
}

func lightAsynq(b *bench) error {
	client, err := b.asynqClient()
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // what was enqueued is there
	published := b.publishSlowly(func(body []byte) error {
		_, err := client.EnqueueContext(b.ctx, asynq.NewTask(taskType, body))
		return err
	})
	err = b.asynqRun(b.n, asynq.Config{}, func(_ context.Context, o order, done func()) error {
		b.late(time.Duration(time.Now().UnixNano() - o.Sent))
		done()
		return nil
	})
	return errors.Join(err, <-published)
}

func publishAsynq(b *bench) error {
	client, err := b.asynqClient()
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // what was enqueued is there
	return b.publish(func(body []byte) error {
		_, err := client.EnqueueContext(b.ctx, asynq.NewTask(taskType, body))
		return err
	})
}

var errOnce = errors.New("once more")

func retriesAsynq(b *bench) error {
	if err := b.asynqFill(b.n); err != nil {
		return err
	}
	config := asynq.Config{RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 }}
	return b.asynqRun(b.n, config, func(ctx context.Context, _ order, done func()) error {
		if n, _ := asynq.GetRetryCount(ctx); n == 0 {
			return errOnce
		}
		done()
		return nil
	})
}

func buriesAsynq(b *bench) error {
	if err := b.asynqFill(b.n); err != nil {
		return err
	}
	return b.asynqRun(b.n, asynq.Config{}, func(_ context.Context, _ order, done func()) error {
		done()
		return asynq.SkipRetry
	})
}

func latenessAsynq(b *bench) error {
	client, err := b.asynqClient()
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // what was enqueued is there
	first := make(asked, b.n)
	published := b.publishSlowly(func(body []byte) error {
		_, err := client.EnqueueContext(b.ctx, asynq.NewTask(taskType, body))
		return err
	})
	config := asynq.Config{RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Second }}
	err = b.asynqRun(b.n, config, func(ctx context.Context, o order, done func()) error {
		if n, _ := asynq.GetRetryCount(ctx); n == 0 {
			first[o.ID].Store(time.Now().UnixNano())
			return errOnce
		}
		b.late(time.Duration(time.Now().UnixNano()-first[o.ID].Load()) - time.Second)
		done()
		return nil
	})
	b.extra["earliest_ms"] = b.earliest()
	return errors.Join(err, <-published)
}
