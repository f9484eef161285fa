package redisbroker

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// CountTrips counts what the broker's client sends from now on: round trips and commands.
func CountTrips(b *Broker) func() (trips, commands int64) {
	c := new(tripCounter)
	client, err := b.pool()
	if err != nil {
		panic(err)
	}
	client.AddHook(c)
	return func() (int64, int64) { return c.trips.Load(), c.commands.Load() }
}

type tripCounter struct{ trips, commands atomic.Int64 }

func (c *tripCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *tripCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.trips.Add(1)
		c.commands.Add(1)
		return next(ctx, cmd)
	}
}

func (c *tripCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.trips.Add(1)
		c.commands.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}
