package brokertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// newGroup makes the group before any process does.
func newGroup(t testing.TB, target Target, k keys) {
	t.Helper()
	if err := target.Client.XGroupCreateMkStream(t.Context(), k.stream, k.group, "0").Err(); err != nil {
		t.Fatal(err)
	}
}

// add appends a message as a program without this library would.
func add(t testing.TB, target Target, key, body string, more ...any) string {
	t.Helper()
	id, err := target.Client.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: append([]any{fieldPayload, body}, more...)}).Result()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// readAs has the group hand the next entries to a consumer that has no liveness key: a process that died with them in hand,
// once they have been idle for long enough, or a program of somebody else's.
func readAs(t testing.TB, target Target, k keys, consumer string, n int64) {
	t.Helper()
	err := target.Client.XReadGroup(t.Context(), &redis.XReadGroupArgs{
		Group: k.group, Consumer: consumer, Streams: []string{k.stream, ">"}, Count: n,
	}).Err()
	if err != nil {
		t.Fatal(err)
	}
}

// seize gives a pending entry to a consumer that is dead, idle for long, with the delivery count that it has then.
func seize(t testing.TB, target Target, k keys, id, consumer string, count int64) {
	t.Helper()
	seizeFor(t, target, k, id, consumer, count, time.Hour)
}

// seizeFor is seize with the idle time that the entry has then.
func seizeFor(t testing.TB, target Target, k keys, id, consumer string, count int64, idle time.Duration) {
	t.Helper()
	err := target.Client.Do(t.Context(), "XCLAIM", k.stream, k.group, consumer, 0, id, "IDLE", idle.Milliseconds(), "RETRYCOUNT", count, "JUSTID").Err()
	if err != nil {
		t.Fatal(err)
	}
}

// abandon adds a message that a dead process left at the delivery count, and returns the entry's id.
func abandon(t testing.TB, target Target, k keys, body string, count int64, more ...any) string {
	t.Helper()
	id := add(t, target, k.stream, body, more...)
	readAs(t, target, k, "dead", 1)
	seize(t, target, k, id, "dead", count)
	return id
}

// consumers lists the group's consumers but the reserved one that owns what is free.
func consumers(ctx context.Context, target Target, k keys) []string {
	var names []string
	for _, c := range target.Client.XInfoConsumers(ctx, k.stream, k.group).Val() {
		if c.Name != freeConsumer {
			names = append(names, c.Name)
		}
	}
	return names
}

// aliveKey is the liveness key of a consumer, written out as other programs would.
func aliveKey(k keys, consumer string) string {
	return fmt.Sprintf("{%s}:alive:%s:%s", k.stream, k.group, consumer)
}

// consumersAlive are the liveness keys of the group.
func consumersAlive(t testing.TB, target Target, k keys) []string {
	t.Helper()
	names, err := target.Client.Keys(t.Context(), aliveKey(k, "*")).Result()
	if err != nil || len(names) == 0 {
		t.Fatalf("liveness keys %v, %v", names, err)
	}
	return names
}
