package app

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestExponentialDefaults(t *testing.T) {
	e := Exponential{NoJitter: true}
	for attempt, want := range map[int]time.Duration{
		-1: time.Second, 0: time.Second, 1: time.Second, 2: 2 * time.Second, 9: 256 * time.Second, 10: 5 * time.Minute,
		64: 5 * time.Minute, 5000: 5 * time.Minute, math.MaxInt: 5 * time.Minute,
	} {
		if got := e.delay(attempt, nil); got != want {
			t.Errorf("attempt %d: %s, want %s", attempt, got, want)
		}
	}
}

func TestExponentialStaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Exponential{
			Initial: time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "initial")),
			Max:     time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "max")),
			Factor:  rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1, math.MaxFloat64)).Draw(t, "factor"),
		}
		attempt := rapid.Int().Draw(t, "attempt")
		longest := e.Max
		if longest == 0 {
			longest = defaultMax
		}
		exact, jittered := e.exact(attempt), e.delay(attempt, nil)
		if exact < 0 || exact > longest || jittered < exact/2 || jittered > exact {
			t.Fatalf("exact %s, with jitter %s, cap %s", exact, jittered, longest)
		}
		if next := e.exact(attempt); attempt < math.MaxInt && e.exact(attempt+1) < next {
			t.Fatalf("attempt %d waits shorter than the one before", attempt+1)
		}
	})
}

func TestBackoffFuncGetsAttemptAndError(t *testing.T) {
	cause := errors.New("busy")
	f := BackoffFunc(func(attempt int, err error) time.Duration {
		if attempt != 3 || !errors.Is(err, cause) {
			t.Errorf("called with %d, %v", attempt, err)
		}
		return time.Minute
	})
	if got := f.delay(3, cause); got != time.Minute {
		t.Error(got)
	}
}

func TestValidStart(t *testing.T) {
	for s, want := range map[string]bool{
		"0": true, "$": true, "0-0": true, "1526919030474-55": true, "18446744073709551615-18446744073709551615": true,
		"": false, "-": false, "1-": false, "-1": false, "a": false, "1-2-3": false, ">": false, "18446744073709551616": false,
	} {
		if validStart(s) != want {
			t.Errorf("%q: %v", s, !want)
		}
	}
}

func TestHasHashTag(t *testing.T) {
	for key, want := range map[string]bool{
		"a": false, "{a}": true, "x{a}y": true, "a{}b": false, "foo}bar": false, "a}{b}": true, "{a": false,
	} {
		if hasHashTag(key) != want {
			t.Errorf("%q: %v", key, !want)
		}
	}
}
