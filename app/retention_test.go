package app_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// badRetention is what retention cannot mean.
var badRetention = map[string]badStart{
	"keeps none": {func(m *app.Mounts) {
		m.Mount(plain(spec("none")), app.Retain(app.KeepLast(0)))
	}, []string{"mount none:", "Retain: KeepLast(0)", "at least 1"}},
	"keeps fewer than none": {func(m *app.Mounts) {
		m.Mount(plain(spec("fewer")), app.DeadLetter("dlq", app.KeepLast(-3)))
	}, []string{"mount fewer:", "DeadLetter: KeepLast(-3)", "at least 1"}},
	"keeps for no time": {func(m *app.Mounts) {
		m.Mount(plain(spec("moment")), app.Retain(app.KeepFor(0)))
	}, []string{"mount moment:", "Retain: KeepFor(0s)", "at least 1ms"}},
	"keeps for less than the server counts": {func(m *app.Mounts) {
		m.Mount(plain(spec("short")), app.DeadLetter("dlq", app.KeepFor(time.Microsecond)))
	}, []string{"mount short:", "DeadLetter: KeepFor(1µs)", "at least 1ms"}},
	"keeps nothing and something": {func(m *app.Mounts) {
		m.Mount(plain(spec("both")), app.Retain(app.DeleteAcked(), app.KeepLast(10)))
	}, []string{"mount both:", "DeleteAcked", "KeepLast", "give either"}},
	"buries for nothing": {func(m *app.Mounts) {
		m.Mount(plain(spec("buries")), app.DeadLetter("dlq", app.DeleteAcked()))
	}, []string{"mount buries:", "DeadLetter: DeleteAcked belongs to Retain", "KeepLast(n)"}},
	"a list": {func(m *app.Mounts) {
		m.Mount(plain(streamrt.Spec{Name: "list", List: "l"}), app.Retain(app.DeleteAcked()))
	}, []string{"mount list:", "Retain: a list keeps nothing", "belongs to a stream", "Retain()"}},
	"a reliable list": {func(m *app.Mounts) {
		m.Mount(plain(streamrt.Spec{Name: "reliable", List: "l", Reliable: true}), app.Retain(app.KeepLast(5)))
	}, []string{"mount reliable:", "Retain: a list keeps nothing", "belongs to a stream"}},
	"a channel": {func(m *app.Mounts) {
		m.Mount(plain(streamrt.Spec{Name: "channel", Channel: "c"}), app.Retain(app.KeepFor(time.Hour)))
	}, []string{"mount channel:", "Retain: a channel keeps nothing", "belongs to a stream"}},
	"a channel's dead letters": {func(m *app.Mounts) {
		m.Mount(plain(streamrt.Spec{Name: "unshown", Channel: "c"}), app.DeadLetter("dlq", app.KeepLast(5)))
	}, []string{"mount unshown:", "published on a channel", "leave KeepLast and KeepFor out"}},
	"a foreign stream": {func(m *app.Mounts) {
		m.Mount(with(spec("theirs"), func(s *streamrt.Spec) { s.Foreign = true }), app.Retain(app.DeleteAcked()))
	}, []string{"mount theirs:", "nothing is ever removed from stream theirs", "leave it out"}},
	"two minds about a stream": {func(m *app.Mounts) {
		m.Mount(with(spec("mild"), func(s *streamrt.Spec) { s.Stream = "shared" }), app.Retain(app.KeepLast(100)))
		m.Mount(with(spec("strict"), func(s *streamrt.Spec) { s.Stream, s.Group = "shared", "h" }), app.Retain(app.DeleteAcked()))
	}, []string{"mount strict:", "keeps what is not acknowledged of stream shared", "mild keeps the last 100", "give Retain once"}},
	"everything and not everything": {func(m *app.Mounts) {
		m.Mount(with(spec("strict"), func(s *streamrt.Spec) { s.Stream, s.Group = "shared", "h" }), app.Retain(app.KeepFor(time.Hour)))
		m.Mount(with(spec("all"), func(s *streamrt.Spec) { s.Stream = "shared" }), app.Retain())
	}, []string{"mount all:", "keeps everything of stream shared", "strict keeps the last 1h0m0s"}},
	"two minds about a dead letter": {func(m *app.Mounts) {
		m.Mount(plain(spec("bounded")), app.DeadLetter("dlq", app.KeepLast(100)))
		m.Mount(plain(spec("unbounded")), app.DeadLetter("dlq"))
	}, []string{"mount unbounded:", "keeps everything of the dead letter dlq", "bounded keeps the last 100", "give both the same"}},
}

func TestRetentionThatCannotBeIsOneProblem(t *testing.T) { eachIsOneProblem(t, badRetention) }

// A default of the broker holds for the mounts that it fits, and the others say so.
func TestABrokersRetentionCanBeLeftOut(t *testing.T) {
	paused(t, func(s *service) {
		m := s.app.Broker(s.Broker(), app.Retain(app.DeleteAcked()), app.DeadLetter("dlq", app.KeepLast(5), nil))
		m.Mount(plain(spec("one")))
		m.Mount(with(spec("other"), func(s *streamrt.Spec) { s.Stream, s.Group = "one", "h" }))
		m.Mount(plain(streamrt.Spec{Name: "channel", Channel: "c"}), app.Retain(nil), app.DeadLetter("unshown"))
		m.Mount(with(spec("theirs"), func(s *streamrt.Spec) { s.Foreign = true }), app.Retain())
		s.start()
	})
}

// What is too old goes within a minute of its time, also where nothing is buried any more.
func TestOldDeadLettersGo(t *testing.T) {
	for name, source := range map[string]streamrt.Spec{"stream": spec("from"), "list": list("from"), "reliable list": {Name: "from", List: "from", Reliable: true}} {
		t.Run(name, func(t *testing.T) {
			paused(t, func(s *service) {
				to, length := broker.List("from"), func() int64 { return s.Client().LLen(t.Context(), "dlq").Val() }
				if source.Stream != "" {
					to, length = broker.Stream("from"), func() int64 { return s.length("dlq") }
				}
				s.m.Mount(streamrt.Subscribe(source, streamrt.Raw, func(context.Context, []byte) outcome.HandlerOutcome {
					return outcome.DeadLetter(errors.New("no"))
				}), app.DeadLetter("dlq", app.KeepFor(time.Hour)))
				s.start()
				s.Advance(10 * time.Second) // the rounds of the process are not those of the messages
				for range 3 {
					if err := s.m.Publish(t.Context(), to, []byte("x")); err != nil {
						t.Fatal(err)
					}
					s.Advance(20 * time.Minute)
				}
				for i, want := range []int64{2, 1, 0} {
					s.Advance(time.Minute)
					if got := length(); got != want {
						t.Errorf("%d minutes after an hour: %d records, want %d", 1+20*i, got, want)
					}
					s.Advance(19 * time.Minute)
				}
			})
		})
	}
}

// A mount says at its start what it keeps, and what is removed is counted for it.
func TestRemovalIsLoggedAndCounted(t *testing.T) {
	paused(t, func(s *service) {
		s.mount(streamrt.Spec{}, ack, app.Retain(app.KeepLast(2)), app.DeadLetter("dlq", app.KeepLast(7)))
		s.start()
		s.publish("a", "b", "c", "d", "e")
		s.Advance(2 * time.Minute)
		if n := s.length("in"); n != 2 {
			t.Errorf("XLEN %d, want 2", n)
		}
		for _, want := range []string{`keeps="the last 2"`, `dead_letter="dlq, keeps the last 7"`} {
			if !strings.Contains(s.log.String(), want) {
				t.Errorf("the log does not say %s:\n%s", want, s.log)
			}
		}
	})
}
