package deadletter_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/deadletter"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// A message that is buried, replayed, fails again and is buried again has as many runs as the first time.
func TestAReplayedMessageStartsAnew(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		both(t, s, func(t *testing.T, kind structure) {
			v := s.service()
			v.mount(kind.spec("{s}", "g"), outcome.Retry().WithError(errors.New("broken")), app.MaxAttempts(3), app.DeadLetter("{s}.dlq"))
			q := s.letters(t, "{s}.dlq")
			v.during(t, func() {
				v.send(t, kind.destination("{s}"), "body\x00\xff\n", broker.Header("x", "\x80"), broker.Header("message-id", "m"))
				eventually(t, "it is buried", func() bool { return s.length(t, kind, "{s}.dlq") == 1 && len(v.seen("")) == 3 })
				replay(t, q, deadletter.Filter{}, all(1))
				eventually(t, "it is buried again", func() bool { return s.length(t, kind, "{s}.dlq") == 1 && len(v.seen("")) == 6 })
			})
			for i, c := range v.seen("") {
				if c.body != "body\x00\xff\n" || c.message.Attempt != i%3+1 || c.message.ID != "m" || c.message.Headers["x"] != "\x80" || c.message.DeadLetter != nil {
					t.Errorf("call %d: %q, %+v", i, c.body, c.message)
				}
			}
			again := records(t, q, deadletter.Filter{})[0]
			if again.Replays != 1 || again.Reason != broker.ReasonMaxAttempts || again.Attempts != 3 || again.Header("retry-count") != "3" || again.Header("retry-group") != "" {
				t.Errorf("the second dead letter is %+v", again)
			}
			if n := strings.Count(again.Header("history"), "\n") + 1; n != 6 {
				t.Errorf("the history has %d lines", n)
			}
		})
	})
}

// Whoever keeps the counters is at the cap again: one run, and no retry.
func TestKeptCounters(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		both(t, s, func(t *testing.T, kind structure) {
			s.bury(t, kind, "s", "s.dlq", "m")
			q := s.letters(t, "s.dlq")
			v := s.service()
			v.mount(kind.spec("s", "g"), outcome.Retry(), app.MaxAttempts(3), app.DeadLetter("s.dlq"))
			v.during(t, func() {
				replay(t, q, deadletter.Filter{}, all(1), deadletter.KeepCounters())
				eventually(t, "it is buried again", func() bool { return s.length(t, kind, "s.dlq") == 1 })
			})
			if seen := v.seen(""); len(seen) != 2 || seen[0].message.Attempt != 2 {
				t.Errorf("runs: %+v", seen)
			}
		})
	})
}

// The losses and the time since which a task is unknown are carried along, or reset.
func TestAllCountersAreResetUnlessTheyAreKept(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		for _, kept := range []bool{false, true} {
			s.add(t, "s.dlq", "_payload", "m", "h:message-id", "m", "h:unknown-since", "17", "h:retry-count", "4", "dlq_reason", "unknown_task",
				"dlq_source", "s", "dlq_group", "g", "dlq_losses", "2", "dlq_attempts", "4", "dlq_at", "1777907439167")
			want := map[string]any{"_payload": "m", "h:message-id": "m", "h:replays": "1", "h:retry-group": "g"}
			var options []deadletter.Option
			if kept {
				options = append(options, deadletter.KeepCounters())
				maps.Copy(want, map[string]any{"h:unknown-since": "17", "h:retry-count": "4", "h:losses": "2"})
			}
			replay(t, s.letters(t, "s.dlq"), deadletter.Filter{}, all(1), options...)
			entries := must(s.client.XRevRange(t.Context(), "s", "+", "-").Result())
			if !maps.Equal(entries[0].Values, want) {
				t.Errorf("kept %v: %v, want %v", kept, entries[0].Values, want)
			}
		}
	})
}

// Only the group that buried a message sees it again, unless all are asked for.
func TestOnlyItsGroupSeesAReplayedMessage(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		v := s.service()
		v.mount(stream.spec("s", "failing"), outcome.DeadLetter(errors.New("no")), app.DeadLetter("s.dlq"))
		v.mount(stream.spec("s", "other"), outcome.Ack())
		q := s.letters(t, "s.dlq")
		ran := func(failing, other int) func() bool {
			return func() bool {
				return len(v.seen("failing")) == failing && len(v.seen("other")) == other && s.length(t, stream, "s.dlq") == 1
			}
		}
		v.during(t, func() {
			v.send(t, broker.Stream("s"), "m")
			eventually(t, "both have run", ran(1, 1))
			replay(t, q, deadletter.Filter{}, all(1))
			eventually(t, "it is buried again", ran(2, 1))
			replay(t, q, deadletter.Filter{}, all(1), deadletter.AllGroups())
			eventually(t, "both have run again", ran(3, 2))
			replay(t, q, deadletter.Filter{}, all(1), deadletter.To(broker.Stream("s")))
			eventually(t, "the source as a target is the source", ran(4, 2))
			pending := func(group string) int64 { return must(s.client.XPending(t.Context(), "s", group).Result()).Count }
			eventually(t, "nothing is pending", func() bool { return pending("failing") == 0 && pending("other") == 0 })
		})
	})
}

// A reader's dead letter goes back to what it read, and is the dead letter again that it was.
func TestARecordThatDiedTwiceIsTheFirstDeadLetterAgain(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		both(t, s, func(t *testing.T, kind structure) {
			s.bury(t, kind, "s", "s.dlq", "m")
			first := records(t, s.letters(t, "s.dlq"), deadletter.Filter{})[0]
			v := s.service()
			v.mount(kind.spec("s.dlq", "desk"), outcome.Retry(), app.MaxAttempts(2), app.DeadLetter("s.lost"))
			v.during(t, func() {
				eventually(t, "it has died again", func() bool { return s.length(t, kind, "s.lost") == 1 && len(v.seen("")) == 2 })
			})
			lost := s.letters(t, "s.lost")
			if r := records(t, lost, deadletter.Filter{})[0]; r.Source != "s.dlq" || r.Attempts != 3 {
				t.Fatalf("the second dead letter is %+v", r)
			}
			s.client.Del(t.Context(), "s.dlq")
			replay(t, lost, deadletter.Filter{}, all(1))
			q := s.letters(t, "s.dlq")
			back := records(t, q, deadletter.Filter{})[0]
			burial := func(r deadletter.Record) (all []string) {
				for _, f := range r.Fields {
					if strings.HasPrefix(string(f.Name), "dlq_") || string(f.Name) == "_payload" || string(f.Name) == "h:retry-count" {
						all = append(all, string(f.Name)+"="+string(f.Value))
					}
				}
				slices.Sort(all)
				return all
			}
			if !slices.Equal(burial(back), burial(first)) {
				t.Errorf("it was\n%q\nand is\n%q", burial(first), burial(back))
			}
			group := ""
			if kind == stream {
				group = "desk"
			}
			if back.Header("retry-group") != group || back.Replays != 1 {
				t.Errorf("its headers are %v", back.Headers)
			}
			// And once more, to where it came from first.
			replay(t, q, deadletter.Filter{}, all(1))
			v = s.service()
			v.mount(kind.spec("s", "g"), outcome.Ack())
			v.during(t, func() { eventually(t, "it is handled", func() bool { return len(v.seen("")) == 1 }) })
			if c := v.seen("")[0]; c.body != "m" || c.message.Attempt != 1 || c.message.DeadLetter != nil || c.message.Headers["replays"] != "2" {
				t.Errorf("the handler got %+v", c)
			}
		})
	})
}

func TestAMessageIsNotReplayedForEver(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		both(t, s, func(t *testing.T, kind structure) {
			q := s.letters(t, "s.dlq")
			s.bury(t, kind, "s", "s.dlq", "m")
			for range deadletter.DefaultMaxReplays {
				replay(t, q, deadletter.Filter{}, all(1))
				v := s.service()
				v.mount(kind.spec("s", "g"), outcome.Retry(), app.DeadLetter("s.dlq"))
				v.during(t, func() { eventually(t, "it is buried again", func() bool { return s.length(t, kind, "s.dlq") == 1 }) })
			}
			refused := deadletter.Report{Examined: 1, Matched: 1, Refused: 1}
			r := replay(t, q, deadletter.Filter{}, refused)
			if len(r.Refusals) != 1 || !errors.Is(r.Refusals[0].Err, deadletter.ErrReplayedTooOften) || r.Refusals[0].ID == "" {
				t.Errorf("%+v", r.Refusals)
			}
			replay(t, q, deadletter.Filter{}, refused, deadletter.DryRun())
			if n := s.length(t, kind, "s.dlq"); n != 1 {
				t.Fatalf("%d records", n)
			}
			replay(t, q, deadletter.Filter{}, all(1), deadletter.MaxReplays(deadletter.DefaultMaxReplays+1))
		})
	})
}

// Every structure can be sent to every other.
func TestAnotherTarget(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		both(t, s, func(t *testing.T, from structure) {
			both(t, s, func(t *testing.T, to structure) {
				s.bury(t, from, "{p}s", "{p}s.dlq", "m\xff")
				q := s.letters(t, "s.dlq", redisbroker.KeyPrefix("{p}"))
				replay(t, q, deadletter.Filter{}, all(1), deadletter.To(to.destination("elsewhere")))
				v := s.service()
				v.mount(to.spec("{p}elsewhere", "anyone"), outcome.Ack())
				v.during(t, func() { eventually(t, "it is handled", func() bool { return len(v.seen("")) == 1 }) })
				c := v.seen("")[0]
				if c.body != "m\xff" || c.message.Attempt != 1 || c.message.DeadLetter != nil || c.message.Headers["retry-group"] != "" || c.message.Headers["replays"] != "1" {
					t.Errorf("the handler got %+v", c)
				}
			})
		})
	})
}

// A channel keeps nothing: what nobody would receive stays.
func TestAChannelAsTheTarget(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		both(t, s, func(t *testing.T, kind structure) {
			s.bury(t, kind, "{c}s", "{c}s.dlq", "m")
			q := s.letters(t, "{c}s.dlq")
			if !s.cluster { // which does not tell how many received it
				r := replay(t, q, deadletter.Filter{}, deadletter.Report{Examined: 1, Matched: 1, Refused: 1}, deadletter.To(broker.Channel("nobody."+t.Name())))
				if len(r.Refusals) != 1 || !errors.Is(r.Refusals[0].Err, deadletter.ErrUnheard) {
					t.Errorf("%v", r.Refusals)
				}
			}
			v := s.service()
			v.mount(streamrt.Spec{Name: "prices", Channel: "prices." + t.Name()}, outcome.Ack())
			v.during(t, func() {
				replay(t, q, deadletter.Filter{}, all(1), deadletter.To(broker.Channel("prices."+t.Name())))
				eventually(t, "it is received", func() bool { return len(v.seen("")) == 1 })
			})
			if c := v.seen("")[0]; c.body != "m" || c.message.Headers["replays"] != "1" || c.message.DeadLetter != nil {
				t.Errorf("the subscriber got %+v", c)
			}
		})
	})
}

// What was buried on a channel, and kept by whoever received it, goes back to the channel.
func TestARecordOfAChannel(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		name := "prices." + t.Name()
		keeper := s.client.Subscribe(t.Context(), name+".dlq")
		defer keeper.Close()
		must(keeper.Receive(t.Context()))
		v := s.service()
		v.mount(streamrt.Spec{Name: "prices", Channel: name}, outcome.DeadLetter(errors.New("no")), app.DeadLetter(name+".dlq"))
		var item string
		v.during(t, func() {
			v.send(t, broker.Channel(name), "m")
			m, err := keeper.ReceiveTimeout(t.Context(), 20*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			item = m.(*redis.Message).Payload
		})
		if r := deadletter.DecodeItem([]byte(item)); r.Source != name || r.Reason != broker.ReasonRejected || string(r.Body) != "m" {
			t.Fatalf("it was buried as %+v", r)
		}
		must(s.client.LPush(t.Context(), "kept", item).Result())
		v = s.service()
		v.mount(streamrt.Spec{Name: "prices", Channel: name}, outcome.Ack())
		v.during(t, func() {
			replay(t, s.letters(t, "kept"), deadletter.Filter{}, all(1))
			eventually(t, "it is received", func() bool { return len(v.seen("")) == 1 })
		})
		if c := v.seen("")[0]; c.body != "m" || c.message.Attempt != 1 || c.message.Headers["replays"] != "1" {
			t.Errorf("the subscriber got %+v", c)
		}
	})
}

// A record may wait in the source's delay set first.
func TestADelayedReplay(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		both(t, s, func(t *testing.T, kind structure) {
			s.bury(t, kind, "{s}", "{s}.dlq", "m", "n")
			q := s.letters(t, "{s}.dlq")
			replay(t, q, deadletter.Filter{}, all(2), deadletter.After("{s}.delayed", time.Hour))
			waiting := must(s.client.ZRangeWithScores(t.Context(), "{s}.delayed", 0, -1).Result())
			if len(waiting) != 2 {
				t.Fatalf("%d wait", len(waiting))
			}
			if due := time.UnixMilli(int64(waiting[0].Score)); time.Until(due) < 59*time.Minute || time.Until(due) > 61*time.Minute {
				t.Errorf("due at %s", due)
			}
			for _, z := range waiting {
				s.client.ZAdd(t.Context(), "{s}.delayed", zAt(z.Member))
			}
			v := s.service()
			spec := kind.spec("{s}", "g")
			spec.DelaySet = "{s}.delayed"
			v.mount(spec, outcome.Ack())
			v.during(t, func() { eventually(t, "both are handled", func() bool { return len(v.seen("")) == 2 }) })
			if c := v.seen("")[0]; c.message.Attempt != 1 || c.message.Headers["replays"] != "1" {
				t.Errorf("the handler got %+v", c)
			}
		})
	})
}

// What nobody could decode in a delay set goes back there, as it was.
func TestAMemberOfADelaySetGoesBackThere(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		both(t, s, func(t *testing.T, kind structure) {
			spec := kind.spec("s", "g")
			spec.DelaySet = "s.delayed"
			s.client.ZAdd(t.Context(), "s.delayed", zAt("no member\xff"))
			v := s.service()
			v.mount(spec, outcome.Ack(), app.DeadLetter("s.dlq"))
			v.during(t, func() {
				eventually(t, "it is buried", func() bool { return s.length(t, kind, "s.dlq") == 1 })
			})
			replay(t, s.letters(t, "s.dlq"), deadletter.Filter{}, all(1))
			if got := must(s.client.ZRange(t.Context(), "s.delayed", 0, -1).Result()); len(got) != 1 || got[0] != "no member\xff" {
				t.Errorf("the delay set has %q", got)
			}
		})
	})
}

// Malformed messages keep their bytes, and their fields in their order.
func TestTheBytesAreTheOriginals(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		every := make([]byte, 1024)
		for i := range every {
			every[i] = byte(i)
		}
		original := []string{"b", string(every), "_payload", string(every), "a", "", "b", "twice", "h:x", string(every), "h:x", "", "dlq_other", "mine"}
		s.add(t, "s", original...)
		v := s.service()
		v.Mount(streamrt.Subscribe(stream.spec("s", "g"), streamrt.JSON, acksNumbers), app.DeadLetter("s.dlq"))
		v.during(t, func() {
			eventually(t, "it is buried", func() bool { return s.length(t, stream, "s.dlq") == 1 })
		})
		q := s.letters(t, "s.dlq")
		r := records(t, q, deadletter.Filter{})[0]
		if r.Reason != broker.ReasonMalformed || string(r.Body) != string(every) {
			t.Errorf("it was buried as %+v", r)
		}
		replay(t, q, deadletter.Filter{}, all(1))
		entries := rawEntries(t, s, "s")
		back := entries[len(entries)-1]
		if got := back[:min(len(original), len(back))]; !slices.Equal(got, original) {
			t.Errorf("it was %q and is %q", original, got)
		}
		added := map[string]string{}
		for pair := range slices.Chunk(back[len(original):], 2) {
			added[pair[0]] = pair[1]
		}
		if want := map[string]string{"h:message-id": r.MessageID, "h:replays": "1", "h:retry-group": "g"}; !maps.Equal(added, want) {
			t.Errorf("what was added is %v, want %v", added, want)
		}
	})
}
