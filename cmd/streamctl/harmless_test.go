package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
)

// evil is what a terminal would obey: it changes the colour, and the title of the window.
const evil = "\x1b[31m\x1b]0;evil\x07\u202e\u009b"

// besiege fills the server with names and values that no terminal should be shown as they are, and returns every command with
// what it is best called with, those that change something last.
func (s *stage) besiege() (calls [][]string) {
	s.t.Helper()
	ctx, client := s.t.Context(), s.Client()
	dlq, list, set, text := "dlq"+evil, "list"+evil, "set"+evil, "text"+evil
	values := []string{"_payload", "p" + evil, "h:" + evil, "v" + evil, "h:message-id", "m" + evil, "h:history", "1" + evil}
	for _, field := range []string{"reason", "detail", "id", "group", "handler", "error"} {
		values = append(values, "dlq_"+field, field+evil)
	}
	id := client.XAdd(ctx, xadd(dlq, append(values, broker.FieldSource, text, broker.FieldAt, "1777907439167")...)).Val()
	client.XAdd(ctx, xadd(dlq, "a"+evil, "b"+evil))
	client.XGroupCreate(ctx, dlq, "g"+evil, "0")
	client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g" + evil, Consumer: "c" + evil, Streams: []string{dlq, ">"}, Count: 1})
	client.LPush(ctx, list, "item"+evil)
	client.ZAdd(ctx, set, redis.Z{Score: 1, Member: "member" + evil})
	client.Set(ctx, text, "x", 0)
	file := filepath.Join(s.t.TempDir(), "file")
	for _, key := range []string{dlq, list, set, text, "none" + evil} {
		calls = append(calls, []string{"dlq", "ls", key}, []string{"dlq", "show", key, id}, []string{"dlq", "stats", key}, []string{"dlq", "export", key},
			[]string{"dlq", "replay", key, "--all", "--dry-run"}, []string{"dlq", "purge", key, "--all", "--dry-run"}, []string{"peek", key},
			[]string{"groups", key}, []string{"consumers", key}, []string{"pending", key}, []string{"pending", key, "g" + evil}, []string{"delayed", "ls", key})
	}
	return append(calls, []string{"doctor"}, []string{"groups"}, []string{"dlq", "ls"}, []string{"delayed", "ls"}, []string{evil},
		[]string{"dlq", evil}, []string{"dlq", "ls", dlq, evil}, []string{"dlq", "ls", dlq, "--" + evil}, []string{"dlq", "ls", dlq, "--reason", evil},
		[]string{"dlq", "replay", dlq, "--all", "--yes", "--to", "x", "--kind", evil}, []string{"dlq", "replay", dlq, "--all", "--yes", "--resume", evil},
		[]string{"dlq", "replay", dlq, "--all", "--yes", "--to", text}, []string{"dlq", "replay", dlq, "--all", "--yes"},
		[]string{"dlq", "export", dlq, "-o", file + evil + "/x"}, []string{"dlq", "export", dlq, "-o", file}, []string{"dlq", "import", "new" + evil, "-i", file},
		[]string{"dlq", "import", text, "-i", file}, []string{"groups", "seek", dlq, "g" + evil, "0", "--yes"}, []string{"publish", "to" + evil, "b"},
		[]string{"publish", text, "b"}, []string{"delayed", "run", set, "--all", "--to", "to" + evil}, []string{"delayed", "run", set, "--all", "--to", text},
		[]string{"delayed", "rm", set, "--all", "--yes"}, []string{"dlq", "purge", dlq, "--all", "--yes"})
}

func TestNothingThatIsPrintedReachesTheTerminalAsACommand(t *testing.T) {
	paused(t, func(s *stage) {
		for _, args := range s.besiege() {
			if args[0] == "dlq" && args[1] == "export" && len(args) == 3 {
				continue // which writes a file
			}
			s.answers = "n\n"
			r := s.call(args...)
			if text := r.out + r.err; !printable(text, "\n\t") {
				t.Errorf("%q prints %q", args, text)
			}
		}
	})
}

func TestEveryCommandPrintsJSONWhereItIsAskedTo(t *testing.T) {
	paused(t, func(s *stage) {
		for _, args := range s.besiege() {
			r := s.call(append(args, "--json")...)
			for line := range strings.Lines(r.out) {
				var object map[string]any
				if err := json.Unmarshal([]byte(line), &object); err != nil {
					t.Errorf("%q prints %q: %v", args, line, err)
				}
			}
		}
	})
}
