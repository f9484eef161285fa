package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

// The environment variables.
const (
	envURL      = "MILLRACE_REDIS_URL"
	envURLToo   = "REDIS_URL"
	envCluster  = "MILLRACE_REDIS_CLUSTER"
	envSentinel = "MILLRACE_REDIS_SENTINEL"
	envPrefix   = "MILLRACE_KEY_PREFIX"

	defaultURL = "redis://localhost:6379"
)

// target is the server that is meant.
type target struct {
	url      string
	cluster  bool
	sentinel string
}

// broker has no key prefix: keys are full keys wherever they meet it.
func (t target) broker() (*redisbroker.Broker, error) {
	var b *redisbroker.Broker
	switch {
	case t.cluster && t.sentinel != "":
		return nil, usage("--cluster and --sentinel exclude each other; leave one out")
	case t.cluster:
		b = redisbroker.Cluster(t.url)
	case t.sentinel != "":
		b = redisbroker.Sentinel(t.sentinel, t.url)
	default:
		b = redisbroker.Standalone(t.url)
	}
	if err := errors.Join(b.Problems()...); err != nil {
		return nil, usage("%w", err)
	}
	return b, nil
}

// session is one call: its flags, and the server once it is connected.
type session struct {
	world
	target  target
	prefix  string
	json    bool
	yes     bool
	started bool // the arguments were right
	broker  *redisbroker.Broker
	op      *redisbroker.Operator
}

// configure takes what the flags leave open from the environment. What the environment says of clusters and sentinels
// belongs to its URL.
func (s *session) configure() error {
	if s.prefix == "" {
		s.prefix = s.getenv(envPrefix)
	}
	if s.target.url != "" {
		return nil
	}
	s.target.url = defaultURL
	for _, name := range []string{envURLToo, envURL} {
		if url := s.getenv(name); url != "" {
			s.target.url = url
		}
	}
	if s.target.cluster || s.target.sentinel != "" {
		return nil
	}
	s.target.sentinel = s.getenv(envSentinel)
	if text := s.getenv(envCluster); text != "" {
		cluster, err := strconv.ParseBool(text)
		if err != nil {
			return usage("%s=%q is neither true nor false", envCluster, text)
		}
		s.target.cluster = cluster
	}
	return nil
}

// connect opens the server.
func (s *session) connect(ctx context.Context) error {
	if s.op != nil {
		return nil
	}
	if err := s.configure(); err != nil {
		return err
	}
	b, err := s.open(s.target)
	if err != nil {
		return err
	}
	s.broker = b
	s.op, err = b.Operator(ctx)
	return err
}

func (s *session) close() {
	if s.broker != nil {
		_ = s.broker.Close(context.Background()) // nothing is written any more
	}
}

func (s *session) client() redis.UniversalClient { return s.op.Client() }

// key is the full key that an argument means. One that already begins with the prefix, or with the prefix in braces as
// auxiliary keys do, is taken as it is, so that what a table shows can be given back.
func (s *session) key(arg string) string {
	if strings.HasPrefix(arg, s.prefix) || strings.HasPrefix(arg, "{"+s.prefix) {
		return arg
	}
	return s.prefix + arg
}

// kinds are the structures by the names that --kind takes.
var kinds = []string{"stream", "list", "channel", "sharded"}

// destination is where a message goes: kind says what the key is; "" is what stands there, and a stream where nothing does.
func (s *session) destination(ctx context.Context, key, kind string) (broker.Destination, error) {
	if kind == "" {
		held, err := s.client().Type(ctx, key).Result()
		if err != nil {
			return broker.Destination{}, fmt.Errorf("TYPE %q: %w", key, err)
		}
		if kind = held; held == "none" {
			kind = "stream"
		}
	}
	switch kind {
	case "stream":
		return broker.Stream(key), nil
	case "list":
		return broker.List(key), nil
	case "channel":
		return broker.Channel(key), nil
	case "sharded":
		return broker.ShardedChannel(key), nil
	}
	return broker.Destination{}, failed("%q is a %s, and messages go to a stream, a list or a channel (--kind)", key, kind)
}

// checkKind refuses a --kind that there is not.
func checkKind(kind string) error {
	for _, k := range append([]string{""}, kinds...) {
		if k == kind {
			return nil
		}
	}
	return usage("--kind %s: it is one of %s", kind, strings.Join(kinds, ", "))
}
