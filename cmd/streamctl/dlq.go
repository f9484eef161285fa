package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/broker/deadletter"
)

func newDLQ(s *session) *cobra.Command {
	return group("dlq", "List, show, count, replay, delete, export and import dead letters",
		newDLQList(s), newDLQShow(s), newDLQStats(s), newDLQReplay(s), newDLQPurge(s), newDLQExport(s), newDLQImport(s))
}

// letters opens a dead letter by its argument.
func (s *session) letters(arg string) *deadletter.Queue { return deadletter.Open(s.broker, s.key(arg)) }

// filterFlags say which records are meant.
type filterFlags struct {
	reason, handler, group, source, text string
	older, newer                         time.Duration
	foreign, all                         bool
}

func (f *filterFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.reason, "reason", "", "only those buried for this `REASON`: "+strings.Join(allReasons, ", "))
	flags.StringVar(&f.handler, "handler", "", "only those of this subscription, by its `NAME`")
	flags.StringVar(&f.group, "group", "", "only those of this consumer `GROUP`")
	flags.StringVar(&f.source, "source", "", "only those that were buried from this `KEY`")
	flags.StringVar(&f.text, "text", "", "only those with this `TEXT` in error, detail, payload or message id")
	flags.DurationVar(&f.older, "older", 0, "only those buried longer ago than `DURATION`, such as 24h")
	flags.DurationVar(&f.newer, "newer", 0, "only those buried less long ago than `DURATION`")
	flags.BoolVar(&f.foreign, "foreign", false, "only entries that are no dead letters")
	_ = cmd.RegisterFlagCompletionFunc("reason", cobra.FixedCompletions(allReasons, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if _, known := reasons[f.reason]; f.reason != "" && !known {
			return usage("--reason %q: give one of %s", f.reason, strings.Join(allReasons, ", "))
		}
		for name, age := range map[string]time.Duration{"older": f.older, "newer": f.newer} {
			if cmd.Flags().Changed(name) && age <= 0 {
				return usage("--%s %s: give more than 0, or leave it out", name, age)
			}
		}
		return nil
	}
}

// registerAll is for commands that change something: they mean everything only where that is said.
func (f *filterFlags) registerAll(cmd *cobra.Command) {
	f.register(cmd)
	cmd.Flags().BoolVar(&f.all, "all", false, "all records")
}

func (f *filterFlags) empty() bool {
	return *f == filterFlags{all: f.all}
}

// chosen refuses a call that says neither which records it means nor that it means all, as a script does whose variable is
// empty.
func (f *filterFlags) chosen(ids []string) error {
	switch some := len(ids) > 0 || !f.empty(); {
	case !some && !f.all:
		return usage("say which records: ids, a filter, or --all")
	case some && f.all:
		return usage("--all does not go with ids or a filter; leave one out")
	}
	return nil
}

func (f *filterFlags) filter(s *session, ids []string) deadletter.Filter {
	filter := deadletter.Filter{
		IDs: ids, Reason: f.reason, Handler: f.handler, Group: f.group, OlderThan: f.older, NewerThan: f.newer, Text: f.text, Foreign: f.foreign,
	}
	if f.source != "" {
		filter.Source = s.key(f.source)
	}
	return filter
}

// counted calls f with how many records the filter has let through so far.
func counted(filter deadletter.Filter, f func(n int)) deadletter.Filter {
	n := 0
	filter.Match = func(*deadletter.Record) bool {
		n++
		f(n)
		return true
	}
	return filter
}

// tableRows is how many rows a list shows a person who has not said how many.
const tableRows = 100

// limit is how many rows a list has, 0 for all: so many as the flag says, and without one all of them for a program.
func (s *session) limit(flag int) int {
	switch {
	case flag >= 0:
		return flag
	case s.json:
		return 0
	default:
		return tableRows
	}
}

func limitFlag(cmd *cobra.Command, limit *int) {
	cmd.Flags().IntVarP(limit, "limit", "n", -1, "show `N` at most, 0 for all (default 100, with --json all)")
	cmd.Flags().Lookup("limit").DefValue = "0" // so that the help shows no default of its own
}

func newDLQList(s *session) *cobra.Command {
	var f filterFlags
	var limit int
	cmd := &cobra.Command{
		Use:   "ls [KEY [ID…]]",
		Short: "List the records of a dead letter, or the dead letters of the server",
		Long: `Ls lists the records of a dead letter, the oldest first. Without a key it goes through all keys of the server and lists
the streams and lists that hold dead letters.`,
		ValidArgsFunction: s.completeKeys("stream", "list"),
		RunE: s.online(func(ctx context.Context, args []string) error {
			if len(args) == 0 {
				return s.listLetterKeys(ctx)
			}
			return s.listLetters(ctx, s.letters(args[0]), f.filter(s, args[1:]), s.limit(limit))
		}),
	}
	f.register(cmd)
	limitFlag(cmd, &limit)
	return cmd
}

func (s *session) listLetters(ctx context.Context, letters *deadletter.Queue, filter deadletter.Filter, limit int) error {
	list := s.listing("ID", "BURIED", "REASON", "FAILURES", "HANDLER", "SOURCE", "ERROR")
	n := 0
	for r, err := range letters.All(ctx, filter) {
		if err != nil {
			return err
		}
		if n++; limit > 0 && n > limit {
			s.say("the first %d; --limit 0 shows all", limit)
			break
		}
		cells := []string{r.ID, instant(r.At), cell(r.Reason), number(r.Attempts), cell(or(r.Handler)), cell(or(r.Source)), cell(r.Error)}
		if r.Foreign {
			cells = []string{r.ID, "-", "no dead letter", "-", "-", "-", cell(string(r.Body))}
		}
		if err := list.add(recordJSON(&r), cells...); err != nil {
			return err
		}
	}
	return list.end("no such records in " + letters.Key())
}

// letterKeyJSON is a dead letter for a program.
type letterKeyJSON struct {
	Key     string  `json:"key"`
	Kind    string  `json:"kind"`
	Records int64   `json:"records"`
	Oldest  *string `json:"oldest"`
	Newest  *string `json:"newest"`
	Groups  int     `json:"groups"`
}

func (s *session) listLetterKeys(ctx context.Context) error {
	survey, err := s.survey(ctx)
	if err != nil {
		return err
	}
	all, err := s.letterKeys(ctx, survey)
	if err != nil {
		return err
	}
	list := s.listing("KEY", "KIND", "RECORDS", "OLDEST", "NEWEST", "GROUPS")
	for _, l := range all {
		object := letterKeyJSON{l.key, l.kind, l.records, instantJSON(l.oldest), instantJSON(l.newest), l.groups}
		if err := list.add(object, cell(l.key), l.kind, number(l.records), instant(l.oldest), instant(l.newest), number(int64(l.groups))); err != nil {
			return err
		}
	}
	return list.end("no dead letters")
}

func newDLQStats(s *session) *cobra.Command {
	var f filterFlags
	cmd := &cobra.Command{
		Use:               "stats KEY",
		Short:             "Count the records of a dead letter by reason, handler, group, source and age",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeKeys("stream", "list"),
		RunE: s.online(func(ctx context.Context, args []string) error {
			letters := s.letters(args[0])
			total, err := letters.Len(ctx)
			if err != nil {
				return err
			}
			bar := s.progress("counting", total)
			stats, err := letters.Stats(ctx, counted(f.filter(s, nil), bar.reached))
			bar.end()
			if err != nil {
				return err
			}
			if s.json {
				return s.print(statsJSON(letters.Key(), stats))
			}
			return s.showStats(letters.Key(), stats)
		}),
	}
	f.register(cmd)
	return cmd
}
