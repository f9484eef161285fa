package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

// delayedPage is how many members are read and worked on at a time.
const delayedPage = 100

func newDelayedRun(s *session) *cobra.Command {
	var f delayedFlags
	var to, kind string
	cmd := &cobra.Command{
		Use:   "run KEY [ID…]",
		Short: "Move delayed messages to their stream or list now",
		Long: `Run moves messages of a delay set to where they came from, due or not, in the step that subscriptions take when they are
due: none is moved twice, whoever else moves meanwhile. A message that does not tell where it came from (it was published
with a delay, say) goes where --to says. What cannot be decoded stays.`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: s.completeKeys("zset"),
	}
	f.register(cmd, "those whose time has come, which nobody has moved")
	cmd.Flags().StringVar(&to, "to", "", "to this `KEY`, whatever a message says")
	cmd.Flags().StringVar(&kind, "kind", "", "the `KIND` of --to: stream or list (default: what stands there, else a stream)")
	s.completeKind(cmd, "to", "")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(args[1:]); err != nil {
			return err
		}
		if kind != "" && (to == "" || kind != "stream" && kind != "list") {
			return usage("--kind %s: it says whether --to is a stream or a list", kind)
		}
		return s.online(func(ctx context.Context, args []string) error {
			set := s.key(args[0])
			choice, err := s.choice(ctx, args[1:], f.due)
			if err != nil {
				return err
			}
			var target broker.Destination
			if to != "" {
				if target, err = s.destination(ctx, s.key(to), kind); err != nil {
					return err
				}
			}
			return s.runDelayed(ctx, set, choice, target)
		})(cmd, args)
	}
	return cmd
}

func (f *delayedFlags) register(cmd *cobra.Command, due string) {
	cmd.Flags().BoolVar(&f.due, "due", false, due)
	cmd.Flags().BoolVar(&f.all, "all", false, "all messages of the set")
}

// runDelayed moves what is chosen, page by page.
func (s *session) runDelayed(ctx context.Context, set string, choice *delayedChoice, target broker.Destination) error {
	moved, stayed := 0, map[string]int{}
	err := s.workOn(ctx, set, "moved", choice, func(page []redisbroker.Delayed) (int, error) {
		left, by := 0, map[broker.Destination][][]byte{}
		for i := range page {
			to, why := destinationOf(&page[i], target)
			if why != "" {
				stayed[why]++
				left++
				continue
			}
			by[to] = append(by[to], page[i].Member)
		}
		for to, members := range by {
			n, err := s.op.MoveDelayed(ctx, set, to, members)
			moved += n
			if err != nil {
				return left, err
			}
		}
		return left, nil
	})
	if s.json {
		object := map[string]any{"key": set, "done": moved, "stayed": stayed}
		if printed := s.print(object); err == nil {
			err = printed
		}
	} else {
		s.tell("%s moved from %s", plural(moved, "message", "messages"), set)
		for _, why := range slices.Sorted(maps.Keys(stayed)) {
			s.say("%s stayed: %s", plural(stayed[why], "message", "messages"), why)
		}
	}
	if err == nil && len(stayed) > 0 {
		return errFindings
	}
	return err
}

// destinationOf is where a message goes, or why it stays.
func destinationOf(d *redisbroker.Delayed, target broker.Destination) (to broker.Destination, why string) {
	switch {
	case d.Message.Newer:
		return to, "a later version of the library wrote it"
	case d.Message.Fault != nil:
		return to, "it cannot be decoded; dlq import, or the subscription's own mover, takes it to a dead letter"
	case target.Structure() != 0 && target.Structure() != d.Structure:
		return to, fmt.Sprintf("it came from a %s, and --to is a %s", d.Structure, target.Structure())
	case target.Structure() != 0:
		return target, ""
	case d.Source == "":
		return to, "it does not tell where it came from; say so with --to"
	case d.Structure == broker.StructureList:
		return broker.List(d.Source), ""
	default:
		return broker.Stream(d.Source), ""
	}
}

func newDelayedRemove(s *session) *cobra.Command {
	var f delayedFlags
	cmd := &cobra.Command{
		Use:               "rm KEY [ID…]",
		Short:             "Remove delayed messages for good",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: s.completeKeys("zset"),
	}
	f.register(cmd, "those whose time has come, which nobody has moved")
	s.asksFirst(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(args[1:]); err != nil {
			return err
		}
		if err := s.mayAsk("removing"); err != nil {
			return err
		}
		return s.online(func(ctx context.Context, args []string) error {
			set := s.key(args[0])
			choice, err := s.choice(ctx, args[1:], f.due)
			if err != nil {
				return err
			}
			n, err := s.countChosen(ctx, set, choice)
			if err != nil {
				return err
			}
			what := plural(n, "message", "messages")
			if err := s.confirm(ctx, "remove %s of %s for good?", what, set); err != nil {
				return err
			}
			return s.removeDelayed(ctx, set, choice)
		})(cmd, args)
	}
	return cmd
}

// countChosen is how many messages are meant.
func (s *session) countChosen(ctx context.Context, set string, choice *delayedChoice) (int64, error) {
	if n := len(choice.ids); n > 0 {
		return int64(n), nil
	}
	d, err := s.delaySet(ctx, set, choice.now)
	if choice.due {
		return d.due, err
	}
	return d.messages, err
}

func (s *session) removeDelayed(ctx context.Context, set string, choice *delayedChoice) error {
	removed := 0
	err := s.workOn(ctx, set, "removed", choice, func(page []redisbroker.Delayed) (int, error) {
		members := make([]any, len(page))
		for i := range page {
			members[i] = page[i].Member
		}
		n, err := s.client().ZRem(ctx, set, members...).Result()
		removed += int(n)
		return 0, err
	})
	if s.json {
		if printed := s.print(map[string]any{"key": set, "done": removed}); err == nil {
			err = printed
		}
	} else {
		s.tell("%s removed from %s", plural(removed, "message", "messages"), set)
	}
	return err
}

// workOn gives f what is chosen of the set, a page at a time, those that are due first at first. f takes messages out, and
// returns how many of the page it left there.
func (s *session) workOn(ctx context.Context, set, did string, choice *delayedChoice, f func(page []redisbroker.Delayed) (left int, err error)) error {
	total, err := s.client().ZCard(ctx, set).Result()
	if err != nil {
		return fmt.Errorf("ZCARD %q: %w", set, err)
	}
	bar := s.progress(did, total)
	defer bar.end()
	met, done := map[string]bool{}, 0
	// What was passed over or left stands before everything else.
	for rank := int64(0); ; {
		members, err := s.client().ZRangeWithScores(ctx, set, rank, rank+delayedPage-1).Result()
		if err != nil {
			return fmt.Errorf("ZRANGE %q: %w", set, err)
		}
		var page []redisbroker.Delayed
		later := false
		for _, z := range members {
			member, _ := z.Member.(string)
			d := redisbroker.OpenDelayed([]byte(member))
			d.Due = time.UnixMilli(int64(z.Score))
			if later = choice.due && d.Due.After(choice.now); later {
				break
			}
			if !choice.takes(&d) {
				rank++
				continue
			}
			met[delayedID(&d)] = true
			page = append(page, d)
		}
		if len(page) > 0 {
			left, err := f(page)
			if err != nil {
				return err
			}
			rank += int64(left)
			done += len(page)
		}
		bar.reached(done)
		found := len(choice.ids) > 0 && len(met) == len(choice.ids)
		if later || found || len(members) < delayedPage {
			return missed(choice.ids, met)
		}
	}
}
