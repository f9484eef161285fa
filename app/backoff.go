package app

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// The defaults of [Exponential].
const (
	defaultInitial = time.Second
	defaultMax     = 5 * time.Minute
	defaultFactor  = 2
)

// BackoffPolicy says how long a failed message waits, see [Backoff]. It is one of [Exponential] and [BackoffFunc].
type BackoffPolicy interface {
	// delay is the wait after the failure of the attempt.
	delay(attempt int, err error) time.Duration
	// longest is the longest wait among the first attempts failures (any number for attempts < 0), and false where it
	// cannot be told beforehand.
	longest(attempts int) (time.Duration, bool)
	// problem is what is wrong with the policy, "" for nothing.
	problem() string
}

// Exponential waits min(Max, Initial × Factor^(attempt−1)), and with jitter a random part of that between a half and
// the whole, so that messages that failed together do not come back together. The zero value is the default policy:
// 1 s, doubling, at most 5 min, with jitter.
type Exponential struct {
	// Initial is the wait after the first failure; 0 means 1 s.
	Initial time.Duration
	// Max is the longest wait, jitter included; 0 means 5 min.
	Max time.Duration
	// Factor is how much longer each wait is than the one before, at least 1; 0 means 2.
	Factor float64
	// NoJitter makes the waits exact.
	NoJitter bool
}

func (e Exponential) delay(attempt int, _ error) time.Duration {
	d := e.exact(attempt)
	if e.NoJitter || d < 2 {
		return d
	}
	return d/2 + rand.N(d-d/2+1)
}

// exact is the wait without jitter. The power is computed as a float, which becomes infinite where an integer would
// overflow.
func (e Exponential) exact(attempt int) time.Duration {
	initial, longest, factor := e.Initial, e.Max, e.Factor
	if initial == 0 {
		initial = defaultInitial
	}
	if longest == 0 {
		longest = defaultMax
	}
	if factor == 0 {
		factor = defaultFactor
	}
	d := float64(initial) * math.Pow(factor, float64(max(attempt, 1)-1))
	if d < float64(longest) {
		return time.Duration(d)
	}
	return longest
}

func (e Exponential) longest(attempts int) (time.Duration, bool) {
	if attempts < 0 {
		attempts = math.MaxInt
	}
	if attempts == 0 {
		return 0, true
	}
	return e.exact(attempts), true
}

func (e Exponential) problem() string {
	switch {
	case e.Initial < 0:
		return fmt.Sprintf("Backoff(Exponential{Initial: %s}) is negative; give a positive duration", e.Initial)
	case e.Max < 0:
		return fmt.Sprintf("Backoff(Exponential{Max: %s}) is negative; give a positive duration", e.Max)
	case e.Factor != 0 && !(e.Factor >= 1):
		return fmt.Sprintf("Backoff(Exponential{Factor: %v}) makes waits shorter; give at least 1", e.Factor)
	}
	return ""
}

// BackoffFunc computes the wait after the failure of the attempt (1 for the first) with the error that it ended with,
// which is nil where the handler gave none. What is negative counts as 0, which is a retry at once. It is called
// concurrently.
type BackoffFunc func(attempt int, err error) time.Duration

func (f BackoffFunc) delay(attempt int, err error) time.Duration { return f(attempt, err) }
func (f BackoffFunc) longest(int) (time.Duration, bool)          { return 0, false }

func (f BackoffFunc) problem() string {
	if f == nil {
		return "Backoff(BackoffFunc(nil)) has no function; give one"
	}
	return ""
}
