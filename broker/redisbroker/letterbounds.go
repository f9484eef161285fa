package redisbroker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// expireItems is how many items of a list are looked at in one step.
const expireItems = 100

// letterBounds keeps dead letters within their bounds, and counts what that removes. Safe for concurrent use.
type letterBounds struct {
	client redis.UniversalClient
	config broker.Config
	// list: the dead letters are lists.
	list bool
	// full are the keys that have reached their bound.
	full sync.Map
}

func newLetterBounds(client redis.UniversalClient, config broker.Config, list bool) *letterBounds {
	return &letterBounds{client: client, config: config, list: list}
}

// last is how many of its newest records a dead letter keeps, 0 for any number.
func (l *letterBounds) last(key string) int64 { return l.config.Letters[key].Last }

// call is the script call that bounds a dead letter where the script that buries cannot.
func (l *letterBounds) call(key string) []any {
	list := "0"
	if l.list {
		list = "1"
	}
	return append(boundLettersScript.args(2, key), list, l.last(key))
}

// bound removes records that are too many, some at a time, and returns whether there may be more of them.
func (l *letterBounds) bound(ctx context.Context, key string) (more bool, err error) {
	if l.last(key) == 0 {
		return false, nil
	}
	reply, err := run(ctx, l.client, l.call(key))
	if err != nil {
		return false, fmt.Errorf("bounding the dead letter %q: %w", key, err)
	}
	return l.removed(key, reply), nil
}

// removed notes the reply of a script that has bounded a dead letter: how many records it removed. It returns whether that
// were any.
func (l *letterBounds) removed(key string, reply any) bool {
	n, _ := reply.(int64)
	if n == 0 {
		return false
	}
	l.config.Trimmed(key, n)
	if _, before := l.full.Swap(key, true); !before {
		l.config.Logger.Warn("the dead letter has reached its bound: its oldest records are removed from now on",
			"dead_letter", key, "keeps", l.config.Letters[key].String())
	}
	return true
}

// expire removes records of a list that are older than they may become, by the time of their burial and the server's clock,
// the oldest first. What is no dead letter stays.
func (l *letterBounds) expire(ctx context.Context, key string, age time.Duration) error {
	for {
		now, err := l.client.Time(ctx).Result()
		if err != nil {
			return fmt.Errorf("the age of the dead letters in %q: TIME: %w", key, err)
		}
		oldest, err := l.client.LRange(ctx, key, -expireItems, -1).Result()
		if err != nil {
			return fmt.Errorf("the age of the dead letters in %q: LRANGE: %w", key, err)
		}
		var removed []*redis.IntCmd
		_, err = l.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, item := range oldest {
				var d broker.Delivery
				openDelivery(&d, "", []byte(item))
				if d.Burial != nil && !d.Burial.At.IsZero() && now.Sub(d.Burial.At) > age {
					removed = append(removed, p.LRem(ctx, key, -1, item))
				}
			}
			return nil
		})
		var n int64
		for _, r := range removed {
			n += r.Val()
		}
		if n > 0 {
			l.config.Trimmed(key, n)
		}
		if err != nil {
			return fmt.Errorf("removing old dead letters from %q: LREM: %w", key, err)
		}
		if len(removed) < expireItems {
			return nil
		}
	}
}
