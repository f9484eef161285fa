package app_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// At start one line for each mount says what holds for it in the end.
func TestTheStartSaysWhatEachMountDoes(t *testing.T) {
	paused(t, func(s *service) {
		mounts := []struct {
			spec    streamrt.Spec
			options []app.MountOption
			want    []string
		}{
			{streamrt.Spec{Stream: "plain", Group: "g"}, nil, []string{
				`source="stream plain"`, "group=g", `delays="in memory, at most 10000"`, "max_attempts=none", "max_deliveries=none",
				"dead_letter=none", "count_from=\"retry-count and the failures kept", `settles="one atomic step"`, "concurrency=10", "block=5s", "timeout=none",
			}},
			{streamrt.Spec{Stream: "capped", Group: "g", DelaySet: "set", DelayTTL: time.Hour, Block: 1500 * time.Millisecond, Timeout: time.Minute}, []app.MountOption{
				app.MaxAttempts(3), app.DeadLetter("dlq"), app.Concurrency(2),
			}, []string{
				`delays="in the set set"`, "delay_ttl=1h0m0s", "max_attempts=3", "max_deliveries=5", "dead_letter=dlq", "concurrency=2", "block=1.5s", "timeout=1m0s",
			}},
			{streamrt.Spec{Stream: "claimed", Group: "g", Claim: 40 * time.Second}, nil, []string{
				`delays="pending for 40s"`, "crashes included",
			}},
			{streamrt.Spec{Stream: "plain", Group: "g", Reclaim: time.Minute}, nil, []string{
				`reads="only what dead owners have left idle for 1m0s"`,
			}},
			{streamrt.Spec{Stream: "foreign", Group: "g", Foreign: true}, []app.MountOption{app.MaxParked(7)}, []string{`delays="pending, at most 7"`}},
			{streamrt.Spec{Stream: "tasks", Group: "g", Task: "mail"}, nil, []string{"task=mail"}},
			{streamrt.Spec{List: "list"}, nil, []string{
				`source="list list"`, "lost by a stop", "count_from=retry-count ", `settles="nothing: a message is gone once it is read"`,
			}},
			{streamrt.Spec{List: "reliable", Reliable: true}, nil, []string{`delays="in a set of the list's own"`, `settles="one atomic step"`}},
			{streamrt.Spec{Pattern: "events.*"}, []app.MountOption{app.OutRetry("again")}, []string{`source="pattern events.*"`, "out_retry=again"}},
		}
		for i, m := range mounts {
			m.spec.Name = fmt.Sprint("mount-", i)
			s.m.Mount(streamrt.Subscribe(m.spec, streamrt.Raw, func(context.Context, []byte) outcome.HandlerOutcome { return outcome.Ack() }), m.options...)
		}
		s.start()
		lines := s.log.lines("msg=mounted ")
		if len(lines) != len(mounts) {
			s.t.Fatalf("%d lines for %d mounts:\n%s", len(lines), len(mounts), strings.Join(lines, ""))
		}
		for i, m := range mounts {
			for _, want := range m.want {
				if !strings.Contains(lines[i], want) {
					s.t.Errorf("no %s in\n%s", want, lines[i])
				}
			}
			for _, empty := range []string{"=\"\"", "= "} {
				if strings.Contains(lines[i], empty) {
					s.t.Errorf("something empty in\n%s", lines[i])
				}
			}
		}
	})
}
