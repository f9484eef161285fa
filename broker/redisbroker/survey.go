package redisbroker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// scanCount is how many keys one step of SCAN looks at, and how many are asked about in one round trip.
const scanCount = 1000

// Survey is what one walk through all keys of a server found. Auxiliary keys of the library are not among the lists and
// streams.
type Survey struct {
	// Streams, Lists and DelaySets are full keys, sorted. A sorted set is a delay set where its first member is a delayed
	// message.
	Streams, Lists, DelaySets []string

	mu      sync.Mutex // guards everything while the servers of a cluster are walked through side by side
	living  map[string][]Living
	owners  map[string]bool
	visited map[string]bool
}

// Living returns the consumers of the stream or reliable list that were alive when the walk met their keys.
func (s *Survey) Living(key string) []Living { return s.living[base(key)] }

// ReliableLists are the lists that have a registry of owners, sorted, even where all their items are in flight.
func (s *Survey) ReliableLists() []string {
	var lists []string
	for base := range s.owners {
		// A base in braces is that of a key without them, unless there is one that has them.
		key := base
		if inner := strings.TrimSuffix(strings.TrimPrefix(base, "{"), "}"); len(inner) == len(base)-2 && !slices.Contains(s.Lists, base) {
			key = inner
		}
		lists = append(lists, key)
	}
	slices.Sort(lists)
	return lists
}

// Survey walks through the keys that begin with the prefix, and those of the library that belong to them (SCAN, TYPE). The
// server answers others meanwhile. seen, unless nil, is told after each step how many keys were looked at; it is called
// from one goroutine at a time.
func (o *Operator) Survey(ctx context.Context, prefix string, seen func(keys int)) (*Survey, error) {
	s := &Survey{living: make(map[string][]Living), owners: make(map[string]bool), visited: make(map[string]bool)}
	err := o.EachServer(ctx, func(ctx context.Context, server *redis.Client) error {
		return s.walk(ctx, server, prefix, seen)
	})
	if err != nil {
		return nil, fmt.Errorf("redis at %s: going through its keys: %w", o.broker.Address(), err)
	}
	for _, keys := range []*[]string{&s.Streams, &s.Lists, &s.DelaySets} {
		slices.Sort(*keys)
	}
	return s, nil
}

// Keys returns at most n keys of that structure that begin with the prefix, sorted, the library's own lists left out (SCAN).
// A sorted set is a key of [broker.StructureSortedSet] whatever it holds.
func (o *Operator) Keys(ctx context.Context, prefix string, structure broker.Structure, n int) ([]string, error) {
	var mu sync.Mutex
	var found []string
	err := o.EachServer(ctx, func(ctx context.Context, server *redis.Client) error {
		scan := server.ScanType(ctx, 0, globLiteral(prefix)+"*", scanCount, redisTypes[structure]).Iterator()
		for scan.Next(ctx) {
			mu.Lock()
			if !auxiliaryList(scan.Val()) {
				found = append(found, scan.Val())
			}
			enough := len(found) >= 2*n // SCAN may return a key twice
			mu.Unlock()
			if enough {
				break
			}
		}
		return scan.Err()
	})
	slices.Sort(found)
	found = slices.Compact(found)
	return found[:min(len(found), n)], err
}

func (s *Survey) walk(ctx context.Context, server *redis.Client, prefix string, seen func(int)) error {
	cursor := uint64(0)
	for {
		keys, next, err := server.Scan(ctx, cursor, "", scanCount).Result()
		if err != nil {
			return err
		}
		n := len(keys)
		keys = slices.DeleteFunc(keys, func(key string) bool {
			// The base of a key is the key itself or the key in braces.
			return !strings.HasPrefix(strings.TrimPrefix(key, "{"), strings.TrimPrefix(prefix, "{"))
		})
		if err := s.visit(ctx, server, keys); err != nil {
			return err
		}
		s.mu.Lock()
		if seen != nil {
			seen(n)
		}
		s.mu.Unlock()
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// auxiliaryList tells that a list is the in-flight list of a reliable one, or the one beside it.
func auxiliaryList(key string) bool {
	return strings.Contains(key, inflightKind) || strings.Contains(key, asideKind)
}

// visit asks what the keys are. SCAN may return one twice.
func (s *Survey) visit(ctx context.Context, server *redis.Client, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	types := make([]*redis.StatusCmd, len(keys))
	_, err := server.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			types[i] = p.Type(ctx, key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var sets, alive []string
	s.mu.Lock()
	for i, key := range keys {
		kind := types[i].Val()
		switch {
		case kind != "stream" && kind != "list" && kind != "zset" && kind != "string" && kind != "set", s.visited[key]:
			continue
		case kind == "string" && strings.Contains(key, aliveKind):
			alive = append(alive, key)
		case kind == "set" && strings.HasSuffix(key, ownersKind):
			s.owners[strings.TrimSuffix(key, ownersKind)] = true
		case kind == "stream":
			s.Streams = append(s.Streams, key)
		case kind == "list" && !auxiliaryList(key):
			s.Lists = append(s.Lists, key)
		case kind == "zset":
			sets = append(sets, key)
		default:
			continue
		}
		s.visited[key] = true
	}
	s.mu.Unlock()
	if err := s.visitSets(ctx, server, sets); err != nil {
		return err
	}
	return s.visitLiving(ctx, server, alive)
}

func (s *Survey) visitSets(ctx context.Context, server *redis.Client, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	firsts := make([]*redis.StringSliceCmd, len(keys))
	_, err := server.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			firsts[i] = p.ZRange(ctx, key, 0, 0)
		}
		return nil
	})
	if err != nil && !isReply(err) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, key := range keys {
		if first := firsts[i].Val(); len(first) > 0 && IsDelayed([]byte(first[0])) {
			s.DelaySets = append(s.DelaySets, key)
		}
	}
	return nil
}

func (s *Survey) visitLiving(ctx context.Context, server *redis.Client, keys []string) error {
	left, err := expiries(ctx, server, keys)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, key := range keys {
		// The base ends where the kind stands for the first time.
		base, rest, _ := strings.Cut(key, aliveKind)
		if l, ok := livingOf(rest, left[i]); ok {
			s.living[base] = append(s.living[base], l)
		}
	}
	return nil
}
