package app_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// A server that does not take an outcome is named with the key that it does not take it for.
func TestARefusedOutcomeNamesItsKey(t *testing.T) {
	for _, c := range []struct {
		name, key, says string
		spec            streamrt.Spec
		to              broker.Destination
		answer          outcome.HandlerOutcome
	}{
		{"a delay of a stream", "late", `delay to "late" of`, streamrt.Spec{Stream: "in", Group: group, DelaySet: "late"}, broker.Stream("in"), outcome.RetryAfter(time.Minute)},
		{"a dead letter of a stream", "dlq", `bury to "dlq" of`, streamrt.Spec{Stream: "in", Group: group}, broker.Stream("in"), outcome.DeadLetter(nil)},
		{"a delay of a list", "late", `delay to "late" of`, streamrt.Spec{List: "in", Reliable: true, DelaySet: "late"}, broker.List("in"), outcome.RetryAfter(time.Minute)},
		{"a dead letter of a list", "dlq", `bury to "dlq" of`, streamrt.Spec{List: "in", Reliable: true}, broker.List("in"), outcome.DeadLetter(nil)},
		{"a dead letter of a plain list", "dlq", `bury to "dlq" of`, streamrt.Spec{List: "in"}, broker.List("in"), outcome.DeadLetter(nil)},
	} {
		t.Run(c.name, func(t *testing.T) {
			paused(t, func(s *service) {
				c.spec.Name = "t"
				s.m.Mount(streamrt.Subscribe(c.spec, streamrt.Raw, func(context.Context, []byte) outcome.HandlerOutcome { return c.answer }), app.DeadLetter("dlq"), app.MaxAttempts(3))
				s.start()
				s.Client().HSet(s.t.Context(), c.key, "in", "the way")
				if err := s.m.Publish(s.t.Context(), c.to, []byte("x")); err != nil {
					s.t.Fatal(err)
				}
				s.Advance(time.Second)
				lines := s.log.lines("doing=settle")
				if len(lines) != 1 || !strings.Contains(strings.ReplaceAll(lines[0], `\"`, `"`), c.says) || !strings.Contains(lines[0], "WRONGTYPE") {
					s.t.Errorf("no %s in %v", c.says, lines)
				}
				s.Client().Del(s.t.Context(), c.key)
				s.Advance(10 * time.Second)
			})
		})
	}
}

// What the log says of a message that a later version wrote is what becomes of it: a plain list keeps nothing.
func TestTheLogSaysWhatBecomesOfALaterVersion(t *testing.T) {
	const later = "\xd9\xd9\xf7\xda\x4d\x4c\x52\x31\x83\x18\x63\x80\x40"
	for _, c := range []struct {
		spec streamrt.Spec
		says string
		not  string
	}{
		{streamrt.Spec{Name: "t", List: "in"}, "dropped", "put off"},
		{streamrt.Spec{Name: "t", List: "in", Reliable: true}, "put off", "dropped"},
	} {
		paused(t, func(s *service) {
			s.m.Mount(streamrt.Subscribe(c.spec, streamrt.Raw, func(context.Context, []byte) outcome.HandlerOutcome { return outcome.Ack() }))
			s.start()
			s.Client().LPush(s.t.Context(), "in", later)
			s.Advance(time.Second)
			if log := s.log.String(); !strings.Contains(log, c.says) || strings.Contains(log, c.not) {
				s.t.Errorf("reliable %t: the log says\n%s", c.spec.Reliable, log)
			}
		})
	}
}
