// Command streamctl is the operator's tool: it reads what subscriptions left on a server, gives dead letters another
// chance, moves or removes what is delayed, and says what is wrong.
//
//	streamctl doctor
//	streamctl dlq stats refunds.dlq
//	streamctl dlq replay refunds.dlq --reason max_attempts --max 10
//
// docs/streamctl.md has all commands. It exits with 0 where all was done, with 1 where something was found, missing or
// refused, with 2 where it was called wrongly, with 3 where the server could not be reached or refused, and with 130 where
// it was interrupted.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/millrace-go/millrace/broker/redisbroker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], world{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv,
		asks:  isTerminal(os.Stdin) && isTerminal(os.Stderr),
		draws: isTerminal(os.Stderr),
		types: isTerminal(os.Stdin),
		open:  func(t target) (*redisbroker.Broker, error) { return t.broker() },
	}))
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) } //nolint:gosec // a file descriptor is a small number
