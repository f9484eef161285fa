package redisbroker

import (
	"context"
	"fmt"
	"strings"
)

// checkPermissions asks the server what the subscription needs and the user may not do (redis.acl_check_cmd), because no
// way of trying to publish leaves no trace.
func (c *channel) checkPermissions(ctx context.Context) error {
	needs := [][]string{{c.receiver.command(), c.source.Key}}
	publish := func(name string) { needs = append(needs, []string{c.publish(), name, ""}) }
	if c.config.DeadLetter != "" {
		publish(c.config.DeadLetter)
		needs = append(needs, []string{"TIME"})
	}
	if out := c.copiesTo(); out != "" {
		publish(out)
	}
	args := permittedScript.args(4 * len(needs))
	for _, words := range needs {
		args = append(args, len(words))
		for _, word := range words {
			args = append(args, word)
		}
	}
	reply, err := run(ctx, c.client, args)
	if err != nil {
		return fmt.Errorf("asking for the user's permissions: %w", err)
	}
	indexes, _ := reply.([]any)
	var refused []string
	for _, index := range indexes {
		i, _ := index.(int64)
		if i < 1 || int(i) > len(needs) {
			return errReply
		}
		refused = append(refused, strings.TrimSpace(strings.Join(needs[i-1], " ")))
	}
	if len(refused) == 0 {
		return nil
	}
	return fmt.Errorf("the user lacks permissions that the subscription needs (docs/reliability.md lists all): %s", strings.Join(refused, "; "))
}
