package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// look asks for the TYPE of every source that was not asked for yet, in one round trip.
func (m *letterMover) look(ctx context.Context, moves []*broker.Move) error {
	types := make(map[string]*redis.StatusCmd)
	pipe := m.from.client.Pipeline()
	for _, mv := range moves {
		if mv.To.Structure() != 0 || mv.Letter.Burial == nil {
			continue
		}
		source := mv.Letter.Burial.Source
		if _, known := m.held[source]; !known && types[source] == nil && source != "" {
			types[source] = pipe.Type(ctx, source)
		}
	}
	if len(types) == 0 {
		return nil
	}
	if _, err := pipe.Exec(ctx); err != nil && !isRefused(err) {
		return m.from.failed("TYPE of the sources", err)
	}
	for source, held := range types {
		if err := held.Err(); err != nil {
			return m.from.failed(fmt.Sprintf("TYPE of the source %q", source), err)
		}
		m.held[source] = held.Val()
		if held.Val() == "none" {
			heard, err := m.isChannel(ctx, source)
			if err != nil {
				return m.from.failed("PUBSUB NUMSUB", err)
			}
			if heard {
				m.held[source] = heldByChannel
			}
		}
	}
	return nil
}

// heldByChannel is said of a source where no key stands and somebody listens to a channel of that name. The server keeps
// nothing of a channel, and a record does not say what its source was.
const heldByChannel = "channel"

func (m *letterMover) isChannel(ctx context.Context, name string) (bool, error) {
	var heard atomic.Bool
	err := everyNode(ctx, m.from.client, func(ctx context.Context, node *redis.Client) error {
		counts, err := node.PubSubNumSub(ctx, name).Result()
		switch {
		case isRefused(err):
			return nil // a user who may not ask has to name a channel as the target
		case counts[name] > 0:
			heard.Store(true)
		}
		return err
	})
	return heard.Load(), err
}

var errNoSource = errors.New("the record does not say where it was buried from; name a target")

// destination is where a move goes: the structure of its target, 0 for the delay set that it came from, and its key.
func (m *letterMover) destination(mv *broker.Move) (broker.Destination, error) {
	if mv.To.Structure() != 0 {
		return mv.To, nil
	}
	b := mv.Letter.Burial
	if b == nil || b.Source == "" {
		return broker.Destination{}, errNoSource
	}
	switch held := m.held[b.Source]; held {
	case redisTypes[broker.StructureStream]:
		return broker.Stream(b.Source), nil
	case redisTypes[broker.StructureList]:
		return broker.List(b.Source), nil
	case redisTypes[broker.StructureSortedSet]:
		return broker.Destination{}, nil
	case "none", heldByChannel:
		switch {
		case fromDelaySet(b):
			return broker.Destination{}, nil
		case held == heldByChannel && b.Group == "":
			return broker.Channel(b.Source), nil
		case m.structure == broker.StructureList:
			return broker.List(b.Source), nil
		case b.Group != "":
			return broker.Stream(b.Source), nil
		}
		return broker.Destination{}, fmt.Errorf("nothing stands at its source %q, which was no stream; name a target", b.Source)
	default:
		return broker.Destination{}, fmt.Errorf("its source %q is a %s by now; name a target", b.Source, held)
	}
}

// fromDelaySet tells a member of a delay set that could not be decoded: no entry of a stream or list was buried.
func fromDelaySet(b *broker.Burial) bool { return b.ID == "" && b.Reason == broker.ReasonMalformed }
