package deadletter_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/deadletter"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// What docs/dead-letters.md says that a user needs for a dead letter in a stream, and for one in a list.
var documentedRights = map[structure][]string{
	stream: {"+ping", "+hello", "+select", "+type", "+time", "+evalsha", "+eval", "+xlen", "+xrange", "+xrevrange", "+xadd", "+xdel"},
	list:   {"+ping", "+hello", "+select", "+type", "+time", "+evalsha", "+eval", "+llen", "+lrange", "+lindex", "+lpos", "+lpush", "+lset", "+lrem"},
}

func TestTheGuideListsTheRightsOfAReplay(t *testing.T) {
	guide, err := os.ReadFile("../../docs/dead-letters.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "**Rights.**")
	for _, kind := range []structure{stream, list} {
		var block string
		_, rest, _ = strings.Cut(rest, "```text\n")
		block, rest, _ = strings.Cut(rest, "```")
		if listed := strings.Fields(block); !slices.Equal(listed, documentedRights[kind]) {
			t.Errorf("docs/dead-letters.md lists for a %s %v, the tests run with %v", kind, listed, documentedRights[kind])
		}
	}
}

// The rights of the guide are enough for all there is to do, and without any of them the error says that one is missing. (Of
// a command within a script Redis 7.0 does not say which.)
func TestTheRightsOfAReplayAreEnoughAndNeeded(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		server = server.Own(t)
		s := &site{client: server.Client(), connect: func(o ...redisbroker.Option) broker.Broker { return redisbroker.Standalone(server.URL(), o...) }}
		both(t, s, func(t *testing.T, kind structure) {
			s.bury(t, kind, "source", "dlq", "a", "b", "c")
			records := must(s.client.Dump(t.Context(), "dlq").Result())
			work := func(rights []string) error {
				rules := slices.Concat([]string{"ACL", "SETUSER", "operator", "reset", "on", ">secret", "resetkeys", "~dlq", "~source"}, rights)
				args := make([]any, len(rules))
				for i, r := range rules {
					args[i] = r
				}
				if err := s.client.Do(t.Context(), args...).Err(); err != nil {
					t.Fatal(err)
				}
				s.client.Del(t.Context(), "dlq", "source")
				s.client.ScriptFlush(t.Context())
				must(s.client.Restore(t.Context(), "dlq", 0, records).Result())
				options := must(redis.ParseURL(server.URL()))
				b := redisbroker.Standalone(fmt.Sprintf("redis://operator:secret@%s/%d", options.Addr, options.DB))
				defer b.Close(t.Context())
				q := deadletter.Open(b, "dlq")
				if _, err := q.Len(t.Context()); err != nil {
					return err
				}
				if _, err := q.Stats(t.Context(), deadletter.Filter{}); err != nil {
					return err
				}
				report, err := q.Replay(t.Context(), deadletter.Filter{}, deadletter.Max(2))
				if err == nil && report.Refused > 0 {
					err = report.Refusals[0].Err
				}
				if err != nil {
					return err
				}
				_, err = q.Purge(t.Context(), deadletter.Filter{})
				return err
			}
			if err := work(documentedRights[kind]); err != nil {
				t.Fatalf("with all of them: %v", err)
			}
			if moved, left := s.length(t, kind, "source"), s.length(t, kind, "dlq"); moved != 2 || left != 0 {
				t.Errorf("%d were replayed and %d are left, want 2 and 0", moved, left)
			}
			for i, right := range documentedRights[kind] {
				rest := slices.Delete(slices.Clone(documentedRights[kind]), i, i+1)
				switch right {
				case "+ping", "+hello", "+select": // the connection's, and not of every topology
					continue
				}
				err := work(rest)
				if err == nil {
					t.Errorf("it works without %s", right)
				} else if text := strings.ToLower(err.Error()); !strings.Contains(text, right[1:]) && !strings.Contains(text, "can't run this command") {
					t.Errorf("without %s: %v", right, err)
				}
			}
		})
	})
}
