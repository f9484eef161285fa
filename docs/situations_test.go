package docs_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
)

// The times of the plays.
const (
	claim   = 10 * time.Second
	delay   = 5 * time.Second // what RetryAfter asks for, and the backoff
	timeout = time.Second
	// longDelay is longer than what a message needs to be handed back, patience than what it needs to be taken over.
	longDelay = 20 * time.Second
	patience  = 60 * time.Second
	liveness  = 30 * time.Second
)

// situation is one row of the table: what happens to a message.
type situation struct {
	row string
	// answers are what the handler does at its first run; each of them has to come to the same. At later runs it
	// acknowledges.
	answers []answer
	// mounts are what the mount may say; each of them has to come to the same.
	mounts []mount
	// fails: the handler does the same at every run.
	fails bool
	// reason is that of the dead letter.
	reason string
	// set: the directive has a delay-set.
	set bool
	// malformed: the message is none that the handler could take.
	malformed bool
	// end is what happens to the process when the handler has been called.
	end ending
}

// ending is how a process ends in a play.
type ending int

const (
	goesOn ending = iota
	// dies: its connections are cut and it never gets another one, while the handler runs or the message waits.
	dies
	// stops: it is told to.
	stops
	// stopsBefore: it is told to while another message has the only handler.
	stopsBefore
)

// answer is one way in which a handler ends.
type answer struct {
	name string
	// give is called with the run's context.
	give func(ctx context.Context) outcome.HandlerOutcome
	// waits is how long the next attempt has to wait.
	waits time.Duration
	// timed: the directive has a timeout.
	timed bool
}

var errFailed = errors.New("it failed")

// gives answers o.
func gives(o outcome.HandlerOutcome) answer {
	a := answer{name: o.Kind().String(), give: func(context.Context) outcome.HandlerOutcome { return o }}
	switch o.Kind() {
	case outcome.KindRetryAfter:
		a.waits = o.Delay()
	case outcome.KindFail, outcome.KindNone:
		a.waits = delay
	}
	return a
}

// untilCut works until its context ends.
func untilCut(ctx context.Context) outcome.HandlerOutcome {
	<-ctx.Done()
	return outcome.Of(ctx.Err())
}

var (
	failures = []answer{
		gives(outcome.Of(errFailed)),
		{name: "panic", give: func(context.Context) outcome.HandlerOutcome { panic(errFailed) }, waits: delay},
		{name: "deadline", give: untilCut, waits: delay, timed: true},
		gives(outcome.HandlerOutcome{}),
	}
	atOnce      = []answer{gives(outcome.Retry()), {name: "retry after nothing", give: gives(outcome.RetryAfter(0)).give}}
	allWaits    = slices.Concat([]answer{gives(outcome.RetryAfter(delay))}, failures)
	allFailures = slices.Concat(allWaits, atOnce)
	rejects     = []answer{gives(outcome.DeadLetter(errFailed))}
	runs        = []answer{{name: "runs", give: untilCut}}
)

// mount is what a mount says of failures.
type mount struct {
	options []app.MountOption
	// runs is how many of them a message has that always fails, where that has an end.
	runs int
}

var (
	uncapped      = mount{}
	once          = mount{[]app.MountOption{app.MaxAttempts(1)}, 1}
	twice         = mount{[]app.MountOption{app.MaxAttempts(2)}, 2}
	thrice        = mount{[]app.MountOption{app.MaxAttempts(3)}, 3}
	letters       = mount{[]app.MountOption{app.DeadLetter("dlq")}, 1}
	twiceLetters  = mount{[]app.MountOption{app.MaxAttempts(2), app.DeadLetter("dlq")}, 2}
	thriceLetters = mount{[]app.MountOption{app.MaxAttempts(3), app.DeadLetter("dlq")}, 3}
)

// situations are the rows, in no order that matters.
var situations = []situation{
	{row: "Ack", answers: []answer{gives(outcome.Ack())}, mounts: []mount{uncapped, letters, twiceLetters}},
	{row: "Drop", answers: []answer{gives(outcome.Drop())}, mounts: []mount{uncapped, letters, twiceLetters}},
	{row: "Retry", answers: atOnce, mounts: []mount{uncapped}},
	{row: "Retry, with a cap", answers: atOnce, mounts: []mount{thrice, thriceLetters}},
	{row: "RetryAfter(d)", answers: []answer{gives(outcome.RetryAfter(delay))}, mounts: []mount{uncapped}},
	{row: "RetryAfter(d), with a cap", answers: []answer{gives(outcome.RetryAfter(delay))}, mounts: []mount{thrice, thriceLetters}},
	{row: "error, panic, missed deadline, zero outcome", answers: failures, mounts: []mount{uncapped}},
	{row: "the same, with a cap", answers: failures, mounts: []mount{thrice, thriceLetters}},
	{row: "any of these waits, with `delay-set=`", answers: allWaits, mounts: []mount{uncapped, thriceLetters}, set: true},
	{row: "DeadLetter(err), with a dead letter", answers: rejects, mounts: []mount{letters, thriceLetters}, reason: broker.ReasonRejected},
	{row: "DeadLetter(err), without", answers: rejects, mounts: []mount{uncapped, thrice}},
	{
		row: "the last failure, with a dead letter", answers: allFailures, mounts: []mount{letters, twiceLetters},
		fails: true, reason: broker.ReasonMaxAttempts,
	},
	{row: "the last failure, without", answers: allFailures, mounts: []mount{once, twice}, fails: true},
	{
		row: "cannot be decoded, with a dead letter", answers: runs, mounts: []mount{letters, thriceLetters},
		malformed: true, reason: broker.ReasonMalformed,
	},
	{row: "cannot be decoded, without", answers: runs, mounts: []mount{uncapped, thrice}, malformed: true},
	{row: "the process dies while the handler runs", answers: runs, mounts: []mount{uncapped}, end: dies},
	{
		row: "the process dies while the message waits", answers: []answer{gives(outcome.RetryAfter(patience))},
		mounts: []mount{uncapped, thriceLetters}, end: dies,
	},
	{row: "a stop before the handler begins", answers: runs, mounts: []mount{uncapped}, end: stopsBefore},
	{row: "a stop cuts the handler short", answers: runs, mounts: []mount{uncapped, thriceLetters}, end: stops},
	{
		row: "a stop while the message waits", answers: []answer{gives(outcome.RetryAfter(longDelay))},
		mounts: []mount{uncapped, thriceLetters}, end: stops,
	},
}
