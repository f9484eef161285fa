// Command streamgen generates the stream_gen.go of each package that has //stream:subscriber directives.
//
//	//go:generate go tool streamgen ./...
//
// With --check it writes nothing, and prints what it would change as a diff. With --json it prints one JSON object, with
// the findings, the files that are stale and those that it has written or removed.
//
// It exits with 0 where everything is generated, with 1 where something in the source stands against it (each finding
// is a line file:line:col: message [code], and no file was touched) or a checked file is stale, and with 2 where it was
// called wrongly or could not work.
//
//	go tool streamgen asyncapi -o asyncapi.json ./...
//
// describes what all these packages subscribe to as one AsyncAPI document, with the same exit codes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/millrace-go/millrace/gen"
)

const usage = `usage: streamgen [--check] [--json] PATTERN...
       streamgen asyncapi [--check] [-o FILE] PATTERN...

Streamgen writes the stream_gen.go of each package that matches and has //stream:subscriber directives, and removes it
where the last of them has gone. Patterns are those of the go command; without one it is the package in the working
directory.

  --check   write nothing; print what would change as a unified diff, and exit with 1 where that is anything
  --json    print one JSON object instead of lines and diffs

`

// The exit codes.
const (
	exitClean    = 0
	exitFindings = 1 // or stale files
	exitFailure  = 2 // usage or environment
)

// command is what one call does. It returns the exit code.
type command func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// subcommands are chosen by the first argument. Everything else is generate's.
var subcommands = map[string]command{"asyncapi": asyncAPI}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		if sub, ok := subcommands[args[0]]; ok {
			return sub(ctx, args[1:], stdout, stderr)
		}
	}
	return generate(ctx, args, stdout, stderr)
}

func generate(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("streamgen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage) }
	check := flags.Bool("check", false, "")
	asJSON := flags.Bool("json", false, "")
	if code, ok := parse(flags, args, stderr); !ok {
		return code
	}
	report, err := gen.Run(ctx, gen.Config{Patterns: flags.Args(), Check: *check})
	if err == nil {
		err = show(report, *asJSON, stdout, stderr)
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "streamgen:", err)
		return exitFailure
	case !report.Clean():
		return exitFindings
	}
	return exitClean
}

// parse reads the flags. Where it returns false, the program ends with the code.
func parse(flags *flag.FlagSet, args []string, stderr io.Writer) (code int, ok bool) {
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitClean, false
	case err != nil:
		return exitFailure, false
	}
	for _, pattern := range flags.Args() {
		if strings.HasPrefix(pattern, "-") {
			fmt.Fprintf(stderr, "streamgen: %s comes after a pattern: flags come first\n", pattern)
			return exitFailure, false
		}
	}
	return 0, true
}

// show prints the findings as lines to the standard error, the diffs to the standard output; or everything there as JSON.
func show(report gen.Report, asJSON bool, stdout, stderr io.Writer) error {
	if asJSON {
		return report.WriteJSON(stdout)
	}
	for _, finding := range report.Findings {
		fmt.Fprintln(stderr, finding)
	}
	for _, s := range report.Stale {
		if _, err := io.WriteString(stdout, s.Diff); err != nil {
			return err
		}
	}
	if n := len(report.Stale); n > 0 {
		fmt.Fprintf(stderr, "streamgen: %d generated %s not current: run go generate\n", n, map[bool]string{true: "file is", false: "files are"}[n == 1])
	}
	return nil
}
