package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/broker/redisbroker"
)

// severity is how bad a finding is.
type severity string

const (
	// problem: messages wait for nobody, or may be lost. It makes the exit code 1.
	problem severity = "problem"
	// remark is what one should know.
	remark severity = "note"
)

// finding is one thing that is wrong.
type finding struct {
	Severity severity `json:"severity"`
	Check    string   `json:"check"`
	Subject  string   `json:"subject"`
	Text     string   `json:"text"`
	Fix      string   `json:"fix"`
}

// examination is one run of doctor.
type examination struct {
	*session
	pending, overdue, stale time.Duration
	now                     time.Time
	survey                  *redisbroker.Survey

	mu       sync.Mutex // guards what follows, while the servers of a cluster are asked side by side
	findings []finding
}

func newDoctor(s *session) *cobra.Command {
	e := &examination{session: s}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Read the server and say what is wrong, and how to mend it",
		Long: `Doctor goes through the keys of the server, changes nothing, and says what is wrong: groups that nobody reads, entries that
have been pending for too long, delays that nobody moves, items of dead owners, dead letters that nobody reads, a server
that may evict streams or is full, and a version that lacks something. Each finding comes with the way to mend it. The exit
code is 1 where there is a problem; notes alone leave it 0.`,
		Args: cobra.NoArgs,
		RunE: s.online(func(ctx context.Context, _ []string) error { return e.examine(ctx) }),
	}
	flags := cmd.Flags()
	flags.DurationVar(&e.pending, "pending", 10*time.Minute, "an entry has been pending for too long after `DURATION`")
	flags.DurationVar(&e.overdue, "overdue", time.Minute, "a delayed message should have been moved `DURATION` after its time")
	flags.DurationVar(&e.stale, "stale", time.Minute, "a reader of another library counts as gone when it has been silent for `DURATION`")
	return cmd
}

func (e *examination) examine(ctx context.Context) error {
	survey, err := e.session.survey(ctx)
	if err != nil {
		return err
	}
	e.survey = survey
	if e.now, err = e.client().Time(ctx).Result(); err != nil {
		return err
	}
	for _, look := range []func(context.Context) error{
		e.lookAtServers, e.lookAtStreams, e.lookAtLists, e.lookAtDelays, e.lookAtLetters,
	} {
		if err := look(ctx); err != nil {
			return err
		}
	}
	return e.report()
}

func (e *examination) found(s severity, check, subject, fix, format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.findings = append(e.findings, finding{s, check, subject, fmt.Sprintf(format, args...), fix})
}

// report prints the findings, problems first.
func (e *examination) report() error {
	slices.SortStableFunc(e.findings, func(a, b finding) int { return -cmp.Compare(a.Severity, b.Severity) })
	problems := 0
	for _, f := range e.findings {
		if f.Severity == problem {
			problems++
		}
		if e.json {
			if err := e.print(f); err != nil {
				return err
			}
			continue
		}
		e.tell("%s  %s: %s [%s]", f.Severity, cell(f.Subject), f.Text, f.Check)
		e.tell("         %s", f.Fix)
	}
	if !e.json && problems == 0 {
		fmt.Fprintf(e.stdout, "no problem: %s, %s, %s\n", plural(len(e.survey.Streams), "stream", "streams"),
			plural(len(e.survey.Lists), "list", "lists"), plural(len(e.survey.DelaySets), "delay set", "delay sets"))
	}
	if problems > 0 {
		return errFindings
	}
	return nil
}
