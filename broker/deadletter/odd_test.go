package deadletter_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/deadletter"
)

// Records of any size and shape go back as they were, also those that no script can append, and those with the largest ids
// that there are.
func TestOddRecordsGoBackAsTheyWere(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		var wide []string
		for i := range 2500 {
			wide = append(wide, fmt.Sprint("f", i%1000), fmt.Sprint(i)) // names repeat
		}
		large := strings.Repeat("\x00\xff\x1b[31m\n", 150_000)
		originals := map[string][]string{
			"1-1":                    {"_payload", "plain"},
			"1-2":                    {"_payload", ""},
			"1-18446744073709551615": {"_payload", large},
			"2-0":                    append([]string{"_payload", "wide"}, wide...),
			"3-0":                    {"_payload", "first", "_payload", "second", "h:x", "1", "h:x", "2", "", "no name"},
			"18446744073709551615-18446744073709551614": {"_payload", "last but one"},
			"18446744073709551615-18446744073709551615": {"_payload", "last"},
		}
		ids := []string{"1-1", "1-2", "1-18446744073709551615", "2-0", "3-0", "18446744073709551615-18446744073709551614", "18446744073709551615-18446744073709551615"}
		for _, source := range []string{"{s}.dlq.source", "elsewhere"} { // on a cluster in the dead letter's slot, and in another
			for _, id := range ids {
				values := slices.Concat(originals[id], []string{"dlq_reason", "rejected", "dlq_source", source, "dlq_group", "g", "dlq_at", "1777907439167"})
				must(s.client.XAdd(t.Context(), &redis.XAddArgs{Stream: "{s}.dlq", ID: id, Values: values}).Result())
			}
			q := s.letters(t, "{s}.dlq")
			if last := must(q.Get(t.Context(), ids[len(ids)-1])); string(last.Body) != "last" {
				t.Errorf("the last record is %q", last.Body)
			}
			part := replay(t, q, deadletter.Filter{}, deadletter.Report{Examined: 3, Matched: 3, Done: 3}, deadletter.Max(3))
			replay(t, q, deadletter.Filter{}, all(len(ids)-3), deadletter.Resume(part.Cursor))
			back := rawEntries(t, s, source)
			if len(back) != len(ids) {
				t.Fatalf("%d entries came back", len(back))
			}
			// What no script can append is written behind the others of its page.
			for i, id := range []string{ids[0], ids[1], ids[2], ids[4], ids[5], ids[6], ids[3]} {
				if s.cluster && source == "elsewhere" {
					id = ids[i]
				}
				want := slices.Concat(originals[id], []string{"h:" + broker.HeaderReplays, "1", "h:" + broker.HeaderRetryGroup, "g"})
				if !slices.Equal(back[i], want) {
					t.Errorf("%s came back with %d values instead of %d: %.200q", id, len(back[i]), len(want), back[i])
				}
			}
			if left := s.length(t, stream, "{s}.dlq"); left != 0 {
				t.Errorf("%d are left", left)
			}
			s.client.Del(t.Context(), "{s}.dlq")
		}
	})
}
