package brokertest

import (
	"context"
	"crypto/rand"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	streamrt "github.com/millrace-go/millrace/runtime"
)

// mode is a way to keep delays.
type mode struct {
	name   string
	claims bool
	set    bool
}

var modes = []mode{
	{name: "memory"},
	{name: "delay-set", set: true},
	{name: "claiming", claims: true},
	{name: "claiming with a delay-set", claims: true, set: true},
}

// ownRecords are the modes whose recovery is told apart: taking from dead owners, and claiming what is idle.
var ownRecords = []mode{{name: "plain"}, {name: "claiming", claims: true}}

// spec is a subscription of that mode. Its name is unique, as the keys are.
func (m mode) spec(k keys) streamrt.Spec {
	spec := streamrt.Spec{Name: k.stream, Stream: k.stream, Group: k.group}
	if m.claims {
		spec.Claim = claimTime
	}
	if m.set {
		spec.DelaySet = k.delaySet
	}
	return spec
}

// copies tells whether a message whose delay is positive is copied: without a set a claimed entry stays where it is.
func (m mode) copies() bool { return !m.claims || m.set }

// uniqueKeys are keys that nobody else uses on the server.
func uniqueKeys() keys { return newKeys("brokertest."+rand.Text(), 0) }

// mustEntries is entries for a test that cannot go on without them.
func mustEntries(t testing.TB, target Target, key string) []entry {
	t.Helper()
	all, err := entries(t.Context(), target.Client, key)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// awaitRest waits until the server has nothing left to hand out to the group.
func awaitRest(t testing.TB, target Target, k keys) state {
	t.Helper()
	var st state
	await(t, "stream "+k.stream+" comes to rest", func(ctx context.Context) bool {
		var err error
		st, err = look(ctx, target.Client, k.stream, k.group, k.delaySet)
		return err == nil && st.atRest()
	})
	return st
}

// sawAttempts compares the attempt numbers that a handler saw with 1, 2, … n.
func sawAttempts(t testing.TB, what string, calls []call, n int) {
	t.Helper()
	if got, want := attemptsOf(calls), upTo(n); !slices.Equal(got, want) {
		t.Errorf("%s: the handler saw the attempts %v, want %v", what, got, want)
	}
}

// pending lists what the group holds.
func pending(ctx context.Context, target Target, k keys) ([]redis.XPendingExt, error) {
	return target.Client.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: k.stream, Group: k.group, Start: "-", End: "+", Count: 1000,
	}).Result()
}
