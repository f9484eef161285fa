package redisbroker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// Owner is a process that reads, or has read, a reliable list.
type Owner struct {
	// Name stands in the list's registry: consumer, token and, where the process has had several, the number of its in-flight
	// list.
	Name, Consumer string
	// Living tells that the process shows that it is alive, and Left for how long unless it goes on doing so.
	Living bool
	Left   time.Duration
	// InFlight is how many items it has in hand or has read ahead, and Aside how many beside them wait for their turn.
	InFlight, Aside int64
}

// Owners returns the owners in the registry of the reliable list, by name.
func (o *Operator) Owners(ctx context.Context, list string) ([]Owner, error) {
	base := base(list)
	names, err := o.client.SMembers(ctx, base+ownersKind).Result()
	if err != nil {
		return nil, fmt.Errorf("registry %q of the list: %w", base+ownersKind, err)
	}
	slices.Sort(names)
	type look struct {
		token           *redis.StringCmd
		left            *redis.DurationCmd
		inFlight, aside *redis.IntCmd
	}
	looks := make([]look, len(names))
	_, err = o.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, name := range names {
			consumer, _ := splitOwner(name)
			key := alivePrefix(broker.Source{Key: list}) + consumer
			looks[i] = look{p.Get(ctx, key), p.PTTL(ctx, key), p.LLen(ctx, base+inflightKind+name), p.LLen(ctx, base+asideKind+name)}
		}
		return nil
	})
	if err != nil && !isReply(err) {
		return nil, err
	}
	owners := make([]Owner, len(names))
	for i, name := range names {
		consumer, token := splitOwner(name)
		l := looks[i]
		owners[i] = Owner{
			Name: name, Consumer: consumer, Living: l.token.Val() == token && token != "",
			InFlight: l.inFlight.Val(), Aside: l.aside.Val(),
		}
		if owners[i].Living {
			owners[i].Left = max(l.left.Val(), 0)
		}
	}
	return owners, nil
}

// InFlight returns at most n of the items that the owner has in hand, the oldest first; aside: of those that wait for their
// turn beside them.
func (o *Operator) InFlight(ctx context.Context, list, owner string, aside bool, n int) ([]*broker.Delivery, error) {
	kind := inflightKind
	if aside {
		kind = asideKind
	}
	items, err := o.client.LRange(ctx, base(list)+kind+owner, int64(-n), -1).Result()
	if err != nil {
		return nil, fmt.Errorf("what %s has in flight of list %q: %w", owner, list, err)
	}
	var deliveries []*broker.Delivery
	for _, item := range slices.Backward(items) {
		deliveries = append(deliveries, envelopeDelivery("", []byte(item)))
	}
	return deliveries, nil
}
