// Command streamgen generates the stream_gen.go of each package that has //stream:subscriber directives.
//
//	//go:generate go tool streamgen ./...
//
// It exits with 0 where everything is generated, with 1 where something in the source stands against it (each finding
// is a line file:line:col: message, and no file was touched), and with 2 where it was called wrongly or could not work.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/millrace-go/millrace/gen"
)

const usage = `usage: streamgen PATTERN...

Streamgen writes the stream_gen.go of each package that matches and has //stream:subscriber directives, and removes it
where the last of them has gone. Patterns are those of the go command; without one it is the package in the working
directory.
`

func main() {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	flag.Parse() // exits with 2 where a flag is unknown
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	report, err := gen.Run(ctx, gen.Config{Patterns: flag.Args()})
	stop()
	for _, finding := range report.Findings {
		fmt.Fprintln(os.Stderr, finding)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "streamgen:", err)
		os.Exit(2)
	case len(report.Findings) > 0:
		os.Exit(1)
	}
}
