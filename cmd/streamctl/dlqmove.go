package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/broker/deadletter"
)

// moveFlags are what replay and purge have in common.
type moveFlags struct {
	filterFlags
	rate   float64
	max    int
	dryRun bool
	resume string
}

func (m *moveFlags) register(s *session, cmd *cobra.Command, verb string) {
	m.registerAll(cmd)
	s.asksFirst(cmd)
	flags := cmd.Flags()
	flags.Float64Var(&m.rate, "rate", 0, verb+" at most `N` a second")
	flags.IntVar(&m.max, "max", 0, verb+" `N` at most")
	flags.BoolVar(&m.dryRun, "dry-run", false, "change nothing; tell what would be done")
	flags.StringVar(&m.resume, "resume", "", "go on at this `CURSOR`, which an earlier call printed")
}

// options are those of the flags that were given, so that a rate of 0 is refused like any other that makes no sense.
func (m *moveFlags) options(cmd *cobra.Command) (options []deadletter.PurgeOption) {
	if cmd.Flags().Changed("rate") {
		options = append(options, deadletter.Rate(m.rate))
	}
	if cmd.Flags().Changed("max") {
		options = append(options, deadletter.Max(m.max))
	}
	if m.resume != "" {
		options = append(options, deadletter.Resume(m.resume))
	}
	return options
}

// check refuses what makes no sense before the server is asked anything.
func (m *moveFlags) check(s *session, cmd *cobra.Command, ids []string, verb string) error {
	switch {
	case cmd.Flags().Changed("rate") && !(m.rate > 0): // NaN, too
		return usage("--rate %v: give a number above 0, or leave it out", m.rate)
	case cmd.Flags().Changed("max") && m.max < 1:
		return usage("--max %d: give 1 or more, or leave it out", m.max)
	}
	if err := m.chosen(ids); err != nil || m.dryRun {
		return err
	}
	return s.mayAsk(verb)
}

func newDLQReplay(s *session) *cobra.Command {
	var m moveFlags
	var to, kind, after string
	var delay time.Duration
	var keepCounters, allGroups bool
	var maxReplays int
	cmd := &cobra.Command{
		Use:   "replay KEY [ID…]",
		Short: "Give dead letters another chance: back to where they were buried from, or elsewhere",
		Long: `Replay moves each record, in one atomic step, back to where it was buried from, the oldest first. Only the group that
buried it gets it again, with its counters reset. What is buried meanwhile is left out. However often it is interrupted, and
however many run at once, nothing is lost or doubled; what is interrupted prints a cursor for --resume.`,
		Example: `  streamctl dlq replay refunds.dlq 1777907439167-0
  streamctl dlq replay refunds.dlq --reason max_attempts --newer 1h --rate 50
  streamctl dlq replay refunds.dlq --all --max 100 --dry-run`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: s.completeKeys("stream", "list"),
	}
	flags := cmd.Flags()
	m.register(s, cmd, "replay")
	flags.StringVar(&to, "to", "", "to this `KEY` instead of where they were buried from")
	flags.StringVar(&kind, "kind", "", "the `KIND` of --to: stream, list, channel or sharded (default: what stands there, else a stream)")
	flags.StringVar(&after, "after", "", "by way of this delay set, a `KEY`")
	flags.DurationVar(&delay, "delay", 0, "how long they wait there, such as 10m")
	flags.BoolVar(&keepCounters, "keep-counters", false, "leave failures and losses as they were at the burial")
	flags.BoolVar(&allGroups, "all-groups", false, "let every group of the stream have them again")
	flags.IntVar(&maxReplays, "max-replays", deadletter.DefaultMaxReplays, "refuse what was replayed `N` times before")
	s.completeKind(cmd, "to", "after")
	cmd.MarkFlagsRequiredTogether("after", "delay")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch err := errors.Join(checkKind(kind), m.check(s, cmd, args[1:], "replaying")); {
		case err != nil:
			return err
		case kind != "" && to == "":
			return usage("--kind says what --to is, which is missing")
		case maxReplays < 1:
			return usage("--max-replays %d: give 1 or more", maxReplays)
		case delay < 0:
			return usage("--delay %s: give 0 or more", delay)
		}
		return s.online(func(ctx context.Context, args []string) error {
			options := []deadletter.Option{deadletter.MaxReplays(maxReplays)}
			for _, o := range m.options(cmd) {
				options = append(options, o)
			}
			where := "to where they were buried from"
			if to != "" {
				destination, err := s.destination(ctx, s.key(to), kind)
				if err != nil {
					return err
				}
				options, where = append(options, deadletter.To(destination)), "to "+destination.String()
			}
			if after != "" {
				options, where = append(options, deadletter.After(s.key(after), delay)), where+" after "+delay.String()
			}
			if keepCounters {
				options = append(options, deadletter.KeepCounters())
			}
			if allGroups {
				options = append(options, deadletter.AllGroups())
			}
			letters, filter := s.letters(args[0]), m.filter(s, args[1:])
			return s.move(ctx, &movement{
				flags: &m, letters: letters, verb: "replay", did: "replayed", where: " " + where,
				carryOut: func(more ...deadletter.PurgeOption) (deadletter.Report, error) {
					all := options
					for _, o := range more {
						all = append(all, o)
					}
					return letters.Replay(ctx, filter, all...)
				},
			})
		})(cmd, args)
	}
	return cmd
}

func newDLQPurge(s *session) *cobra.Command {
	var m moveFlags
	cmd := &cobra.Command{
		Use:   "purge KEY [ID…]",
		Short: "Delete dead letters for good",
		Long: `Purge deletes records for good; dlq export keeps them in a file before. An entry that is no dead letter is deleted only
where its id is given, or with --foreign.`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: s.completeKeys("stream", "list"),
	}
	m.register(s, cmd, "delete")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := m.check(s, cmd, args[1:], "deleting"); err != nil {
			return err
		}
		return s.online(func(ctx context.Context, args []string) error {
			options := m.options(cmd)
			letters, filter := s.letters(args[0]), m.filter(s, args[1:])
			return s.move(ctx, &movement{
				flags: &m, letters: letters, verb: "delete", did: "deleted", where: " for good",
				carryOut: func(more ...deadletter.PurgeOption) (deadletter.Report, error) {
					return letters.Purge(ctx, filter, append(options, more...)...)
				},
			})
		})(cmd, args)
	}
	return cmd
}

// movement is one replay or purge.
type movement struct {
	flags            *moveFlags
	letters          *deadletter.Queue
	verb, did, where string
	carryOut         func(more ...deadletter.PurgeOption) (deadletter.Report, error)
}

// move asks, carries out, and tells what was done.
func (s *session) move(ctx context.Context, m *movement) error {
	if m.flags.dryRun {
		report, err := m.carryOut(deadletter.DryRun())
		m.did = "would be " + m.did
		return s.moved(ctx, m, report, err)
	}
	if !s.yes {
		would, err := m.carryOut(deadletter.DryRun())
		if err != nil {
			return err
		}
		if would.Done == 0 {
			return s.moved(ctx, m, would, nil)
		}
		if err := s.confirm(ctx, "%s %s of %s%s?", m.verb, plural(would.Done, "record", "records"), m.letters.Key(), m.where); err != nil {
			return err
		}
	}
	total, err := m.letters.Len(ctx)
	if err != nil {
		return err
	}
	if limit := int64(m.flags.max); limit > 0 {
		total = min(total, limit)
	}
	bar := s.progress(m.did, total)
	report, err := m.carryOut(deadletter.Progress(func(r deadletter.Report) { bar.reached(r.Done) }))
	bar.end()
	return s.moved(ctx, m, report, err)
}

// reportJSON is what replay and purge print for a program.
type reportJSON struct {
	Key      string        `json:"key"`
	DryRun   bool          `json:"dry_run,omitempty"`
	Examined int           `json:"examined"`
	Matched  int           `json:"matched"`
	Done     int           `json:"done"`
	Gone     int           `json:"gone"`
	Foreign  int           `json:"foreign"`
	Refused  int           `json:"refused"`
	Refusals []refusalJSON `json:"refusals,omitempty"`
	Cursor   string        `json:"cursor,omitempty"`
}

type refusalJSON struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// moved tells what was done, and how to go on where that was not all.
func (s *session) moved(ctx context.Context, m *movement, report deadletter.Report, err error) error {
	if errors.Is(err, deadletter.ErrInvalid) {
		return err
	}
	if s.json {
		object := reportJSON{
			Key: m.letters.Key(), DryRun: m.flags.dryRun, Examined: report.Examined, Matched: report.Matched, Done: report.Done,
			Gone: report.Gone, Foreign: report.Foreign, Refused: report.Refused, Cursor: report.Cursor,
		}
		for _, r := range report.Refusals {
			object.Refusals = append(object.Refusals, refusalJSON{r.ID, redact(r.Err.Error())})
		}
		err = errors.Join(err, s.print(object))
	} else {
		text := fmt.Sprintf("%s %s", plural(report.Done, "record", "records"), m.did)
		for _, part := range []struct {
			n    int
			text string
		}{
			{report.Gone, "gone before"}, {report.Foreign, "left alone: no dead letters"}, {report.Refused, "refused"},
		} {
			if part.n > 0 {
				text += fmt.Sprintf(", %d %s", part.n, part.text)
			}
		}
		fmt.Fprintln(s.stdout, text)
		for _, r := range report.Refusals {
			s.say("%s: %s", r.ID, redact(r.Err.Error()))
		}
		if more := report.Refused - len(report.Refusals); more > 0 && len(report.Refusals) > 0 {
			s.say("and %d more were refused", more)
		}
	}
	if report.Cursor != "" && (err != nil || m.flags.max > 0 && report.Done >= m.flags.max) {
		s.say("there may be more: go on with --resume %s", report.Cursor)
	}
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case report.Refused > 0:
		return errFindings
	}
	return nil
}
