package redisbroker

import (
	"context"
	"fmt"
	"strings"
)

// createGroup is XGROUP CREATE, which a group that exists is no error for.
func (s *subscription) createGroup(ctx context.Context, start string) error {
	err := s.client.XGroupCreateMkStream(ctx, s.source.Key, s.source.Group, start).Err()
	if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return fmt.Errorf("XGROUP CREATE %s: %w", s.source.Group, err)
	}
	return nil
}

// lost notes that the group is gone, so that it is made again before the next read.
func (s *subscription) lost(err error) error {
	if isNoGroup(err) {
		s.regroup.Store(true)
	}
	return err
}

// recreateGroup makes the group again where this process last saw it, if the stream still stands, and else at the
// stream's start: nothing published since is skipped. What was pending is put back.
func (s *subscription) recreateGroup(ctx context.Context) error {
	start := "0"
	last, given := s.given.get()
	if last != "" {
		survived, err := s.streamSurvived(ctx, last, given)
		if err != nil {
			return err
		}
		if survived {
			start = last
		} else {
			s.given.forget()
		}
	}
	if err := s.createGroup(ctx, start); err != nil {
		return err
	}
	s.log.Warn("the consumer group was gone; made it again", "stream", s.source.Key, "group", s.source.Group, "start", start)
	if err := s.keeper.putBack(ctx); err != nil {
		return err
	}
	s.regroup.Store(false)
	return nil
}

// streamSurvived tells whether the stream is the one that this process was given entries of, or another one under the
// same key: that one has not come as far, or holds fewer entries than were given out here.
func (s *subscription) streamSurvived(ctx context.Context, last string, given int64) (bool, error) {
	info, err := s.client.XInfoStream(ctx, s.source.Key).Result()
	if isRefused(err) {
		return false, nil // no such key
	}
	if err != nil {
		return false, err
	}
	if compareIDs(info.LastGeneratedID, last) < 0 {
		return false, nil
	}
	// The embedded server does not count what was added.
	return info.EntriesAdded == 0 || info.EntriesAdded >= given, nil
}
