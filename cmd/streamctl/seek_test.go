package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

func (s *stage) lastDelivered() string {
	s.t.Helper()
	groups, err := s.Client().XInfoGroups(s.t.Context(), "refunds").Result()
	if err != nil || len(groups) != 1 {
		s.t.Fatalf("%d groups (%v)", len(groups), err)
	}
	return groups[0].LastDeliveredID
}

// The embedded server has no XGROUP SETID.
func TestASeekSaysWhatItTakesFromLivingOwners(t *testing.T) {
	live(t, func(s *stage) {
		release, began := make(chan struct{}), make(chan struct{}, 10)
		s.worker(streamrt.Spec{Stream: "refunds", Group: "refunds"}, func(_ context.Context, body string) outcome.HandlerOutcome {
			if body == "held" {
				began <- struct{}{}
				<-release
			}
			return outcome.Ack()
		}, app.Concurrency(4))
		defer close(release)
		s.publish(broker.Stream("refunds"), "done", "held")
		<-began
		s.Eventually("the first is done", func(ctx context.Context) bool { return s.Client().XPending(ctx, "refunds", "refunds").Val().Count == 1 })
		before := s.lastDelivered()

		r := s.does(2, "groups", "seek", "refunds", "refunds", "0")
		s.has(r, "--yes")
		s.does(2, "groups", "seek", "refunds", "refunds", "nowhere")
		s.does(1, "groups", "seek", "refunds", "nobody", "0", "--yes")
		s.answers = "n\n"
		r = s.does(1, "groups", "seek", "refunds", "refunds", "0")
		s.has(r, "2 entries will be delivered to group refunds again",
			"of them 1 is pending under living owners: taken from them, and run a second time beside the first", "nothing was done")
		if at := s.lastDelivered(); at != before {
			t.Errorf("the group is at %s, was at %s", at, before)
		}
		s.answers = "y\n"
		s.does(0, "groups", "seek", "refunds", "refunds", "0")
		s.answers = ""
		select {
		case <-began: // what was held is given out again, beside the first
		case <-time.After(10 * time.Second):
			t.Fatal("the entry is not delivered again")
		}
	})
}

func TestASeekForwardSaysWhatItSkips(t *testing.T) {
	live(t, func(s *stage) {
		ctx := s.t.Context()
		for range 3 {
			s.Client().XAdd(ctx, xadd("refunds", "_payload", "b"))
		}
		s.Client().XGroupCreate(ctx, "refunds", "refunds", "0")
		err := s.Client().XReadGroup(ctx, &redis.XReadGroupArgs{Group: "refunds", Consumer: "gone", Count: 1, Streams: []string{"refunds", ">"}}).Err()
		if err != nil {
			t.Fatal(err)
		}
		r := s.does(0, "groups", "seek", "refunds", "refunds", "$", "--yes", "--json")
		s.has(r, "2 entries will be skipped", "1 is pending, kept by the owners", `"skipped":2`, `"delivered_again":0`)
		last := s.Client().XRevRange(ctx, "refunds", "+", "-").Val()[0].ID
		if at := s.lastDelivered(); at != last {
			t.Errorf("the group is at %s, want %s", at, last)
		}
		r = s.does(0, "groups", "seek", "refunds", "refunds", "0", "--yes")
		s.has(r, "3 entries will be delivered", "of them 1 is pending under owners that are not alive")
		r = s.does(0, "groups", "seek", "refunds", "refunds", "0-0", "--yes")
		s.has(r, "no entry is delivered again or skipped")
	})
}

// Ctrl-C leaves everything where it is, and says how to go on.
func TestAnInterruptedReplayPrintsItsCursor(t *testing.T) {
	paused(t, func(s *stage) {
		s.refunds()
		s.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		r := s.callWith(ctx, "dlq", "replay", "refunds.dlq", "--all", "--yes", "--rate", "1", "--to", "elsewhere")
		if r.code != exitInterrupted {
			t.Fatalf("exit code %d\n%s%s", r.code, r.out, r.err)
		}
		s.has(r, "2 records replayed", "streamctl: interrupted")
		_, cursor, ok := strings.Cut(r.err, "go on with --resume ")
		cursor, _, _ = strings.Cut(cursor, "\n")
		if !ok || s.length("elsewhere") != 2 || s.length("refunds.dlq") != 1 {
			t.Fatalf("%d were moved, %d are left\n%s", s.length("elsewhere"), s.length("refunds.dlq"), r.err)
		}
		s.has(s.does(0, "dlq", "replay", "refunds.dlq", "--all", "--yes", "--resume", cursor, "--to", "elsewhere"), "1 record replayed")
		if s.length("elsewhere") != 3 || s.length("refunds.dlq") != 0 {
			t.Error("not all were moved")
		}
	})
}

func TestWhatIsRefusedIsToldAndLeft(t *testing.T) {
	each(t, func(s *stage) {
		s.refunds()
		s.Stop()
		s.Client().Set(s.t.Context(), "text", "x", 0)
		r := s.does(1, "dlq", "replay", "refunds.dlq", "--all", "--yes", "--to", "text")
		s.has(r, `"text" is a string`)
		s.Client().LPush(s.t.Context(), "a.list", "x")
		r = s.does(1, "dlq", "replay", "refunds.dlq", "--all", "--yes", "--to", "a.list", "--kind", "stream")
		s.has(r, "0 records replayed, 3 refused", "WRONGTYPE")
		r = s.does(1, "dlq", "replay", "refunds.dlq", "--all", "--yes", "--to", "a.list", "--kind", "stream", "--json")
		s.has(r, `"refused":3`, `"refusals":[{"id":"`)
		if s.length("refunds.dlq") != 3 {
			s.t.Error("they are gone")
		}
	})
}

func TestDeadLettersGoThroughAFile(t *testing.T) {
	each(t, func(s *stage) {
		s.refunds()
		s.Stop()
		file := s.t.TempDir() + "/letters.jsonl"
		s.has(s.does(0, "dlq", "export", "refunds.dlq", "-o", file), "3 records exported from refunds.dlq")
		s.has(s.does(2, "dlq", "export", "refunds.dlq", "-o", file), "file exists")
		s.has(s.does(0, "dlq", "import", "copy.dlq", "-i", file), "3 records imported to copy.dlq")
		s.stdin = s.does(0, "dlq", "export", "refunds.dlq", "--reason", "rejected").out
		s.does(0, "dlq", "import", "copy.dlq")
		s.stdin = "nonsense\n"
		s.has(s.does(1, "dlq", "import", "copy.dlq"), "line 1")
		want := s.Client().XRange(s.t.Context(), "refunds.dlq", "-", "+").Val()
		got := s.Client().XRange(s.t.Context(), "copy.dlq", "-", "+").Val()
		if len(got) != 4 || got[2].Values["_payload"] != want[2].Values["_payload"] || got[3].Values["dlq_reason"] != "rejected" {
			s.t.Errorf("the copy is %v", got)
		}
	})
}

func TestKeysAndGroupsAreCompleted(t *testing.T) {
	each(t, func(s *stage) {
		s.refunds()
		s.Stop()
		for _, c := range []struct {
			args, want string
		}{
			{"dlq show ref", "refunds refunds.dlq :4"},
			{"groups seek refunds ", "refunds :4"},
			{"dlq replay refunds.dlq --reason rej", "max_attempts max_deliveries unknown_task malformed rejected :4"},
			{"publish x --kind ch", "stream list channel sharded :4"},
			{"dlq replay refunds.dlq --to refunds.", "refunds.dlq :4"},
			{"delayed ls ref", ":4"},
		} {
			r := s.call(append([]string{"__complete"}, strings.Split(c.args, " ")...)...)
			if got := strings.Join(strings.Fields(r.out), " "); got != c.want {
				s.t.Errorf("%s: proposed %q, want %q", c.args, got, c.want)
			}
		}
	})
}
