package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/millrace-go/millrace/gen"
)

const asyncAPIUsage = `usage: streamgen asyncapi [--check] [--title TITLE] [--version VERSION] [-o FILE] PATTERN...

Asyncapi describes what the packages that match subscribe to as one AsyncAPI 3.0 document, in JSON: a channel for each
stream, list, channel or pattern, an operation for each //stream:subscriber directive, and the schemas of the payloads.
Patterns are those of the go command; without one it is the package in the working directory.

  -o FILE             write the document to FILE, unless it is the same; without it, or for -, to the standard output
  --check             write nothing; print how FILE would change as a unified diff, and exit with 1 where it would
  --title TITLE       the title of the document; by default the import path that the packages have in common
  --version VERSION   the version of what it describes; by default 0.0.0

`

func asyncAPI(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("streamgen asyncapi", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, asyncAPIUsage) }
	var cfg gen.AsyncAPIConfig
	flags.StringVar(&cfg.Output, "o", "", "")
	flags.BoolVar(&cfg.Check, "check", false, "")
	flags.StringVar(&cfg.Title, "title", "", "")
	flags.StringVar(&cfg.Version, "version", "", "")
	if code, ok := parse(flags, args, stderr); !ok {
		return code
	}
	cfg.Patterns = flags.Args()
	if cfg.Output == "-" {
		cfg.Output = ""
	}
	if cfg.Check && cfg.Output == "" {
		fmt.Fprintln(stderr, "streamgen: --check compares a file: add -o FILE")
		return exitFailure
	}
	document, report, err := gen.AsyncAPI(ctx, cfg)
	if err == nil {
		err = show(report, false, stdout, stderr)
	}
	if err == nil && cfg.Output == "" {
		_, err = stdout.Write(document)
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
