package redisbroker

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// refusedCommands names those of the commands that the user may not run.
func refusedCommands(ctx context.Context, client redis.UniversalClient, needs [][]string) ([]string, error) {
	lacking, err := lackingCommands(ctx, client, needs)
	if err != nil {
		return nil, err
	}
	var refused []string
	for _, words := range lacking {
		text := words[0]
		if len(words) > 1 {
			text += fmt.Sprintf(" %q", words[1])
		}
		refused = append(refused, text)
	}
	return refused, nil
}

// requireCommands returns one error that names all that the server's access control refuses.
func requireCommands(ctx context.Context, client redis.UniversalClient, needs [][]string) error {
	refused, err := refusedCommands(ctx, client, needs)
	if err != nil {
		return err
	}
	return refusal(refused)
}

// boundingCommands are those that keep dead letters in lists within their bounds.
func boundingCommands(letters map[string]broker.Retention) (needs [][]string) {
	for _, key := range slices.Sorted(maps.Keys(letters)) {
		if letters[key].Last > 0 {
			needs = append(needs, []string{"LLEN", key}, []string{"LTRIM", key, "0", "0"})
		}
		if letters[key].For > 0 {
			needs = append(needs, []string{"TIME"}, []string{"LRANGE", key, "-1", "-1"}, []string{"LREM", key, "-1", ""})
		}
	}
	return needs
}

func (l *list) checkPermissions(ctx context.Context) error {
	key := l.source.Key
	needs := [][]string{{"BLMPOP", "1", "1", key, "RIGHT"}, {"LPUSH", key, ""}, {"RPUSH", key, ""}}
	if l.config.DeadLetter != "" {
		needs = append(needs, []string{"LPUSH", l.config.DeadLetter, ""}, []string{"TIME"})
	}
	return requireCommands(ctx, l.client, append(needs, boundingCommands(l.config.Letters)...))
}

func (l *reliableList) checkPermissions(ctx context.Context) error {
	key, owners, numbers, set := l.source.Key, l.base+ownersKind, l.settledKey(), l.deferred
	needs := [][]string{
		{"LPUSH", key, ""},
		{"TIME"},
		{"ZADD", set, "NX", "0", ""},
		{"ZRANGE", set, "0", "0"},
		{"ZRANGEBYSCORE", set, "-inf", "-inf"},
		{"ZMSCORE", set, ""},
		{"ZREM", set, ""},
		{"PTTL", set},
		{"PEXPIREAT", set, "1"},
		{"PERSIST", set},
		{"SADD", owners, ""},
		{"SREM", owners, ""},
		{"SMEMBERS", owners},
		{"GET", l.alive.key},
		{"SET", l.alive.key, ""},
		{"PEXPIRE", l.alive.key, "1"},
		{"DEL", l.alive.key},
		{"SET", judgeKey(l.source), ""},
		{"ZADD", numbers, "0", ""},
		{"ZSCORE", numbers, ""},
		{"ZREMRANGEBYSCORE", numbers, "-inf", "-inf"},
		{"PEXPIRE", numbers, "1"},
		{"DEL", numbers},
	}
	for _, kind := range []string{inflightKind, asideKind} {
		held := l.base + kind + l.consumer + ":" + l.token
		needs = append(needs,
			[]string{"LMOVE", key, held, "RIGHT", "LEFT"},
			[]string{"BLMOVE", key, held, "RIGHT", "LEFT", "1"},
			[]string{"LMOVE", held, key, "LEFT", "RIGHT"},
			[]string{"RPUSH", key, ""},
			[]string{"LREM", held, "1", ""},
			[]string{"LPOS", held, ""},
			[]string{"LPUSH", held, ""},
			[]string{"LPOP", held},
			[]string{"LINDEX", held, "0"},
			[]string{"LLEN", held},
			[]string{"LRANGE", held, "0", "0"},
		)
	}
	if l.config.DeadLetter != "" {
		needs = append(needs, []string{"LPUSH", l.config.DeadLetter, ""})
	}
	return requireCommands(ctx, l.client, append(needs, boundingCommands(l.config.Letters)...))
}
