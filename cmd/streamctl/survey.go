package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

// survey walks through the server's keys, under the prefix.
func (s *session) survey(ctx context.Context) (*redisbroker.Survey, error) {
	total := int64(0)
	if s.draws {
		_ = s.op.EachServer(ctx, func(ctx context.Context, server *redis.Client) error {
			n, err := server.DBSize(ctx).Result()
			total = max(total, n)
			return err
		})
	}
	bar := s.progress("keys", total)
	defer bar.end()
	seen := 0
	return s.op.Survey(ctx, s.prefix, func(n int) {
		seen += n
		bar.reached(seen)
	})
}

// letterKey is a key that holds dead letters.
type letterKey struct {
	key, kind      string
	records        int64
	oldest, newest time.Time
	groups         int
}

// letterKeys are the streams and lists whose oldest or newest entry is a dead letter.
func (s *session) letterKeys(ctx context.Context, survey *redisbroker.Survey) ([]letterKey, error) {
	var found []letterKey
	for _, key := range survey.Streams {
		l, err := s.letterStream(ctx, key)
		if err != nil {
			return nil, err
		}
		if l != nil {
			found = append(found, *l)
		}
	}
	for _, key := range survey.Lists {
		l, err := s.letterList(ctx, key)
		if err != nil {
			return nil, err
		}
		if l != nil {
			found = append(found, *l)
		}
	}
	return found, nil
}

func (s *session) letterStream(ctx context.Context, key string) (*letterKey, error) {
	var ends []*broker.Delivery
	for _, backwards := range []bool{false, true} {
		entries, err := s.op.Entries(ctx, key, "-", "+", 1, backwards)
		if err != nil {
			return nil, err
		}
		ends = append(ends, entries...)
	}
	l := letterEnds(key, "stream", ends)
	if l == nil {
		return nil, nil
	}
	groups, err := s.client().XInfoGroups(ctx, key).Result()
	if err != nil {
		return nil, fmt.Errorf("XINFO GROUPS %q: %w", key, err)
	}
	l.groups = len(groups)
	l.records, err = s.client().XLen(ctx, key).Result()
	return l, err
}

func (s *session) letterList(ctx context.Context, key string) (*letterKey, error) {
	var ends []*broker.Delivery
	for _, at := range []int64{-1, 0} {
		item, err := s.client().LIndex(ctx, key, at).Bytes()
		switch {
		case isNil(err):
		case err != nil:
			return nil, fmt.Errorf("LINDEX %q: %w", key, err)
		default:
			ends = append(ends, s.op.OpenMessage(item))
		}
	}
	l := letterEnds(key, "list", ends)
	if l == nil {
		return nil, nil
	}
	var err error
	l.records, err = s.client().LLen(ctx, key).Result()
	return l, err
}

// letterEnds judges a key by its oldest and its newest entry; nil is one that holds no dead letters.
func letterEnds(key, kind string, ends []*broker.Delivery) *letterKey {
	var l *letterKey
	for _, d := range ends {
		if d.Burial == nil {
			continue
		}
		if l == nil {
			l = &letterKey{key: key, kind: kind, oldest: d.Burial.At}
		}
		l.newest = d.Burial.At
	}
	return l
}
