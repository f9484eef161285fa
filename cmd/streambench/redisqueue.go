package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/robinjoseph08/redisqueue/v2"
)

func (b *bench) redisqueueOptions() (*redisqueue.RedisOptions, error) {
	u, err := url.Parse(b.url)
	if err != nil {
		return nil, err
	}
	db, err := strconv.Atoi(strings.Trim(u.Path, "/"))
	if err != nil && u.Path != "" && u.Path != "/" {
		return nil, err
	}
	password, _ := u.User.Password()
	return &redisqueue.RedisOptions{Addr: u.Host, DB: db, Password: password}, nil
}

func (b *bench) redisqueueRun(handle func(o order)) error {
	options, err := b.redisqueueOptions()
	if err != nil {
		return err
	}
	consumer, err := redisqueue.NewConsumerWithOptions(&redisqueue.ConsumerOptions{
		VisibilityTimeout: time.Minute, BlockingTimeout: time.Second, ReclaimInterval: 5 * time.Second,
		BufferSize: 100, Concurrency: b.concurrency, RedisOptions: options, GroupName: group,
	})
	if err != nil {
		return err
	}
	var handled atomic.Int64
	all, ended := make(chan struct{}), make(chan struct{})
	consumer.RegisterWithLastID(stream, "0", func(m *redisqueue.Message) error {
		var o order
		text, _ := m.Values[field].(string)
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			return err
		}
		handle(o)
		if handled.Add(1) == int64(b.n) {
			close(all)
		}
		return nil
	})
	b.begin()
	go func() {
		for range consumer.Errors { // it blocks where nobody reads them
		}
	}()
	go func() { defer close(ended); consumer.Run() }()
	select {
	case <-all:
	case <-time.After(5 * time.Minute):
		err = fmt.Errorf("%d of %d messages were handled in five minutes", handled.Load(), b.n)
	}
	b.end(b.n)
	consumer.Shutdown()
	<-ended
	return err
}

func consumeRedisqueue(b *bench, work bool) error {
	if err := b.fillOrders(b.n); err != nil {
		return err
	}
	return b.redisqueueRun(func(order) {
		if work {
			time.Sleep(time.Millisecond)
		}
	})
}

func (b *bench) redisqueueProducer() (*redisqueue.Producer, error) {
	options, err := b.redisqueueOptions()
	if err != nil {
		return nil, err
	}
	return redisqueue.NewProducerWithOptions(&redisqueue.ProducerOptions{RedisOptions: options})
}

func lightRedisqueue(b *bench) error {
	producer, err := b.redisqueueProducer()
	if err != nil {
		return err
	}
	b.publishSlowly(func(body []byte) error {
		return producer.Enqueue(&redisqueue.Message{Stream: stream, Values: map[string]any{field: body}})
	})
	return b.redisqueueRun(func(o order) { b.late(time.Duration(time.Now().UnixNano() - o.Sent)) })
}

func publishRedisqueue(b *bench) error {
	producer, err := b.redisqueueProducer()
	if err != nil {
		return err
	}
	return b.publish(func(body []byte) error {
		return producer.Enqueue(&redisqueue.Message{Stream: stream, Values: map[string]any{field: body}})
	})
}
