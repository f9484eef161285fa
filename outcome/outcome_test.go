package outcome_test

import (
	"errors"
	"testing"
	"time"

	"github.com/millrace-go/millrace/outcome"
)

type fieldErrors []string

func (f fieldErrors) Error() string { return f[0] }

func TestTheZeroOutcomeIsNoAcknowledgement(t *testing.T) {
	var zero outcome.HandlerOutcome
	if zero.Kind() != outcome.KindNone || zero == outcome.Ack() {
		t.Fatalf("the zero outcome is %v", zero)
	}
}

func TestOutcomesCompare(t *testing.T) {
	cause := errors.New("busy")
	equal := [][2]outcome.HandlerOutcome{
		{outcome.Ack(), outcome.Ack()},
		{outcome.RetryAfter(time.Second), outcome.RetryAfter(time.Second)},
		{outcome.Retry().WithError(cause), outcome.Retry().WithError(cause)},
		{outcome.Of(nil), outcome.Ack()},
		{outcome.DeadLetter(cause), outcome.DeadLetter(cause)},
		{outcome.Retry().WithError(cause).WithError(nil), outcome.Retry()},
	}
	for _, e := range equal {
		if e[0] != e[1] {
			t.Errorf("%v != %v", e[0], e[1])
		}
	}
	different := [][2]outcome.HandlerOutcome{
		{outcome.Ack(), outcome.Drop()},
		{outcome.RetryAfter(time.Second), outcome.RetryAfter(2 * time.Second)},
		{outcome.RetryAfter(0), outcome.Retry()},
		{outcome.Retry(), outcome.Retry().WithError(cause)},
		{outcome.Of(cause), outcome.Retry().WithError(cause)},
	}
	for _, d := range different {
		if d[0] == d[1] {
			t.Errorf("%v == %v", d[0], d[1])
		}
	}
}

func TestAnErrorThatCannotBeComparedDoesNotPanic(t *testing.T) {
	err := fieldErrors{"name is empty"}
	a, b := outcome.Of(err), outcome.Of(err)
	_ = a == b
	var got fieldErrors
	if !errors.As(a.Err(), &got) || got[0] != "name is empty" {
		t.Fatalf("Err() = %v, want the error that was given", a.Err())
	}
	if a.String() != "fail: name is empty" {
		t.Fatalf("String() = %q", a.String())
	}
}

func TestString(t *testing.T) {
	for want, o := range map[string]outcome.HandlerOutcome{
		"none":                {},
		"ack":                 outcome.Ack(),
		"drop":                outcome.Drop(),
		"retry":               outcome.Retry(),
		"retry_after(30s)":    outcome.RetryAfter(30 * time.Second),
		"dead_letter: closed": outcome.DeadLetter(errors.New("closed")),
	} {
		if o.String() != want {
			t.Errorf("got %q, want %q", o.String(), want)
		}
	}
	if outcome.RetryAfter(-5*time.Second).Delay() != -5*time.Second || outcome.Retry().Delay() != 0 {
		t.Error("Delay() is not what RetryAfter was given")
	}
}
