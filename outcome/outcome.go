// Package outcome is what a handler answers: acknowledge the message, try it again, or give it up.
//
// An outcome is a plain comparable value, so a test of a handler alone writes
//
//	if got := handle(ctx, msg); got != outcome.RetryAfter(30*time.Second) { ... }
package outcome

import (
	"fmt"
	"reflect"
	"time"
)

// Kind says which of the answers a [HandlerOutcome] is.
type Kind uint8

const (
	// KindNone is the kind of the zero HandlerOutcome. It is a failure, never an acknowledgement: a handler that
	// forgets to answer must not lose the message.
	KindNone Kind = iota
	// KindAck is the kind of [Ack].
	KindAck
	// KindDrop is the kind of [Drop].
	KindDrop
	// KindRetry is the kind of [Retry].
	KindRetry
	// KindRetryAfter is the kind of [RetryAfter].
	KindRetryAfter
	// KindDeadLetter is the kind of [DeadLetter].
	KindDeadLetter
	// KindFail is the kind of an error that [Of] turned into an outcome: a failure that waits as the mount's backoff
	// says. A panic and a missed deadline are handled the same way.
	KindFail
)

var kindNames = [...]string{"none", "ack", "drop", "retry", "retry_after", "dead_letter", "fail"}

// String returns the name that logs and metrics use: ack, drop, retry, retry_after, dead_letter, fail, none.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// HandlerOutcome is the answer of one delivery. The zero value is a failure. Values are immutable, comparable with ==
// and safe to share between goroutines. Two outcomes with different causes ([HandlerOutcome.WithError]) differ.
type HandlerOutcome struct {
	kind  Kind
	delay time.Duration
	err   error
}

// Ack settles the message: it is acknowledged and never delivered again.
func Ack() HandlerOutcome { return HandlerOutcome{kind: KindAck} }

// Drop settles the message without success: it is acknowledged, goes nowhere (not to the dead letter either), and is
// counted as dropped. For work that another attempt cannot help and nobody needs to look at.
func Drop() HandlerOutcome { return HandlerOutcome{kind: KindDrop} }

// Retry is a failure that asks for another attempt at once. On a stream a copy with the raised attempt count is
// appended and the original acknowledged, in one step; a claiming subscription leaves the entry pending and takes it
// back after its claim time. A message that has used up the mount's MaxAttempts is not retried.
func Retry() HandlerOutcome { return HandlerOutcome{kind: KindRetry} }

// RetryAfter is a failure that asks for another attempt after d, never earlier. Where the delay is kept (in memory, in
// the subscription's delay set, or by claiming) is the subscription's choice. Any duration is safe: d <= 0 is an
// immediate retry that still counts as an attempt, and the largest duration is clamped.
func RetryAfter(d time.Duration) HandlerOutcome {
	return HandlerOutcome{kind: KindRetryAfter, delay: d}
}

// DeadLetter sends the message straight to the mount's dead letter with reason "rejected" and err as its cause,
// however many attempts are left. On a mount without a dead letter the message is acknowledged, logged as an error and
// counted as rejected.
func DeadLetter(err error) HandlerOutcome {
	return HandlerOutcome{kind: KindDeadLetter, err: comparably(err)}
}

// Of turns an error into an outcome: nil is [Ack], anything else is a failure that is tried again after the mount's
// backoff. It is what a handler that returns error gets.
func Of(err error) HandlerOutcome {
	if err == nil {
		return Ack()
	}
	return HandlerOutcome{kind: KindFail, err: comparably(err)}
}

// WithError returns the outcome with err as its cause, which is kept in the message's history and in its dead letter.
// It changes nothing else: Ack().WithError(err) is still an acknowledgement.
func (o HandlerOutcome) WithError(err error) HandlerOutcome {
	o.err = comparably(err)
	return o
}

// Kind returns which answer it is.
func (o HandlerOutcome) Kind() Kind { return o.kind }

// Delay returns what [RetryAfter] was given, and zero for every other kind.
func (o HandlerOutcome) Delay() time.Duration { return o.delay }

// Err returns the cause, or nil.
func (o HandlerOutcome) Err() error {
	if w, ok := o.err.(*incomparable); ok { //nolint:errorlint // ours is outermost; what it wraps is the caller's
		return w.error
	}
	return o.err
}

// String returns the outcome for logs: "ack", "retry_after(30s)", "fail: connection refused".
func (o HandlerOutcome) String() string {
	s := o.kind.String()
	if o.kind == KindRetryAfter {
		s = fmt.Sprintf("%s(%s)", s, o.delay)
	}
	if o.err != nil {
		s += ": " + o.err.Error()
	}
	return s
}

// incomparable carries an error whose dynamic type == would panic on (a slice of field errors, say). Behind a pointer
// the outcome that holds it stays comparable.
type incomparable struct{ error }

// comparably runs only where there is a cause, so that reflection stays off the way of a message that succeeds.
func comparably(err error) error {
	if err == nil || reflect.ValueOf(err).Comparable() {
		return err
	}
	return &incomparable{err}
}
