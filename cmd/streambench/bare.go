package main

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	stream = "orders"
	group  = "bench"
	// field is where this library keeps the body; what others call it changes nothing.
	field = "_payload"
)

// fill makes a stream of unread messages and a group at its start.
func (b *bench) fill(n int, values func(i int) []any) error {
	err := b.pipelined(n, func(p redis.Pipeliner, i int) {
		p.XAdd(b.ctx, &redis.XAddArgs{Stream: stream, Values: values(i)})
	})
	if err != nil {
		return err
	}
	return b.client.XGroupCreateMkStream(b.ctx, stream, group, "0").Err()
}

func (b *bench) fillOrders(n int) error {
	body := newOrder(7, 0).body()
	return b.fill(n, func(int) []any { return []any{field, body} })
}

// consumeBare is the barest loop that the client allows: in one pipeline the XACK of the last batch and XREADGROUP COUNT 100.
func consumeBare(b *bench) error {
	if err := b.fillOrders(b.n); err != nil {
		return err
	}
	b.begin()
	err := b.loop(-1, func(left *int, o order) { *left-- })
	b.end(b.n)
	return err
}

func (b *bench) loop(block time.Duration, handle func(left *int, o order)) error {
	var ids []string
	for left := b.n; left > 0; {
		pipe := b.client.Pipeline()
		if len(ids) > 0 {
			pipe.XAck(b.ctx, stream, group, ids...)
		}
		read := pipe.XReadGroup(b.ctx, &redis.XReadGroupArgs{Group: group, Consumer: "bare", Streams: []string{stream, ">"}, Count: 100, Block: block})
		if _, err := pipe.Exec(b.ctx); err != nil {
			return err
		}
		ids = ids[:0]
		for _, m := range read.Val()[0].Messages {
			var o order
			text, _ := m.Values[field].(string)
			if err := json.Unmarshal([]byte(text), &o); err != nil {
				return err
			}
			ids = append(ids, m.ID)
			handle(&left, o)
		}
	}
	return b.client.XAck(b.ctx, stream, group, ids...).Err()
}

func lightBare(b *bench) error {
	if err := b.fillOrders(0); err != nil {
		return err
	}
	b.begin()
	published := b.publishSlowly(func(body []byte) error {
		return b.client.XAdd(b.ctx, &redis.XAddArgs{Stream: stream, Values: []any{field, body}}).Err()
	})
	err := b.loop(time.Second, func(left *int, o order) {
		b.late(time.Duration(time.Now().UnixNano() - o.Sent))
		*left--
	})
	b.end(b.n)
	if err != nil {
		return err
	}
	return <-published
}

// publishSlowly publishes a thousand messages a second.
func (b *bench) publishSlowly(publish func(body []byte) error) <-chan error {
	done := make(chan error, 1)
	go func() {
		began := time.Now()
		for i := range b.n {
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Millisecond)))
			if err := publish(newOrder(i, time.Now().UnixNano()).body()); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	return done
}

func publishBare(b *bench) error {
	return b.publish(func(body []byte) error {
		return b.client.XAdd(b.ctx, &redis.XAddArgs{Stream: stream, Values: []any{field, body}}).Err()
	})
}

// publish calls one from as many goroutines as the scenario says.
func (b *bench) publish(one func(body []byte) error) error {
	body := newOrder(7, 0).body()
	var group sync.WaitGroup
	errs := make(chan error, b.concurrency)
	b.begin()
	for range b.concurrency {
		group.Go(func() {
			for range b.n / b.concurrency {
				if err := one(body); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	group.Wait()
	b.end(b.n / b.concurrency * b.concurrency)
	close(errs)
	return <-errs
}

const batch = 100

func batchBare(b *bench) error {
	body := newOrder(7, 0).body()
	b.begin()
	for range b.n / batch {
		_, err := b.client.Pipelined(b.ctx, func(p redis.Pipeliner) error {
			for range batch {
				p.XAdd(b.ctx, &redis.XAddArgs{Stream: stream, Values: []any{field, body}})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	b.end(b.n / batch * batch)
	return nil
}

// listBare pops a hundred items at a time: a crash loses what is in hand.
func listBare(b *bench) error {
	if err := b.fillList(); err != nil {
		return err
	}
	b.begin()
	for left := b.n; left > 0; {
		items, err := b.client.RPopCount(b.ctx, stream, 100).Result()
		if err != nil {
			return err
		}
		for _, item := range items {
			var o order
			if err := json.Unmarshal([]byte(item), &o); err != nil {
				return err
			}
			left--
		}
	}
	b.end(b.n)
	return nil
}

func (b *bench) fillList() error {
	body := newOrder(7, 0).body()
	return b.pipelined(b.n, func(p redis.Pipeliner, _ int) { p.LPush(b.ctx, stream, body) })
}
