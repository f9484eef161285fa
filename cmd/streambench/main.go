// Command streambench runs this library and its peers side by side on one Redis server and prints how they compare: a loop
// over the bare client, asynq, watermill-redisstream and redisqueue.
//
//	streambench -redis redis://localhost:6379/9 [-only consume] [-rounds 5] [-scale 1] [-json FILE] [-markdown FILE]
//
// The database is emptied again and again: give it one that holds nothing else. Each measurement runs in a process of its
// own, and the subjects of a scenario take turns round by round, so that a machine whose speed drifts is unfair to nobody.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			os.Exit(2)
		}
		fmt.Fprintln(os.Stderr, "streambench:", err)
		os.Exit(1)
	}
}

// config is what the command line says.
type config struct {
	redis, only, json, markdown string
	rounds                      int
	scale                       float64
	list                        bool
	// one is the measurement that a child process makes: scenario/subject.
	one string
	// profile is where that measurement's CPU profile goes, "" for nowhere.
	profile string
}

func run(ctx context.Context, args []string) error {
	var c config
	flags := flag.NewFlagSet("streambench", flag.ContinueOnError)
	flags.StringVar(&c.redis, "redis", os.Getenv("MILLRACE_REDIS_URL"), "the server, with a database that may be emptied ($MILLRACE_REDIS_URL)")
	flags.StringVar(&c.only, "only", "", "run the scenarios whose names contain one of these words, separated by commas")
	flags.StringVar(&c.json, "json", "", "write every sample to this file")
	flags.StringVar(&c.markdown, "markdown", "", "write the tables to this file")
	flags.IntVar(&c.rounds, "rounds", 5, "how often each subject runs")
	flags.Float64Var(&c.scale, "scale", 1, "multiplies the number of messages")
	flags.BoolVar(&c.list, "list", false, "list the scenarios and their subjects")
	flags.StringVar(&c.one, "one", "", "make one measurement, scenario/subject, and print it as JSON")
	flags.StringVar(&c.profile, "cpuprofile", "", "with -one: write a CPU profile to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: see -h", flags.Arg(0))
	case c.list:
		for _, s := range scenarios {
			fmt.Printf("%-28s %s\n", s.name, strings.Join(s.names(), " "))
		}
		return nil
	case c.redis == "":
		return errors.New("which server? give -redis URL or set MILLRACE_REDIS_URL; its database is emptied")
	case c.one != "":
		sample, err := measure(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.one, err)
		}
		return json.NewEncoder(os.Stdout).Encode(sample)
	}
	results, err := compare(ctx, c)
	if err != nil {
		return err
	}
	return write(c, results)
}

// compare runs every chosen scenario, round by round.
func compare(ctx context.Context, c config) ([]result, error) {
	server, err := describe(ctx, c.redis)
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, server)
	var results []result
	for _, s := range chosen(c.only) {
		r := result{Scenario: s.name, About: s.about, Server: server, Samples: make(map[string][]sample)}
		for _, subject := range s.subjects {
			r.Subjects = append(r.Subjects, subject.name)
		}
		for round := range c.rounds {
			for _, subject := range s.subjects {
				one, err := child(ctx, c, s.name+"/"+subject.name)
				if err != nil {
					return results, err
				}
				fmt.Fprintf(os.Stderr, "%s round %d %s: %s\n", s.name, round+1, subject.name, one)
				r.Samples[subject.name] = append(r.Samples[subject.name], one)
			}
		}
		results = append(results, r)
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("no scenario's name contains any of %q: see -list", c.only)
	}
	return results, nil
}

// child makes one measurement in a process of its own.
func child(ctx context.Context, c config, one string) (s sample, err error) {
	cmd := exec.CommandContext(ctx, os.Args[0], "-redis", c.redis, "-one", one, "-scale", strconv.FormatFloat(c.scale, 'g', -1, 64))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return s, fmt.Errorf("%s: %w", one, err)
	}
	if err := json.Unmarshal(out, &s); err != nil {
		return s, fmt.Errorf("%s: its output %q: %w", one, out, err)
	}
	return s, nil
}

func chosen(only string) []scenario {
	if only == "" {
		return scenarios
	}
	var some []scenario
	for _, s := range scenarios {
		for word := range strings.SplitSeq(only, ",") {
			if strings.Contains(s.name, word) {
				some = append(some, s)
				break
			}
		}
	}
	return some
}
