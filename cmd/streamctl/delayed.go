package main

import (
	"context"
	"crypto/sha1" //nolint:gosec // it names members, and secures nothing
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

func newDelayed(s *session) *cobra.Command {
	return group("delayed", "List, move and remove messages that wait in delay sets", newDelayedList(s), newDelayedRun(s), newDelayedRemove(s))
}

// delayedID names a member of a delay set: the start of its SHA-1.
func delayedID(d *redisbroker.Delayed) string {
	sum := sha1.Sum(d.Member) //nolint:gosec // as above
	return hex.EncodeToString(sum[:6])
}

// delayedFlags say which members are meant.
type delayedFlags struct {
	due bool
	all bool
}

// delayedChoice is what the flags and arguments amount to.
type delayedChoice struct {
	ids []string
	due bool
	now time.Time
}

func (c *delayedChoice) takes(d *redisbroker.Delayed) bool {
	if c.due && d.Due.After(c.now) {
		return false
	}
	return len(c.ids) == 0 || slices.ContainsFunc(c.ids, func(id string) bool { return id == delayedID(d) })
}

// choice asks the server's clock, by which messages are due.
func (s *session) choice(ctx context.Context, ids []string, due bool) (*delayedChoice, error) {
	now, err := s.client().Time(ctx).Result()
	return &delayedChoice{ids, due, now}, err
}

// check refuses a call that does not say which members it means.
func (f *delayedFlags) check(ids []string) error {
	switch n := len(ids); {
	case n == 0 && !f.due && !f.all:
		return usage("say which messages: ids, --due or --all")
	case n > 0 && (f.due || f.all), f.due && f.all:
		return usage("ids, --due and --all exclude each other")
	}
	return nil
}

// delayedJSON is a delayed message for a program.
type delayedJSON struct {
	ID        string               `json:"id"`
	Due       *string              `json:"due"`
	In        float64              `json:"in_seconds"`
	Kind      string               `json:"kind,omitempty"`
	Source    string               `json:"source,omitempty"`
	Group     string               `json:"group,omitempty"`
	EntryID   string               `json:"entry_id,omitempty"`
	MessageID string               `json:"message_id,omitempty"`
	Fault     string               `json:"fault,omitempty"`
	Headers   map[string]bytesJSON `json:"headers"`
	Payload   *bytesJSON           `json:"payload"`
}

func newDelayedList(s *session) *cobra.Command {
	var f delayedFlags
	var limit int
	cmd := &cobra.Command{
		Use:   "ls [KEY]",
		Short: "List the messages of a delay set, or the delay sets of the server",
		Long: `Ls lists the messages of a delay set, those that are due first at first. Without a key it goes through all keys of the
server and lists the delay sets, those of unknown tasks and of reliable lists (:deferred) included.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: s.completeKeys("zset"),
		RunE: s.online(func(ctx context.Context, args []string) error {
			if len(args) == 0 {
				return s.listDelaySets(ctx)
			}
			choice, err := s.choice(ctx, nil, f.due)
			if err != nil {
				return err
			}
			return s.listDelayed(ctx, s.key(args[0]), choice, s.limit(limit))
		}),
	}
	cmd.Flags().BoolVar(&f.due, "due", false, "only those whose time has come")
	limitFlag(cmd, &limit)
	return cmd
}

func (s *session) listDelayed(ctx context.Context, set string, choice *delayedChoice, limit int) error {
	list := s.listing("ID", "DUE", "IN", "GOES TO", "FAILURES", "MESSAGE", "PAYLOAD")
	n := 0
	for d, err := range s.op.Delayed(ctx, set) {
		if err != nil {
			return err
		}
		if choice.due && d.Due.After(choice.now) {
			break
		}
		if n++; limit > 0 && n > limit {
			s.say("the first %d; --limit 0 shows all", limit)
			break
		}
		m, in := d.Message, d.Due.Sub(choice.now)
		object := delayedJSON{
			ID: delayedID(&d), Due: instantJSON(d.Due), In: in.Seconds(), Source: d.Source, Group: d.Group, EntryID: d.EntryID,
			Fault: fault(m), Headers: headersJSON(m.Headers), Payload: payloadJSON(m.Body, m.HasBody),
		}
		if d.Structure != 0 {
			object.Kind = d.Structure.String()
		}
		object.MessageID, _ = m.Header(broker.HeaderMessageID)
		failures, _ := m.Header(broker.HeaderRetryCount)
		text := cell(string(m.Body))
		if object.Fault != "" {
			text = object.Fault + ": " + text
		}
		to := or(d.Source)
		if d.Group != "" {
			to += " (" + d.Group + ")"
		}
		err := list.add(object, delayedID(&d), instant(d.Due), span(in), cell(to), or(cell(failures)), cell(or(object.MessageID)), text)
		if err != nil {
			return err
		}
	}
	return list.end("nothing is delayed in " + set)
}

// fault is what is wrong with a message, "" for nothing.
func fault(d *broker.Delivery) string {
	switch {
	case d.Newer:
		return "written by a later version"
	case d.Fault != nil:
		return "cannot be decoded"
	}
	return ""
}

// delaySetJSON is a delay set for a program.
type delaySetJSON struct {
	Key      string  `json:"key"`
	Messages int64   `json:"messages"`
	Due      int64   `json:"due"`
	First    *string `json:"first_due"`
	Last     *string `json:"last_due"`
}

func (s *session) listDelaySets(ctx context.Context) error {
	survey, err := s.survey(ctx)
	if err != nil {
		return err
	}
	now, err := s.client().Time(ctx).Result()
	if err != nil {
		return err
	}
	list := s.listing("KEY", "MESSAGES", "DUE", "FIRST", "LAST")
	for _, key := range survey.DelaySets {
		d, err := s.delaySet(ctx, key, now)
		if err != nil {
			return err
		}
		object := delaySetJSON{key, d.messages, d.due, instantJSON(d.first), instantJSON(d.last)}
		if err := list.add(object, cell(key), number(d.messages), number(d.due), instant(d.first), instant(d.last)); err != nil {
			return err
		}
	}
	return list.end("no delay sets")
}

// delaySet is what a delay set looks like from outside.
type delaySet struct {
	messages, due int64
	first, last   time.Time
}

func (s *session) delaySet(ctx context.Context, key string, now time.Time) (d delaySet, err error) {
	client := s.client()
	if d.messages, err = client.ZCard(ctx, key).Result(); err != nil {
		return d, fmt.Errorf("ZCARD %q: %w", key, err)
	}
	if d.due, err = client.ZCount(ctx, key, "-inf", number(now.UnixMilli())).Result(); err != nil {
		return d, fmt.Errorf("ZCOUNT %q: %w", key, err)
	}
	for at, t := range map[int64]*time.Time{0: &d.first, -1: &d.last} {
		z, err := client.ZRangeWithScores(ctx, key, at, at).Result()
		if err != nil {
			return d, fmt.Errorf("ZRANGE %q: %w", key, err)
		}
		if len(z) > 0 {
			*t = time.UnixMilli(int64(z[0].Score))
		}
	}
	return d, nil
}

// missed names those ids that were asked for and met nobody.
func missed(ids []string, met map[string]bool) error {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return met[id] })
	if len(ids) == 0 {
		return nil
	}
	return failed("not there (any more): %s", strings.Join(ids, ", "))
}
