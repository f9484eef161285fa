package redisbroker

import (
	"context"
	"fmt"
	"strings"

	"github.com/millrace-go/millrace/broker"
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
	own := c.source.Structure != broker.StructurePattern
	if own {
		publish(c.source.Key)
	} else if c.source.OutRetry != "" {
		publish(c.source.OutRetry)
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
		words := needs[i-1]
		if own && words[0] == c.publish() && c.config.DeadLetter == "" {
			// Who retries nothing needs no right to publish.
			c.log.Warn("the user may not publish on the channel that it reads: no message of it can be retried",
				"source", c.name(), "command", words[0])
			continue
		}
		refused = append(refused, strings.TrimSpace(strings.Join(words, " ")))
	}
	if len(refused) == 0 {
		return nil
	}
	return fmt.Errorf("the user lacks permissions that the subscription needs (docs/reliability.md lists all): %s", strings.Join(refused, "; "))
}
