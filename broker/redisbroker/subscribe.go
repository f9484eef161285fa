package redisbroker

import (
	"context"
	"fmt"

	"github.com/millrace-go/millrace/broker"
)

// Subscribe opens one source. Everything that its subscription needs on the server stands when it returns: the group and
// the liveness key of a stream, say.
func (b *Broker) Subscribe(ctx context.Context, config broker.Config) (broker.Subscription, error) {
	switch source := config.Source; source.Structure {
	case broker.StructureStream:
		return b.subscribeStream(ctx, config)
	case broker.StructureList:
		if source.Reliable {
			return b.subscribeReliableList(ctx, config)
		}
		return b.subscribeList(ctx, config)
	case broker.StructureChannel, broker.StructurePattern:
		return b.subscribeChannel(ctx, config)
	default:
		return nil, fmt.Errorf("%s %q at %s: no subscription reads a %s", source.Structure, source.Key, b.Address(), source.Structure)
	}
}
