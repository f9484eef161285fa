package deadletter_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/outcome"
)

// zAt is a member of a delay set that is due.
func zAt(member any) redis.Z { return redis.Z{Score: 1, Member: member} }

func acksNumbers(context.Context, int) outcome.HandlerOutcome { return outcome.Ack() }

// rawEntries reads the names and values of all entries, repeated ones and order kept.
func rawEntries(t testing.TB, s *site, key string) (entries [][]string) {
	t.Helper()
	for _, e := range must(s.client.Do(t.Context(), "XRANGE", key, "-", "+").Slice()) {
		var fields []string
		for _, f := range e.([]any)[1].([]any) {
			fields = append(fields, fmt.Sprint(f))
		}
		entries = append(entries, fields)
	}
	return entries
}
