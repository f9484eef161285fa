// Package redisbroker reads and settles messages on Redis and Valkey through go-redis.
//
// A broker keeps three kinds of connections: one for each subscription, which its blocking reads have to themselves, and
// a pool for everything else (settling, delays, publishing), so that nothing waits behind a blocked read. No command
// that writes is sent again by the client: a settlement is repeated by us, and fenced, so that a lost reply can double
// nothing.
package redisbroker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

const (
	// defaultBlock is the longest wait of a read where the directive names none.
	defaultBlock = 5 * time.Second
	// defaultLiveness is how long a consumer may be silent before its peers may take what it holds.
	defaultLiveness = 30 * time.Second
	// freeConsumer holds what a stopping process handed back, for anyone to take.
	freeConsumer = "~free"
	// reclaimSuffix ends the names of consumers that reclaim.
	reclaimSuffix = "~reclaim"
)

// Broker is a [broker.Broker] on Redis or Valkey: one server, a server behind Sentinel, or a cluster. It is safe for
// concurrent use.
type Broker struct {
	server       server
	problems     []error
	defaultGroup string
	prefix       string
	consumer     string
	fixed        bool   // the consumer's name is the user's
	token        string // proves that a liveness key is this process's own
	liveness     time.Duration
	trimEvery    time.Duration
	trimRest     time.Duration
	connections  *connections
	published    atomic.Uint64 // numbers the members of delay sets

	mu     sync.Mutex // guards what follows; not held over I/O
	client redis.UniversalClient
	closed bool
	loaded bool
}

var _ broker.Broker = (*Broker)(nil)

// Standalone is one server, named by a URL as go-redis parses it: redis://user:password@host:port/db, rediss:// for TLS,
// unix:// for a socket. A URL that cannot be parsed is reported when the app starts, without its password.
func Standalone(address string, options ...Option) *Broker {
	parsed, err := redis.ParseURL(address)
	if err != nil {
		return unusable("Standalone", "redis://host:port", address, err, options)
	}
	return newBroker(newSingle(*parsed), options)
}

// Cluster is a Redis Cluster, named by the URL of one of its servers as go-redis parses it: redis://user:password@host:port,
// rediss:// for TLS, more servers with ?addr=host:port&addr=host:port. Any server that answers tells where the keys are. A
// URL that cannot be parsed is reported when the app starts, without its password.
//
// A settlement is one atomic step where the stream, its delay set and its dead letter share a hash tag ({orders},
// {orders}.delayed, {orders}.dlq). Where they do not, it is three steps, and a crash between them handles a message
// twice; a warning at start names such a mount.
func Cluster(address string, options ...Option) *Broker {
	parsed, err := redis.ParseClusterURL(address)
	if err = cmp.Or(readable(address), err); err != nil {
		return unusable("Cluster", "redis://host:port?addr=host:port", address, err, options)
	}
	return newBroker(newCluster(*parsed), options)
}

// Sentinel is the server that the sentinels call by this name, the master of the moment. The URL names a sentinel as
// go-redis parses it: redis://user:password@host:port/db, rediss:// for TLS, more sentinels with ?addr=host:port. User
// and password of the URL are the sentinel's; those of the server are ?username= and ?password=. Every new connection
// asks the sentinels first, so that work goes on after a failover. What the old master had not yet given its replica is
// lost with it. A URL that cannot be parsed is reported when the app starts, without its password.
func Sentinel(master, address string, options ...Option) *Broker {
	parsed, err := redis.ParseFailoverURL(address)
	if err = cmp.Or(readable(address), err); err == nil && master == "" {
		err = errors.New("the name of the master is missing")
	}
	if err != nil {
		return unusable("Sentinel", "redis://sentinel:26379?addr=sentinel2:26379", address, err, options)
	}
	parsed.MasterName = master
	return newBroker(newSentinel(*parsed), options)
}

// FromClient is the server or cluster that the client is connected to, with the client's options (addresses,
// credentials, TLS, dialer). The client itself is never used for a command and never closed: the broker makes its own
// connections from the options, because blocking reads need connections of their own and a write must not be sent twice.
// The client has to be a *redis.Client (one from redis.NewFailoverClient, too, which has to stay open as long as the
// broker: its dialer asks the sentinels) or a *redis.ClusterClient. Anything else is reported when the app starts.
func FromClient(client redis.UniversalClient, options ...Option) *Broker {
	switch c := client.(type) {
	case *redis.Client:
		if c != nil {
			return newBroker(newSingle(*c.Options()), options)
		}
	case *redis.ClusterClient:
		if c != nil {
			return newBroker(newCluster(*c.Options()), options)
		}
	}
	b := newBroker(newSingle(redis.Options{Addr: "unknown"}), options)
	b.problems = append(b.problems, fmt.Errorf("redisbroker.FromClient: %w", unsupported(client)))
	return b
}

// unsupported is what is wrong with a client of another kind.
func unsupported(client redis.UniversalClient) error {
	return fmt.Errorf("a %T is not supported; give it a *redis.Client or a *redis.ClusterClient that is not nil", client)
}

// unusable is a broker that only reports what is wrong with its URL.
func unusable(constructor, example, address string, err error, options []Option) *Broker {
	b := newBroker(newSingle(redis.Options{Addr: "unknown"}), options)
	b.problems = append(b.problems, fmt.Errorf("redisbroker.%s: the URL is not usable: %w; write %s", constructor, cmp.Or(readable(address), err), example))
	return b
}

func newBroker(server server, options []Option) *Broker {
	name := consumerName()
	b := &Broker{server: server, consumer: name, token: name, liveness: defaultLiveness, connections: new(connections)}
	b.trimEvery, b.trimRest = trimEvery, trimRest
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

// consumerOf is the name that a source is read under. One that reclaims may stand beside one that reads the same group, and
// each of the two answers for what is pending under its name.
func (b *Broker) consumerOf(source broker.Source) string {
	if source.Reclaim > 0 {
		return b.consumer + reclaimSuffix
	}
	return b.consumer
}

// Address names the server, without user or password: host:port and the database, the servers of a cluster, or the
// master's name and its sentinels.
func (b *Broker) Address() string { return b.server.address() }

// Problems returns what was wrong with the arguments of the constructor.
func (b *Broker) Problems() []error { return b.problems }

// Resolve puts the prefix before the keys and fills in the group, the block and the start.
func (b *Broker) Resolve(s broker.Source) broker.Source {
	if s.Structure == broker.StructurePattern {
		s.Key = globLiteral(b.prefix) + s.Key
	} else {
		s.Key = b.ResolveKey(s.Key)
	}
	if s.DelaySet != "" {
		s.DelaySet = b.ResolveKey(s.DelaySet)
	}
	if s.Group == "" && s.Structure == broker.StructureStream {
		s.Group = b.defaultGroup
	}
	if s.OutRetry != "" {
		s.OutRetry = b.ResolveKey(s.OutRetry)
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
func (b *Broker) pool() (redis.UniversalClient, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errors.New("the broker is closed")
	}
	if b.client == nil {
		if len(b.problems) > 0 {
			return nil, errors.Join(b.problems...)
		}
		b.client = b.server.client(b.connections)
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
	// A channel and a pattern are no keys: whatever stands under the name has nothing to do with them.
	keys = slices.DeleteFunc(slices.Clone(keys), func(k broker.KeyUse) bool { return redisTypes[k.Structure] == "" })
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
