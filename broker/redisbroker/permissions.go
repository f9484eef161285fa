package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// checkPermissions tries every command that the subscription will need, each in a form that changes nothing, and
// returns one error that names all that the server's access control refuses. Without it a restricted user would start
// well and fail at the first message that needs the command.
func (s *subscription) checkPermissions(ctx context.Context) error {
	stream, group := s.source.Key, s.source.Group
	tries := [][]any{
		// After the last id but one nothing is pending; what is would be counted as delivered once more. The very last one is how
		// the server writes ">" to itself, and would take a new entry.
		{"XREADGROUP", "GROUP", group, s.consumer, "COUNT", 1, "STREAMS", stream, "18446744073709551615-18446744073709551614"},
		{"XACK", stream, group, "0-0"},
		{"XPENDING", stream, group, "-", "+", 1},
		{"XCLAIM", stream, group, s.consumer, 0, "0-0", "JUSTID"},
		{"XRANGE", stream, "-", "-", "COUNT", 1},
		{"XINFO", "CONSUMERS", stream, group},
		{"XINFO", "GROUPS", stream},
		{"XINFO", "STREAM", stream},
		{"XGROUP", "DELCONSUMER", stream, group, s.consumer + "~nobody"},
		{"GET", s.alive.key},
		{"EXISTS", s.alive.key},
		{"PEXPIRE", s.alive.key, milliseconds(s.alive.ttl)},
		{"SET", judgeKey(s.source), "", "XX", "PX", 1},
		{"DEL", base(stream) + ":probe"},
		{"TIME"},
	}
	if !s.source.Foreign {
		// No entry can have this id, so that nothing is added.
		tries = append(tries, []any{"XADD", stream, "NOMKSTREAM", "0-0", "f", "v"})
	}
	if set := s.source.DelaySet; set != "" {
		tries = append(tries,
			[]any{"ZADD", set, "XX", 0, ""},
			[]any{"ZRANGE", set, 0, 0},
			[]any{"ZRANGEBYSCORE", set, "-inf", "-inf"},
			[]any{"ZMSCORE", set, ""},
			[]any{"ZREM", set, ""},
			[]any{"PTTL", set},
			[]any{"PEXPIREAT", base(stream) + ":probe", 1},
			[]any{"PERSIST", base(stream) + ":probe"},
		)
	}
	if s.config.DeadLetter != "" {
		tries = append(tries, []any{"XADD", s.config.DeadLetter, "NOMKSTREAM", "0-0", "f", "v"})
	}
	trimmed := slices.Sorted(maps.Keys(s.config.Letters))
	if !s.config.Retain.Keeps() {
		trimmed = append(trimmed, stream)
	}
	for _, key := range trimmed {
		tries = append(tries, []any{"XLEN", key}, []any{"XTRIM", key, "MINID", "0-0"}, []any{"XRANGE", key, "-", "-", "COUNT", 1})
	}
	commands := make([]*redis.Cmd, len(tries))
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, try := range tries {
			commands[i] = p.Do(ctx, try...)
		}
		return nil
	})
	if err != nil && !isRefused(err) && !errors.Is(err, redis.Nil) {
		return err
	}
	var refused []string
	for _, c := range commands {
		if err := c.Err(); err != nil && strings.HasPrefix(err.Error(), "NOPERM") {
			refused = append(refused, fmt.Sprintf("%s %v: %v", c.Args()[0], c.Args()[min(1, len(c.Args())-1)], err))
		}
	}
	return refusal(refused)
}

// refusal is the error that names all that the server's access control refuses, nil for nothing.
func refusal(refused []string) error {
	if len(refused) == 0 {
		return nil
	}
	return fmt.Errorf("the user lacks permissions that the subscription needs (docs/reliability.md lists all): %s", strings.Join(refused, "; "))
}

// lackingCommands asks the server which of the commands the user may not run (redis.acl_check_cmd): taking from a list and
// publishing cannot be tried without leaving a trace.
func lackingCommands(ctx context.Context, client redis.UniversalClient, needs [][]string) (lacking [][]string, err error) {
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
	for _, index := range indexes {
		i, _ := index.(int64)
		if i < 1 || int(i) > len(needs) {
			return nil, errReply
		}
		lacking = append(lacking, needs[i-1])
	}
	return lacking, nil
}
