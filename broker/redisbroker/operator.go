package redisbroker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// Operator is a server as those see it who run it: what subscriptions keep there besides the messages themselves, under
// keys and in encodings that only this package knows. Tools are made of it, streamctl is one; a service needs none. It
// takes no part in any group and writes only where a method says so. Keys are full keys: the broker's KeyPrefix is not
// put before them. It is safe for concurrent use, and ends with its broker.
type Operator struct {
	client redis.UniversalClient
	broker *Broker
}

// Operator connects (PING) and returns the broker's server as its operators see it.
func (b *Broker) Operator(ctx context.Context) (*Operator, error) {
	client, err := b.pool()
	if err != nil {
		return nil, err
	}
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, fmt.Errorf("redis at %s does not answer: %w", b.Address(), err)
	}
	return &Operator{client: client, broker: b}, nil
}

// Client is the broker's own client for everything but blocking reads. It sends no command a second time after a network
// error. It is not the caller's to close.
func (o *Operator) Client() redis.UniversalClient { return o.client }

// EachServer calls f for every server that keeps keys: one, or the masters of a cluster, side by side. It returns the
// first error.
func (o *Operator) EachServer(ctx context.Context, f func(ctx context.Context, server *redis.Client) error) error {
	return everyNode(ctx, o.client, f)
}

// ServerOf is the server that keeps the key.
func (o *Operator) ServerOf(ctx context.Context, key string) (*redis.Client, error) {
	return route{o.client, key}.node(ctx, false)
}

// Entries returns at most n entries of the stream with ids from first to last, both as XRANGE takes them, the oldest first
// (XRANGE), or the newest first where backwards (XREVRANGE). Repeated field names are kept.
func (o *Operator) Entries(ctx context.Context, stream, first, last string, n int, backwards bool) ([]*broker.Delivery, error) {
	args := []any{"XRANGE", stream, first, last, "COUNT", n}
	if backwards {
		args = []any{"XREVRANGE", stream, last, first, "COUNT", n}
	}
	data, err := rawReply(ctx, o.client, args)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", args[0], stream, err)
	}
	return parseRange(data)
}

// OpenMessage takes a message apart as it stands in a list or is published on a channel. It cannot fail: what is wrong with
// the message is the delivery's Fault.
func (o *Operator) OpenMessage(data []byte) *broker.Delivery { return envelopeDelivery("", data) }

// Living is a consumer that shows that it is alive.
type Living struct {
	// Group is "" for a reader of a list.
	Group, Consumer string
	// Left is how long its key lasts unless it is prolonged.
	Left time.Duration
}

// aliveKind stands between a key's base and the group in a liveness key.
const aliveKind = ":alive:"

// Living returns the consumers of the stream or reliable list that are alive, those included that XINFO CONSUMERS does not
// list because they were given nothing yet. It goes through all keys of the server (SCAN).
func (o *Operator) Living(ctx context.Context, key string) ([]Living, error) {
	server, err := o.ServerOf(ctx, key)
	if err != nil {
		return nil, err
	}
	prefix := base(key) + aliveKind
	var keys []string
	seen := make(map[string]bool) // SCAN may return a key twice
	scan := server.Scan(ctx, 0, globLiteral(prefix)+"*", scanCount).Iterator()
	for scan.Next(ctx) {
		if k := scan.Val(); !seen[k] {
			seen[k] = true
			keys = append(keys, k)
		}
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("SCAN: %w", err)
	}
	left, err := expiries(ctx, server, keys)
	if err != nil {
		return nil, err
	}
	var living []Living
	for i, k := range keys {
		if l, ok := livingOf(strings.TrimPrefix(k, prefix), left[i]); ok {
			living = append(living, l)
		}
	}
	return living, nil
}

// livingOf reads what stands behind a liveness key's prefix: the group and, behind the last colon, the consumer, whose name
// holds none.
func livingOf(text string, left time.Duration) (Living, bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 || left == keyMissing {
		return Living{}, false
	}
	return Living{Group: text[:i], Consumer: text[i+1:], Left: max(left, 0)}, true
}

// keyMissing is what PTTL answers for a key that is not there, as go-redis returns it.
const keyMissing = -2 * time.Nanosecond

// expiries returns the PTTL of each key.
func expiries(ctx context.Context, client redis.Cmdable, keys []string) ([]time.Duration, error) {
	left := make([]time.Duration, 0, len(keys))
	for len(keys) > 0 {
		n := min(len(keys), scanCount)
		var commands []*redis.DurationCmd
		_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, k := range keys[:n] {
				commands = append(commands, p.PTTL(ctx, k))
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("PTTL: %w", err)
		}
		for _, c := range commands {
			left = append(left, c.Val())
		}
		keys = keys[n:]
	}
	return left, nil
}

// KnowsClaim asks the server whether XREADGROUP has CLAIM (Redis 8.4 and later). Nothing is read or changed.
func (o *Operator) KnowsClaim(ctx context.Context) (bool, error) {
	return knowsClaim(ctx, o.client, "millrace:probe", "probe", "probe")
}
