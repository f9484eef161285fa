package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	wm "github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
)

// watermillRun has as many subscribers as the scenario is concurrent, 10 at most: each of them waits for the ack of a message
// before it hands out the next.
func (b *bench) watermillRun(handle func(o order)) error {
	var group sync.WaitGroup
	var handled atomic.Int64
	all, broken := make(chan struct{}), make(chan error, 10)
	b.begin()
	var subscribers []*redisstream.Subscriber
	for i := range min(b.concurrency, 10) {
		subscriber, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
			Client: redis.NewClient(b.client.Options()), ConsumerGroup: "bench", Consumer: "c" + strconv.Itoa(i), OldestId: "0",
		}, wm.NopLogger{})
		if err != nil {
			return err
		}
		subscribers = append(subscribers, subscriber)
		messages, err := subscriber.Subscribe(b.ctx, stream)
		if err != nil {
			return err
		}
		group.Go(func() {
			for m := range messages {
				var o order
				if err := json.Unmarshal(m.Payload, &o); err != nil {
					broken <- err
					return
				}
				handle(o)
				m.Ack()
				if handled.Add(1) == int64(b.n) {
					close(all)
				}
			}
		})
	}
	var err error
	select {
	case <-all:
	case err = <-broken:
	case <-time.After(5 * time.Minute):
		err = fmt.Errorf("%d of %d messages were handled in five minutes", handled.Load(), b.n)
	}
	b.end(b.n)
	for _, s := range subscribers {
		_ = s.Close() // everything is measured
	}
	group.Wait()
	return err
}

func watermillMessage(body []byte) map[string]any {
	values, err := redisstream.DefaultMarshallerUnmarshaller{}.Marshal(stream, message.NewMessage(wm.NewULID(), body))
	if err != nil {
		panic(err) // it has no metadata that could be refused
	}
	return values
}

func consumeWatermill(b *bench, work bool) error {
	body := newOrder(7, 0).body()
	err := b.pipelined(b.n, func(p redis.Pipeliner, _ int) {
		p.XAdd(b.ctx, &redis.XAddArgs{Stream: stream, Values: watermillMessage(body)})
	})
	if err != nil {
		return err
	}
	return b.watermillRun(func(order) {
		if work {
			time.Sleep(time.Millisecond)
		}
	})
}

func (b *bench) watermillPublisher() (*redisstream.Publisher, error) {
	return redisstream.NewPublisher(redisstream.PublisherConfig{Client: redis.NewClient(b.client.Options())}, wm.NopLogger{})
}

func lightWatermill(b *bench) error {
	publisher, err := b.watermillPublisher()
	if err != nil {
		return err
	}
	defer publisher.Close() //nolint:errcheck // what was published is there
	b.publishSlowly(func(body []byte) error { return publisher.Publish(stream, message.NewMessage(wm.NewULID(), body)) })
	return b.watermillRun(func(o order) { b.late(time.Duration(time.Now().UnixNano() - o.Sent)) })
}

func publishWatermill(b *bench) error {
	publisher, err := b.watermillPublisher()
	if err != nil {
		return err
	}
	defer publisher.Close() //nolint:errcheck // what was published is there
	return b.publish(func(body []byte) error { return publisher.Publish(stream, message.NewMessage(wm.NewULID(), body)) })
}
