// Package chaos shows what the library keeps when processes, connections and servers do not: real worker processes are
// killed, frozen, stopped and started again, connections are cut between a request and its reply, servers run out of
// memory, turn read-only or go away. It is made of tests and of what they need.
//
// A worker is the test program itself, started again with an environment variable (see [worker]), so that nothing has to
// be built and what runs is what is tested. Every call of a handler is written to a [journal] outside of Redis that
// survives the death of its writer. In the end a [verdict] compares three things: what the messages asked for, what the
// journal says was called, and what stands on the server.
//
// The tests take a few minutes at most. With MILLRACE_SOAK=1 they take longer and do more, and with MILLRACE_SOAK=30m about
// that long; `just soak` sets it. Under -short those run, cut down, that show what races: go test -race -short.
package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/millrace-go/millrace/outcome"
)

// job is the payload of every message: what its handler is to do at which attempt.
type job struct {
	// Key tells messages apart, in the journal and on the server.
	Key string
	// Steps are what happens at the first attempt, the second and so on; the last one repeats.
	Steps []step
}

// step is one run of the handler.
type step struct {
	// Do is how the run ends.
	Do ending
	// Work is how long the handler takes first.
	Work time.Duration `json:",omitempty"`
	// After is the delay of [endRetryAfter].
	After time.Duration `json:",omitempty"`
	// Gate is a file that the handler waits for, or for the end of its context, which is a failure.
	Gate string `json:",omitempty"`
	// Stubborn handlers wait for the gate whatever becomes of their context.
	Stubborn bool `json:",omitempty"`
}

// ending is how a run ends.
type ending string

const (
	endAck        ending = "ack"
	endRetry      ending = "retry"
	endRetryAfter ending = "retry-after"
	endFail       ending = "fail"
	// endExit ends the process in the middle of the handler.
	endExit ending = "exit"
)

// exitCode is what a worker ends with that a job took down.
const exitCode = 7

// errAsked is the failure of a job that is to fail.
var errAsked = errors.New("asked to fail")

func (j job) encode() []byte {
	text, err := json.Marshal(j)
	if err != nil {
		panic("chaos: a job cannot be encoded: " + err.Error()) // it holds text and numbers only
	}
	return text
}

// at is the step of an attempt, from 1.
func (j job) at(attempt int) step { return j.Steps[min(max(attempt, 1), len(j.Steps))-1] }

// run does what the step says. Failures carry the signature of the call, so that what stands on the server tells which
// call asked for it.
func (s step) run(ctx context.Context, signature string) outcome.HandlerOutcome {
	time.Sleep(s.Work) // what the handler does takes its time
	signed := func(err error) error { return fmt.Errorf("%w %s", err, signature) }
	if s.Gate != "" {
		if err := s.wait(ctx); err != nil {
			return outcome.Of(signed(err))
		}
	}
	switch s.Do {
	case endAck:
		return outcome.Ack()
	case endRetry:
		return outcome.Retry().WithError(signed(errAsked))
	case endRetryAfter:
		return outcome.RetryAfter(s.After).WithError(signed(errAsked))
	case endExit:
		os.Exit(exitCode)
	}
	return outcome.Of(signed(errAsked))
}

// wait waits until the gate exists. The error is why the context ended before.
func (s step) wait(ctx context.Context) error {
	if s.Stubborn {
		ctx = context.WithoutCancel(ctx)
	}
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := os.Stat(s.Gate); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// course is what a job asks of a mount: how many attempts it has, and whether the last of them is buried.
func (j job) course(maxAttempts int) (attempts int, buried bool) {
	for attempts = 1; ; attempts++ {
		switch do := j.at(attempts).Do; {
		case do == endAck:
			return attempts, false
		case attempts == maxAttempts:
			return attempts, true
		}
	}
}

// ordinary are n messages that are acknowledged at once.
func ordinary(n int, work time.Duration) []job {
	jobs := make([]job, n)
	for i := range jobs {
		jobs[i] = job{Key: "m" + strconv.Itoa(i), Steps: []step{{Do: endAck, Work: work}}}
	}
	return jobs
}
