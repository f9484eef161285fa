package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// info is what INFO says, by name.
type info map[string]string

func parseInfo(text string) info {
	values := make(info)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			values[name] = value
		}
	}
	return values
}

func (i info) number(name string) int64 {
	n, _ := strconv.ParseInt(i[name], 10, 64) // what is missing is 0
	return n
}

// name is the server and its version. Valkey reports a Redis version for old clients besides.
func (i info) name() string {
	if version := i["valkey_version"]; version != "" {
		return "Valkey " + version
	}
	return "Redis " + i["redis_version"]
}

func (e *examination) lookAtServers(ctx context.Context) error {
	err := e.op.EachServer(ctx, func(ctx context.Context, server *redis.Client) error {
		var all strings.Builder
		for _, section := range []string{"server", "memory", "replication"} {
			text, err := server.Info(ctx, section).Result()
			if err != nil && ctx.Err() != nil {
				return err
			}
			all.WriteString(text + "\r\n") // a server that refuses says nothing
		}
		subject := server.Options().Addr
		if !strings.Contains(subject, ":") {
			subject = e.broker.Address() // behind Sentinel
		}
		e.judgeServer(subject, parseInfo(all.String()))
		return nil
	})
	if err != nil {
		return err
	}
	claim, err := e.op.KnowsClaim(ctx)
	if err != nil {
		if text := err.Error(); strings.HasPrefix(text, "NOPERM") || strings.HasPrefix(text, "READONLY") {
			return nil // an operator need not be allowed to read, and a replica lets nobody
		}
		return fmt.Errorf("asking for CLAIM: %w", err)
	}
	if !claim {
		e.found(remark, "no-claim", e.broker.Address(), "nothing has to be done; Redis 8.4 and later have it",
			"XREADGROUP has no CLAIM: subscriptions with claim= look for idle entries once a second instead")
	}
	return nil
}

// full is how much of its memory a server may use before that is a problem, in hundredths.
const full = 90

// judgeServer looks at what one server says of itself.
func (e *examination) judgeServer(subject string, i info) {
	if i["redis_version"] == "" && i["valkey_version"] == "" {
		e.found(remark, "unknown-server", subject, "let the user run INFO (+info)",
			"it does not tell its version, its memory and its role, which were not looked at")
		return
	}
	major, _, _ := strings.Cut(i["redis_version"], ".")
	if n, err := strconv.Atoi(major); err == nil && n < 7 && i["valkey_version"] == "" {
		e.found(problem, "old-version", subject, "upgrade to Redis 7.0 or later, or to Valkey",
			"%s lacks what subscriptions need", i.name())
	}
	if i["role"] == "slave" {
		e.found(problem, "replica", subject, "connect to the master, or to the sentinels with --sentinel NAME",
			"it is a replica of %s: nothing can be written here, and what is read may be old", i["master_host"])
	}
	policy, most, used := i["maxmemory_policy"], i.number("maxmemory"), i.number("used_memory")
	const noEviction = "CONFIG SET maxmemory-policy noeviction, and the same in its configuration file"
	when := fmt.Sprintf("when its memory of %d bytes is full", most)
	if most == 0 {
		when = "as soon as it has a maxmemory"
	}
	switch {
	case strings.HasPrefix(policy, "allkeys-"):
		e.found(problem, "eviction", subject, noEviction, "maxmemory-policy %s: the server deletes whole streams, lists and delay sets %s", policy, when)
	case strings.HasPrefix(policy, "volatile-"):
		e.found(problem, "eviction", subject, noEviction,
			"maxmemory-policy %s: the server deletes delay sets with delay-ttl, and the keys that show who is alive, %s", policy, when)
	case most > 0 && used >= most/100*full:
		e.found(problem, "full", subject, "give it more memory (maxmemory), or trim: app.Retain, dlq purge",
			"%d of %d bytes are used: a full server refuses what subscriptions and publishers write", used, most)
	}
}
