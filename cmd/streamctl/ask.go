package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// asksFirst gives a command the flag that answers its question.
func (s *session) asksFirst(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&s.yes, "yes", "y", false, "do it without asking")
}

// mayAsk refuses a call that would have to ask where there is nobody to answer.
func (s *session) mayAsk(what string) error {
	if s.yes || s.asks {
		return nil
	}
	return usage("%s needs an answer, and this is no terminal: pass --yes to do it without asking", what)
}

// confirm asks whether to go on. Everything but y and yes is no.
func (s *session) confirm(ctx context.Context, format string, args ...any) error {
	if s.yes {
		return nil
	}
	fmt.Fprint(s.stderr, harmless(fmt.Sprintf(format, args...))+" [y/N] ")
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(s.stdin).ReadString('\n') // no line is no answer
		answer <- line
	}()
	select {
	case <-ctx.Done():
		s.say("")
		return ctx.Err()
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		return failed("nothing was done")
	}
}
