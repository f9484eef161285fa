package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

const (
	// seekPage is how many entries are counted at a time, and seekMost how many at most.
	seekPage = 1000
	seekMost = 100_000
)

func newSeek(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "seek STREAM GROUP ID",
		Short: "Move a group to another place of its stream (XGROUP SETID)",
		Long: `Seek has the group go on behind the entry ID: 0 is the beginning of the stream, $ its end. It first says what that does:
how many entries are delivered again, or are skipped, and which of them are in somebody's hands at the moment. Those are
taken from their owners, living ones included: their handlers run on, and the message runs a second time beside them.
Entries that are delivered again begin with their first attempt; what was retried keeps the count of its copies.`,
		Args:              cobra.ExactArgs(3),
		ValidArgsFunction: s.completeGroups,
	}
	s.asksFirst(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := parsePosition(args[2])
		if err != nil {
			return err
		}
		if err := s.mayAsk("seeking"); err != nil {
			return err
		}
		return s.online(func(ctx context.Context, args []string) error {
			return s.seek(ctx, s.key(args[0]), args[1], id)
		})(cmd, args)
	}
	return cmd
}

// entryID is the id of a stream entry.
type entryID struct{ ms, seq uint64 }

func (id entryID) String() string {
	return strconv.FormatUint(id.ms, 10) + "-" + strconv.FormatUint(id.seq, 10)
}

func (id entryID) less(other entryID) bool {
	return id.ms < other.ms || id.ms == other.ms && id.seq < other.seq
}

// next is the lowest id behind this one.
func (id entryID) next() entryID {
	if id.seq == math.MaxUint64 {
		return entryID{id.ms + 1, 0}
	}
	return entryID{id.ms, id.seq + 1}
}

func parseID(text string) (id entryID, err error) {
	ms, seq, two := strings.Cut(text, "-")
	if id.ms, err = strconv.ParseUint(ms, 10, 64); err == nil && two {
		id.seq, err = strconv.ParseUint(seq, 10, 64)
	}
	return id, err
}

// parsePosition reads an id, 0 or $, which is nil.
func parsePosition(text string) (*entryID, error) {
	if text == "$" {
		return nil, nil
	}
	id, err := parseID(text)
	if err != nil {
		return nil, usage("%q is no entry id; give one such as 1526919030474-0, or 0 or $", text)
	}
	return &id, nil
}

// seekJSON is what seek prints for a program.
type seekJSON struct {
	Stream    string `json:"stream"`
	Group     string `json:"group"`
	From      string `json:"from"`
	To        string `json:"to"`
	Again     int    `json:"delivered_again"`
	Skipped   int    `json:"skipped"`
	More      bool   `json:"more,omitempty"`
	FromAlive int64  `json:"taken_from_living"`
	FromDead  int64  `json:"taken_from_others"`
}

func (s *session) seek(ctx context.Context, stream, name string, id *entryID) error {
	g, err := s.groupOf(ctx, stream, name)
	if err != nil {
		return err
	}
	from, err := parseID(g.LastDeliveredID)
	if err != nil {
		return fmt.Errorf("XINFO GROUPS %q: last-delivered-id %q: %w", stream, g.LastDeliveredID, err)
	}
	to := id
	if to == nil {
		info, err := s.client().XInfoStream(ctx, stream).Result()
		if err != nil {
			return fmt.Errorf("XINFO STREAM %q: %w", stream, err)
		}
		last, err := parseID(info.LastGeneratedID)
		if err != nil {
			return fmt.Errorf("XINFO STREAM %q: last-generated-id %q: %w", stream, info.LastGeneratedID, err)
		}
		to = &last
	}
	plan := seekJSON{Stream: stream, Group: name, From: from.String(), To: to.String()}
	if from.less(*to) {
		plan.Skipped, plan.More, err = s.countEntries(ctx, stream, from.next(), *to)
	} else {
		plan.Again, plan.More, err = s.countEntries(ctx, stream, to.next(), from)
	}
	if err != nil {
		return err
	}
	if !from.less(*to) {
		if err := s.countTaken(ctx, &plan, to.next()); err != nil {
			return err
		}
	}
	s.explain(&plan, g.Pending)
	if err := s.confirm(ctx, "move group %s of %s from %s to %s?", name, stream, plan.From, plan.To); err != nil {
		return err
	}
	if err := s.client().XGroupSetID(ctx, stream, name, to.String()).Err(); err != nil {
		return fmt.Errorf("XGROUP SETID %q %q: %w", stream, name, err)
	}
	if s.json {
		return s.print(plan)
	}
	s.tell("group %s of %s goes on behind %s", name, stream, plan.To)
	return nil
}

// explain says what a seek does before it is done.
func (s *session) explain(plan *seekJSON, pending int64) {
	least := ""
	if plan.More {
		least = "at least "
	}
	switch {
	case plan.Skipped > 0:
		s.say("%s%s will be skipped: group %s will not be given them", least, plural(plan.Skipped, "entry", "entries"), plan.Group)
	case plan.Again > 0:
		s.say("%s%s will be delivered to group %s again", least, plural(plan.Again, "entry", "entries"), plan.Group)
	default:
		s.say("no entry is delivered again or skipped")
	}
	if plan.FromAlive > 0 {
		s.say("of them %s pending under living owners: taken from them, and run a second time beside the first", are(plan.FromAlive))
	}
	if plan.FromDead > 0 {
		s.say("of them %s pending under owners that are not alive", are(plan.FromDead))
	}
	if plan.Skipped > 0 && pending > 0 {
		s.say("%s pending, kept by the owners", are(pending))
	}
}

func are(n int64) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

// countEntries counts those from first to last, up to a bound.
func (s *session) countEntries(ctx context.Context, stream string, first, last entryID) (n int, more bool, err error) {
	for !last.less(first) {
		// Only the ids are of interest, but there is no command for them.
		page, err := s.op.Entries(ctx, stream, first.String(), last.String(), seekPage, false)
		if err != nil {
			return n, false, err
		}
		n += len(page)
		if len(page) < seekPage {
			return n, false, nil
		}
		if n >= seekMost {
			return n, true, nil
		}
		id, err := parseID(page[len(page)-1].ID)
		if err != nil {
			return n, false, err
		}
		first = id.next()
	}
	return n, false, nil
}

// countTaken counts what is pending behind the new place, by whether its owner lives.
func (s *session) countTaken(ctx context.Context, plan *seekJSON, first entryID) error {
	living, err := s.op.Living(ctx, plan.Stream)
	if err != nil {
		return err
	}
	alive := inGroup(living, plan.Group)
	for p, err := range s.pendingOf(ctx, pendingQuery{stream: plan.Stream, group: plan.Group, first: first}) {
		if err != nil {
			return err
		}
		if _, ok := alive[p.Consumer]; ok {
			plan.FromAlive++
		} else {
			plan.FromDead++
		}
	}
	return nil
}
