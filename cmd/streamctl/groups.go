package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/broker/redisbroker"
)

func newGroups(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "groups [STREAM…]",
		Short: "List consumer groups: who reads, what is pending, what waits",
		Long: `Groups lists the consumer groups of streams, of all of the server where none is named. LAG is what the group has not been
given yet; where the server cannot tell, because entries were deleted, it is unknown. ALIVE are consumers that show that they
are, those included that were given nothing yet.`,
		ValidArgsFunction: s.completeKeys("stream"),
		RunE:              s.online(s.listGroups),
	}
	cmd.AddCommand(newSeek(s))
	return cmd
}

// groupJSON is a consumer group for a program. A lag of null is not known.
type groupJSON struct {
	Stream        string `json:"stream"`
	Group         string `json:"group"`
	Consumers     int64  `json:"consumers"`
	Alive         int    `json:"alive"`
	Pending       int64  `json:"pending"`
	Lag           *int64 `json:"lag"`
	LastDelivered string `json:"last_delivered"`
}

func (s *session) listGroups(ctx context.Context, args []string) error {
	streams := make([]string, len(args))
	for i, arg := range args {
		streams[i] = s.key(arg)
	}
	living := func(stream string) ([]redisbroker.Living, error) { return s.op.Living(ctx, stream) }
	if len(args) != 1 {
		// One walk through the keys does for all.
		survey, err := s.survey(ctx)
		if err != nil {
			return err
		}
		living = func(stream string) ([]redisbroker.Living, error) { return survey.Living(stream), nil }
		if len(args) == 0 {
			streams = survey.Streams
		}
	}
	list := s.listing("STREAM", "GROUP", "CONSUMERS", "ALIVE", "PENDING", "LAG", "LAST DELIVERED")
	for _, stream := range streams {
		groups, err := s.groups(ctx, stream)
		if err != nil {
			return err
		}
		alive, err := living(stream)
		if err != nil {
			return err
		}
		for _, g := range groups {
			n := len(inGroup(alive, g.Name))
			object := groupJSON{stream, g.Name, g.Consumers, n, g.Pending, nil, g.LastDeliveredID}
			if g.Lag >= 0 {
				object.Lag = &g.Lag
			}
			err := list.add(object, cell(stream), cell(g.Name), number(g.Consumers), strconv.Itoa(n), number(g.Pending), lag(g.Lag), g.LastDeliveredID)
			if err != nil {
				return err
			}
		}
	}
	return list.end("no groups")
}

func lag(n int64) string {
	if n < 0 {
		return "unknown"
	}
	return number(n)
}

// groups are those of a stream. No such key is nothing that the server could mend.
func (s *session) groups(ctx context.Context, stream string) ([]redis.XInfoGroup, error) {
	groups, err := s.client().XInfoGroups(ctx, stream).Result()
	switch {
	case err == nil:
		slices.SortFunc(groups, func(a, b redis.XInfoGroup) int { return cmp.Compare(a.Name, b.Name) })
		return groups, nil
	case strings.Contains(err.Error(), "no such key"):
		return nil, failed("there is no stream %q", stream)
	case strings.HasPrefix(err.Error(), "WRONGTYPE"):
		return nil, failed("%q is no stream", stream)
	}
	return nil, fmt.Errorf("XINFO GROUPS %q: %w", stream, err)
}

// groupOf is the group of that name, or the only one where there is no name.
func (s *session) groupOf(ctx context.Context, stream, name string) (redis.XInfoGroup, error) {
	groups, err := s.groups(ctx, stream)
	if err != nil {
		return redis.XInfoGroup{}, err
	}
	var names []string
	for _, g := range groups {
		if g.Name == name || name == "" && len(groups) == 1 {
			return g, nil
		}
		names = append(names, g.Name)
	}
	switch {
	case len(names) == 0:
		return redis.XInfoGroup{}, failed("stream %q has no groups", stream)
	case name == "":
		return redis.XInfoGroup{}, usage("stream %q has several groups: name one of %s", stream, strings.Join(names, ", "))
	}
	return redis.XInfoGroup{}, failed("stream %q has no group %q; it has %s", stream, name, strings.Join(names, ", "))
}

// inGroup are the living consumers of a group, by name.
func inGroup(living []redisbroker.Living, group string) map[string]redisbroker.Living {
	of := make(map[string]redisbroker.Living)
	for _, l := range living {
		if l.Group == group {
			of[l.Consumer] = l
		}
	}
	return of
}

// freeConsumer holds what stopped processes handed back.
const freeConsumer = "~free"

// state is how a consumer does.
func state(name string, alive map[string]redisbroker.Living) string {
	switch _, ok := alive[name]; {
	case ok:
		return "alive"
	case name == freeConsumer:
		return "free for all"
	}
	return "not alive"
}

func newConsumers(s *session) *cobra.Command {
	return &cobra.Command{
		Use:   "consumers KEY [GROUP]",
		Short: "List the consumers of a stream or a reliable list",
		Long: `Consumers lists who reads a stream or a reliable list, or has read it and left something. "alive" shows that it is, and
LEFT says for how long unless it goes on doing so; "not alive" does not, or was never a process of this library. What stands
under "~free" was handed back by a process that stopped, for anyone to take.`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: s.completeGroups,
		RunE: s.online(func(ctx context.Context, args []string) error {
			key, name := s.key(args[0]), ""
			if len(args) > 1 {
				name = args[1]
			}
			kind, err := s.kindOf(ctx, key)
			if err != nil {
				return err
			}
			if kind == "list" {
				return s.listOwners(ctx, key)
			}
			return s.listConsumers(ctx, key, name)
		}),
	}
}

// kindOf is what stands at a key: a stream or a list.
func (s *session) kindOf(ctx context.Context, key string) (string, error) {
	kind, err := s.client().Type(ctx, key).Result()
	switch {
	case err != nil:
		return "", fmt.Errorf("TYPE %q: %w", key, err)
	case kind == "none":
		// All of a list may be in hand.
		if owners, err := s.op.Owners(ctx, key); err == nil && len(owners) > 0 {
			return "list", nil
		}
		return "", failed("nothing stands at %q", key)
	case kind != "stream" && kind != "list":
		return "", failed("%q is a %s, neither a stream nor a list", key, kind)
	}
	return kind, nil
}

// consumerJSON is a consumer for a program. Idle is null where the server does not know of it yet.
type consumerJSON struct {
	Group    string   `json:"group,omitempty"`
	Consumer string   `json:"consumer"`
	State    string   `json:"state"`
	Left     *float64 `json:"left_seconds"`
	Pending  int64    `json:"pending"`
	Idle     *float64 `json:"idle_seconds"`
}

func (s *session) listConsumers(ctx context.Context, stream, name string) error {
	groups, err := s.groups(ctx, stream)
	if err != nil {
		return err
	}
	if name != "" {
		g, err := s.groupOf(ctx, stream, name)
		if err != nil {
			return err
		}
		groups = []redis.XInfoGroup{g}
	}
	living, err := s.op.Living(ctx, stream)
	if err != nil {
		return err
	}
	list := s.listing("GROUP", "CONSUMER", "STATE", "LEFT", "PENDING", "IDLE")
	for _, g := range groups {
		alive := inGroup(living, g.Name)
		consumers, err := s.client().XInfoConsumers(ctx, stream, g.Name).Result()
		if err != nil {
			return fmt.Errorf("XINFO CONSUMERS %q %q: %w", stream, g.Name, err)
		}
		for name := range alive {
			if !slices.ContainsFunc(consumers, func(c redis.XInfoConsumer) bool { return c.Name == name }) {
				consumers = append(consumers, redis.XInfoConsumer{Name: name, Idle: -1})
			}
		}
		slices.SortFunc(consumers, func(a, b redis.XInfoConsumer) int { return cmp.Compare(a.Name, b.Name) })
		for _, c := range consumers {
			object := consumerJSON{Group: g.Name, Consumer: c.Name, State: state(c.Name, alive), Pending: c.Pending}
			left, idle := "-", "-"
			if l, ok := alive[c.Name]; ok {
				object.Left, left = seconds(l.Left), span(l.Left.Truncate(time.Second))
			}
			if c.Idle >= 0 {
				object.Idle, idle = seconds(c.Idle), span(c.Idle)
			}
			if err := list.add(object, cell(g.Name), cell(c.Name), object.State, left, number(c.Pending), idle); err != nil {
				return err
			}
		}
	}
	return list.end("no consumers")
}

func seconds(d time.Duration) *float64 {
	n := d.Seconds()
	return &n
}

// ownerJSON is a reader of a reliable list for a program.
type ownerJSON struct {
	Consumer string   `json:"consumer"`
	Owner    string   `json:"owner"`
	State    string   `json:"state"`
	Left     *float64 `json:"left_seconds"`
	InFlight int64    `json:"in_flight"`
	Aside    int64    `json:"aside"`
}

func (s *session) listOwners(ctx context.Context, key string) error {
	owners, err := s.op.Owners(ctx, key)
	if err != nil {
		return err
	}
	list := s.listing("CONSUMER", "STATE", "LEFT", "IN FLIGHT", "ASIDE")
	for _, o := range owners {
		object := ownerJSON{Consumer: o.Consumer, Owner: o.Name, State: "not alive", InFlight: o.InFlight, Aside: o.Aside}
		left := "-"
		if o.Living {
			object.State, object.Left, left = "alive", seconds(o.Left), span(o.Left.Truncate(time.Second))
		}
		if err := list.add(object, cell(o.Consumer), object.State, left, number(o.InFlight), number(o.Aside)); err != nil {
			return err
		}
	}
	return list.end("nobody reads " + key + " as a reliable list")
}
