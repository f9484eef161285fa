package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/millrace-go/millrace/broker/redisbroker"
)

// world is what a call reads from and writes to.
type world struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	// asks: a person can be asked, because stdin and stderr are a terminal. draws: stderr is one. types: stdin is one, so that
	// nothing is piped in.
	asks, draws, types bool
	open               func(target) (*redisbroker.Broker, error)
}

// run carries out one call and returns its exit code.
func run(ctx context.Context, args []string, w world) int {
	s := &session{world: w}
	root := newRoot(s)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	s.close()
	return s.ended(ctx, cmd, err)
}

func newRoot(s *session) *cobra.Command {
	root := &cobra.Command{
		Use:   "streamctl",
		Short: "Look after streams, lists and dead letters on Redis and Valkey",
		Long: `Streamctl reads what subscriptions left on a server, gives dead letters another chance, moves or removes what is
delayed, and says what is wrong.

The server is --redis URL, else MILLRACE_REDIS_URL, else REDIS_URL, else redis://localhost:6379. Prefer the environment for
a URL with a password: the arguments of a process can be seen by others.

Exit codes: 0 done; 1 something was found, missing or refused; 2 called wrongly, or --yes is missing where nobody can be
asked; 3 the server could not be reached or refused; 130 interrupted.`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		Args:              noCommand,
		PersistentPreRunE: refuseEmpty,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(s.stdin)
	root.SetOut(s.stdout)
	root.SetErr(s.stderr)
	flags := root.PersistentFlags()
	flags.StringVar(&s.target.url, "redis", "", "`URL` of the server, as go-redis parses it")
	flags.BoolVar(&s.target.cluster, "cluster", false, "the URL names a server of a cluster")
	flags.StringVar(&s.target.sentinel, "sentinel", "", "the URL names a sentinel, which calls the master by this `NAME`")
	flags.StringVar(&s.prefix, "prefix", "", "put before every key, as redisbroker.KeyPrefix is")
	flags.BoolVar(&s.json, "json", false, "print JSON, one object a line, instead of tables")
	root.AddCommand(
		newDLQ(s), newDelayed(s), newPending(s), newGroups(s), newConsumers(s), newPeek(s), newPublish(s), newDoctor(s),
	)
	return root
}

// refuseEmpty refuses what is given and empty, as by a script whose variable is: without it a command would mean more than was
// asked for. A body may be empty, and so may what says which server: it takes the place of the environment's.
func refuseEmpty(cmd *cobra.Command, args []string) error {
	if strings.HasPrefix(cmd.Name(), "__complete") {
		return nil // What the shell asks about is not typed yet.
	}
	var err error
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if err == nil && f.Changed && f.Value.Type() == "string" && f.Value.String() == "" && cmd.InheritedFlags().Lookup(f.Name) == nil {
			err = usage("--%s is empty; give a value, or leave it out", f.Name)
		}
	})
	for i, arg := range args {
		if err == nil && arg == "" && (i == 0 || cmd.Name() != "publish") {
			err = usage("argument %d is empty; give a value, or leave it out", i+1)
		}
	}
	return err
}

// group is a command that only has others under it.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

// noCommand refuses what was taken for a command and is none.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	err := usage("there is no command %q in %s", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err = usage("there is no command %q in %s; did you mean %s?", args[0], cmd.CommandPath(), near[0])
	}
	return err
}

// does is what a command does with its arguments, with the server at hand.
type does func(ctx context.Context, args []string) error

// online has a command connect before it does its work.
func (s *session) online(f does) func(*cobra.Command, []string) error {
	return s.starts(func(ctx context.Context, args []string) error {
		if err := s.connect(ctx); err != nil {
			return err
		}
		return f(ctx, args)
	})
}

// starts notes that the arguments were right: what fails from here on is not the call's fault.
func (s *session) starts(f does) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s.started = true
		return f(cmd.Context(), args)
	}
}
