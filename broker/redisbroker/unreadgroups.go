package redisbroker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

const (
	// silentReader is how long a consumer that shows no sign of life of ours may be silent and still be taken for a reader of
	// its group.
	silentReader = 5 * time.Minute
	// unreadLooks is how many looks in a row have to find a group without readers before it is told: a deployment takes less.
	unreadLooks = 2
)

// unreadGroups tells of groups that nobody reads and that keep entries of the stream from being removed, once when it begins
// and once when it is over. It belongs to one goroutine.
type unreadGroups struct {
	client redis.UniversalClient
	source broker.Source
	log    *slog.Logger
	// looks counts by group how many looks in a row found it without readers.
	looks map[string]int
}

func newUnreadGroups(client redis.UniversalClient, config broker.Config) *unreadGroups {
	return &unreadGroups{client: client, source: config.Source, log: config.Logger, looks: make(map[string]int)}
}

// look takes note of the groups that are behind now.
func (u *unreadGroups) look(ctx context.Context, groups []behind) error {
	unread := make(map[string]bool)
	for _, g := range groups {
		read := g.group == u.source.Group
		if !read {
			var err error
			if read, err = u.isRead(ctx, g.group); err != nil {
				return err
			}
		}
		if read {
			continue
		}
		unread[g.group] = true
		u.looks[g.group]++
		if u.looks[g.group] == unreadLooks {
			u.log.Warn("nobody reads a group of the stream, and nothing that it needs is removed; start its readers, or remove the group if it is not needed any more",
				"stream", u.source.Key, "group", g.group, "needs", g.needs, "pending", g.pending,
				"remedy", fmt.Sprintf("XGROUP DESTROY %s %s", u.source.Key, g.group))
		}
	}
	for group, n := range u.looks {
		if unread[group] {
			continue
		}
		delete(u.looks, group)
		if n >= unreadLooks {
			u.log.Info("the group of the stream that nobody read does not keep entries any more", "stream", u.source.Key, "group", group)
		}
	}
	return nil
}

// isRead reports whether the group has a consumer that lives: one that holds a liveness key or, since others than this
// library hold none, one that was active not long ago. The embedded server does not know that of all, and says -1.
func (u *unreadGroups) isRead(ctx context.Context, group string) (bool, error) {
	consumers, err := u.client.XInfoConsumers(ctx, u.source.Key, group).Result()
	if isNoGroup(err) {
		return true, nil // it was removed just now
	}
	if err != nil || len(consumers) == 0 {
		return false, err
	}
	source := u.source
	source.Group = group
	keys := make([]string, len(consumers))
	for i, c := range consumers {
		if c.Idle >= 0 && c.Idle < silentReader {
			return true, nil
		}
		keys[i] = alivePrefix(source) + c.Name
	}
	n, err := u.client.Exists(ctx, keys...).Result()
	return n > 0, err
}
