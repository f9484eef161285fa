package redisbroker

import (
	"context"
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
	lacking, err := lackingCommands(ctx, c.client, needs)
	if err != nil {
		return err
	}
	var refused []string
	for _, words := range lacking {
		refused = append(refused, strings.TrimSpace(strings.Join(words, " ")))
	}
	return refusal(refused)
}
