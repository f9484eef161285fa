package app_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

var leftOut = regexp.MustCompile(` left_out=(\d+) within=1m0s\n`)

// said counts the lines of a mount with a text, and what they stand for together with those that were left out.
func (l *logText) said(t testing.TB, mount, text string) (lines, meant int) {
	t.Helper()
	for _, line := range l.lines(text) {
		if !strings.Contains(line, " mount="+mount+" ") {
			continue
		}
		lines++
		meant++
		if found := leftOut.FindStringSubmatch(line); found != nil {
			n, err := strconv.Atoi(found[1])
			if err != nil {
				t.Fatal(err)
			}
			meant += n
		}
	}
	return lines, meant
}

// A storm of failures is told in ten lines a minute for each mount and kind, and one that says how many there were. Nothing
// is lost of the sum, also at a stop.
func TestAStormOfFailuresIsSummedUp(t *testing.T) {
	const messages, few = 400, 3
	paused(t, func(s *service) {
		bad := func(context.Context, string) outcome.HandlerOutcome { return outcome.Of(errors.New("no")) }
		s.mount(streamrt.Spec{}, bad, app.MaxAttempts(2), app.DeadLetter("dlq"), exact)
		s.m.Mount(subscription(streamrt.Spec{Stream: "few"}, bad), app.MaxAttempts(1), app.DeadLetter("dlq"))
		cancel, done := s.run()
		began := time.Now()
		for i := range messages {
			s.publish(fmt.Sprint(i))
			s.Advance(400 * time.Millisecond)
		}
		for range few {
			if err := s.m.Publish(s.t.Context(), broker.Stream("few"), []byte("x")); err != nil {
				s.t.Fatal(err)
			}
		}
		s.Advance(5 * time.Second)
		minutes := int(time.Since(began)/time.Minute) + 1
		if _, err := s.stop(cancel, done); err != nil {
			s.t.Fatal(err)
		}
		for _, c := range []struct {
			mount, text string
			want        int
		}{
			{"test.in", "the handler failed", 2 * messages},
			{"test.in", "dead-lettered", messages},
			{"test.few", "the handler failed", few},
			{"test.few", "dead-lettered", few},
		} {
			lines, meant := s.log.said(s.t, c.mount, c.text)
			if meant != c.want || lines > 11*minutes || c.want == few && lines != few {
				s.t.Errorf("%s: %d lines of %q in %d minutes stand for %d, want %d", c.mount, lines, c.text, minutes, meant, c.want)
			}
		}
		if !strings.Contains(s.log.String(), "id=") {
			s.t.Error("the lines name no message")
		}
	})
}
