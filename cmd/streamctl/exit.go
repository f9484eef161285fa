package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/millrace-go/millrace/broker/deadletter"
)

// The exit codes.
const (
	exitDone        = 0
	exitFindings    = 1 // something was found, is missing, or was refused
	exitUsage       = 2
	exitServer      = 3
	exitInterrupted = 130
)

// ended tells how a call went, on the standard error, and returns its exit code.
func (s *session) ended(ctx context.Context, cmd *cobra.Command, err error) int {
	code := s.code(ctx, err)
	if err == nil || errors.Is(err, errFindings) {
		return code
	}
	text := redact(err.Error())
	if code == exitInterrupted {
		text = "interrupted"
	}
	s.say("streamctl: %s", text)
	if code == exitUsage {
		s.say("streamctl: see %s --help", cmd.CommandPath())
	}
	return code
}

func (s *session) code(ctx context.Context, err error) int {
	var wrong usageError
	var part failedError
	switch {
	case err == nil:
		return exitDone
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.As(err, &wrong), errors.Is(err, deadletter.ErrInvalid), !s.started:
		return exitUsage
	case errors.As(err, &part), errors.Is(err, errFindings), errors.Is(err, deadletter.ErrNoKey), errors.Is(err, deadletter.ErrNoRecord):
		return exitFindings
	default:
		return exitServer
	}
}

// ofServer tells that the server refused, or did not answer.
func ofServer(err error) bool {
	var refused redis.Error
	var network net.Error
	return errors.As(err, &refused) || errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, redis.ErrClosed)
}

// errFindings ends a call that has said all there is to say, with code 1.
var errFindings = errors.New("there were findings")

// usageError is a call that is wrong whatever the server says.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// failedError is what could not be done although the server answers.
type failedError struct{ error }

func (e failedError) Unwrap() error { return e.error }

func failed(format string, args ...any) error { return failedError{fmt.Errorf(format, args...)} }

// credentials are what stands between a URL's scheme and its host.
var credentials = regexp.MustCompile(`(\w://)[^/\s"']*@`)

// redact takes the credentials out of URLs that somebody has put where no URL belongs.
func redact(text string) string { return credentials.ReplaceAllString(text, "$1***@") }
