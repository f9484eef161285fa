// Package redisbroker reads and settles messages on Redis and Valkey through go-redis.
//
// A broker keeps three kinds of connections: one for each subscription, which its blocking reads have to themselves, and
// a pool for everything else (settling, delays, publishing), so that nothing waits behind a blocked read. No command
// that writes is sent again by the client: a settlement is repeated by us, and fenced, so that a lost reply can double
// nothing.
package redisbroker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/millrace-go/millrace/broker"
)

const (
	// defaultBlock is the longest wait of a read where the directive names none.
	defaultBlock = 5 * time.Second
	// defaultLiveness is how long a consumer may be silent before its peers may take what it holds.
	defaultLiveness = 30 * time.Second
	// freeConsumer holds what a stopping process handed back, for anyone to take.
	freeConsumer = "~free"
)

// Broker is a [broker.Broker] on one Redis or Valkey server. It is safe for concurrent use.
type Broker struct {
	base         *redis.Options
	problems     []error
	defaultGroup string
	prefix       string
	consumer     string
	fixed        bool   // the consumer's name is the user's
	token        string // proves that a liveness key is this process's own
	liveness     time.Duration
	connections  *connections

	mu     sync.Mutex // guards what follows; not held over I/O
	client *redis.Client
	closed bool
	loaded bool
}

var _ broker.Broker = (*Broker)(nil)

// Standalone is one server, named by a URL as go-redis parses it: redis://user:password@host:port/db, rediss:// for TLS,
// unix:// for a socket. A URL that cannot be parsed is reported when the app starts, without its password.
func Standalone(address string, options ...Option) *Broker {
	base, err := redis.ParseURL(address)
	if err != nil {
		b := newBroker(&redis.Options{Addr: "unknown"}, options)
		b.problems = append(b.problems, fmt.Errorf("redisbroker.Standalone: the URL is not usable: %w; write redis://host:port", withoutSecret(err)))
		return b
	}
	return newBroker(base, options)
}

// FromClient is the server that the client is connected to, with the client's options (address, credentials, TLS,
// dialer). The client itself is never used for a command and never closed: the broker makes its own connections from
// the options, because blocking reads need connections of their own and a write must not be sent twice. The client has
// to be a *redis.Client.
func FromClient(client redis.UniversalClient, options ...Option) *Broker {
	single, ok := client.(*redis.Client)
	if !ok || single == nil {
		b := newBroker(&redis.Options{Addr: "unknown"}, options)
		b.problems = append(b.problems, fmt.Errorf("redisbroker.FromClient: %T is not supported; give it a *redis.Client", client))
		return b
	}
	base := *single.Options()
	return newBroker(&base, options)
}

func newBroker(base *redis.Options, options []Option) *Broker {
	// A settlement whose reply was lost is repeated by us, after a look at what it did; the client must not do it.
	base.MaxRetries = -1
	// One attempt a dial: waiting and trying again is the caller's, who knows when to stop.
	base.DialerRetries = 1
	base.ContextTimeoutEnabled = true
	base.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	base.Dialer = dialer(base)
	name := consumerName()
	b := &Broker{base: base, consumer: name, token: name, liveness: defaultLiveness, connections: new(connections)}
	for _, o := range options {
		o.apply(b)
	}
	return b
}

// consumerName is unique to this start of the process: nobody else's pending entries are ever ours.
func consumerName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "host"
	}
	// A colon would end the name in the keys that carry it.
	host = strings.ReplaceAll(host, ":", "-")
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:10]))
}

// withoutSecret drops the URL that net/url puts into its errors.
func withoutSecret(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		return parse.Err
	}
	return err
}

// Address returns host:port and the database, without user or password.
func (b *Broker) Address() string {
	if b.base.DB != 0 {
		return fmt.Sprintf("%s/%d", b.base.Addr, b.base.DB)
	}
	return b.base.Addr
}

// Problems returns what was wrong with the arguments of the constructor.
func (b *Broker) Problems() []error { return b.problems }

// Resolve puts the prefix before the keys and fills in the group, the block and the start.
func (b *Broker) Resolve(s broker.Source) broker.Source {
	s.Key = b.ResolveKey(s.Key)
	if s.DelaySet != "" {
		s.DelaySet = b.ResolveKey(s.DelaySet)
	}
	if s.Group == "" {
		s.Group = b.defaultGroup
	}
	if s.Block == 0 {
		s.Block = defaultBlock
	}
	if s.Start == "" {
		s.Start = "0"
	}
	return s
}

// ResolveKey puts the prefix before the key.
func (b *Broker) ResolveKey(key string) string { return b.prefix + key }

// pool returns the client for everything but blocking reads, made at the first use.
func (b *Broker) pool() (*redis.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errors.New("the broker is closed")
	}
	if b.client == nil {
		if len(b.problems) > 0 {
			return nil, errors.Join(b.problems...)
		}
		options := *b.base
		options.Dialer = b.connections.dialer(options.Dialer)
		b.client = redis.NewClient(&options)
	}
	return b.client, nil
}

// Connect sends a PING and loads the scripts (SCRIPT LOAD).
func (b *Broker) Connect(ctx context.Context) error {
	client, err := b.pool()
	if err != nil {
		return err
	}
	b.mu.Lock()
	loaded := b.loaded
	b.mu.Unlock()
	if loaded {
		return nil
	}
	if err := client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis at %s does not answer: %w", b.Address(), err)
	}
	if err := loadScripts(ctx, client); err != nil {
		return fmt.Errorf("redis at %s: SCRIPT LOAD: %w", b.Address(), err)
	}
	b.mu.Lock()
	b.loaded = true
	b.mu.Unlock()
	return nil
}

// Inspect asks for the TYPE of every key, in one round trip.
func (b *Broker) Inspect(ctx context.Context, keys []broker.KeyUse) []error {
	client, err := b.pool()
	if err != nil {
		return []error{err}
	}
	types := make([]*redis.StatusCmd, len(keys))
	_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, k := range keys {
			types[i] = p.Type(ctx, k.Key)
		}
		return nil
	})
	if err != nil && !isRefused(err) {
		return []error{fmt.Errorf("redis at %s: TYPE: %w", b.Address(), err)}
	}
	var problems []error
	for i, k := range keys {
		held, err := types[i].Result()
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("%s: %s %q at %s: TYPE: %w", k.Mount, k.Role, k.Key, b.Address(), err))
		case held != "none" && held != redisTypes[k.Structure]:
			problems = append(problems, fmt.Errorf("%s: %s %q at %s is a %s, not a %s; name another key, or remove what stands there",
				k.Mount, k.Role, k.Key, b.Address(), held, k.Structure))
		}
	}
	return problems
}

// redisTypes is what TYPE answers for each structure that is a key.
var redisTypes = map[broker.Structure]string{
	broker.StructureStream:    "stream",
	broker.StructureList:      "list",
	broker.StructureSortedSet: "zset",
}

// Close ends the broker's own connections. A client that was given to FromClient stays open.
func (b *Broker) Close(context.Context) error {
	b.mu.Lock()
	client := b.client
	b.client, b.closed = nil, true
	b.mu.Unlock()
	if client == nil {
		return nil
	}
	return client.Close()
}
