package redisbroker

import (
	"fmt"
	"strings"
	"time"
)

// Option changes how a broker reads its keys and groups.
type Option interface{ apply(*Broker) }

type option func(*Broker)

func (o option) apply(b *Broker) { o(b) }

// DefaultGroup is the consumer group of every directive that names none. Without it such a directive is an error at
// start.
func DefaultGroup(name string) Option {
	return option(func(b *Broker) { b.defaultGroup = name })
}

// KeyPrefix is put before every key of directives, mounts and destinations, so that several environments share one
// server. It may hold a hash tag. What the library writes into messages (dlq_source, say) is the full key.
func KeyPrefix(prefix string) Option {
	return option(func(b *Broker) { b.prefix = prefix })
}

// Liveness is how long a consumer may be silent before its peers take what it holds; 30 s by default. Each consumer
// prolongs its key every third of it. A shorter time finds crashes earlier, and mistakes a process that stood still for
// as long for a crashed one. At least 1 s, and the same for all processes of a group.
func Liveness(ttl time.Duration) Option {
	return option(func(b *Broker) {
		if ttl < time.Second {
			b.problems = append(b.problems, fmt.Errorf("redisbroker.Liveness(%s): at least 1s is needed", ttl))
			return
		}
		b.liveness = ttl
	})
}

// Consumer fixes the name under which this process reads. By default it is unique to the start of the process, and a
// crashed one is recovered by its peers as well. With a fixed name a restarted process takes at once what its
// predecessor held. Two processes must not share a name: the second waits for one Liveness and then refuses to start.
// The name holds no colon.
func Consumer(name string) Option {
	return option(func(b *Broker) {
		if name == "" || name == freeConsumer || strings.Contains(name, ":") {
			b.problems = append(b.problems, fmt.Errorf("redisbroker.Consumer(%q): a name without a colon is needed, other than %s", name, freeConsumer))
			return
		}
		b.consumer, b.fixed = name, true
	})
}
