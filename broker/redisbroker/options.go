package redisbroker

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
