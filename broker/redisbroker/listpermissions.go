package redisbroker

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// refusedCommands asks the server which of the commands the user may not run (redis.acl_check_cmd), because taking from a
// list cannot be tried without leaving a trace.
func refusedCommands(ctx context.Context, client redis.UniversalClient, needs [][]string) ([]string, error) {
	args := permittedScript.args(4 * len(needs))
	for _, words := range needs {
		args = append(args, len(words))
		for _, word := range words {
			args = append(args, word)
		}
	}
	reply, err := run(ctx, client, args)
	if err != nil {
		return nil, fmt.Errorf("asking for the user's permissions: %w", err)
	}
	indexes, _ := reply.([]any)
	var refused []string
	for _, index := range indexes {
		i, _ := index.(int64)
		if i < 1 || int(i) > len(needs) {
			return nil, errReply
		}
		words := needs[i-1]
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
	if err != nil || len(refused) == 0 {
		return err
	}
	return fmt.Errorf("the user lacks permissions that the subscription needs (docs/reliability.md lists all): %s", strings.Join(refused, "; "))
}

func (l *list) checkPermissions(ctx context.Context) error {
	key := l.source.Key
	needs := [][]string{{"BLMPOP", "1", "1", key, "RIGHT"}, {"LPUSH", key, ""}, {"RPUSH", key, ""}}
	if l.config.DeadLetter != "" {
		needs = append(needs, []string{"LPUSH", l.config.DeadLetter, ""}, []string{"TIME"})
	}
	return requireCommands(ctx, l.client, needs)
}

func (l *reliableList) checkPermissions(ctx context.Context) error {
	key, owners, numbers, set := l.source.Key, l.base+ownersKind, l.settledKey(), l.deferred
	needs := [][]string{
		{"LPUSH", key, ""},
		{"TIME"},
		{"ZADD", set, "NX", "0", ""},
		{"ZRANGE", set, "0", "0"},
		{"ZRANGEBYSCORE", set, "-inf", "-inf"},
		{"ZSCORE", set, ""},
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
	return requireCommands(ctx, l.client, needs)
}
