package redisbroker

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

var _ broker.LetterBroker = (*Broker)(nil)

// Letters opens the dead letter at that full key (TYPE). See [broker.LetterBroker].
func (b *Broker) Letters(ctx context.Context, key string, missing broker.Structure) (broker.Letters, error) {
	client, err := b.pool()
	if err != nil {
		return nil, err
	}
	held, err := client.Type(ctx, key).Result()
	if err != nil {
		return nil, fmt.Errorf("dead letter %q at %s: TYPE: %w", key, b.Address(), err)
	}
	l := letters{client: client, key: key, address: b.Address()}
	if held == "none" {
		if missing == 0 {
			return nil, fmt.Errorf("dead letter %q at %s: %w; check its name, the broker's KeyPrefix and the database: "+
				"either nothing was ever buried there, or it is a channel, which keeps nothing", key, b.Address(), broker.ErrNoLetters)
		}
		held = redisTypes[missing]
	}
	switch held {
	case redisTypes[broker.StructureStream]:
		return &streamLetters{l}, nil
	case redisTypes[broker.StructureList]:
		return &listLetters{l}, nil
	}
	return nil, fmt.Errorf("dead letter %q at %s is a %s, and dead letters stand in a stream or a list; name the key that DeadLetter of the mount names",
		key, b.Address(), held)
}

// letters are what the dead letters of both structures have in common.
type letters struct {
	client  redis.UniversalClient
	key     string
	address string
}

func (l *letters) Now(ctx context.Context) (time.Time, error) {
	now, err := l.client.Time(ctx).Result()
	return now, l.failed("TIME", err)
}

// failed says which command on which dead letter failed.
func (l *letters) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("dead letter %q at %s: %s: %w", l.key, l.address, what, err)
}

// addBatch is how many records, and how many bytes of them, one pipeline writes at most.
const (
	addBatch = 500
	addBytes = 4 << 20
)

// add writes records in pipelines, in their order. It stops at the first that fails, after its pipeline.
func (l *letters) add(ctx context.Context, records []*broker.Letter, command func(*broker.Letter) ([]any, error)) (written int, err error) {
	for len(records) > 0 {
		pipe, bytes := l.client.Pipeline(), 0
		var commands []*redis.Cmd
		for _, r := range records {
			if len(commands) == addBatch || bytes > addBytes {
				break
			}
			args, problem := command(r)
			if problem != nil {
				err = problem
				break
			}
			commands = append(commands, pipe.Do(ctx, args...))
			bytes += r.Size()
		}
		if len(commands) > 0 {
			_, _ = pipe.Exec(ctx) // each command has its own error
		}
		for _, c := range commands {
			if c.Err() != nil {
				return written, l.failed("writing a record", c.Err())
			}
			written++
		}
		if err != nil {
			return written, l.failed("writing a record", err)
		}
		records = records[len(commands):]
	}
	return written, nil
}
