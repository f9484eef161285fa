package app_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

func ack(context.Context, string) outcome.HandlerOutcome { return outcome.Ack() }

// spec is a subscription named n that has nothing wrong with it.
func spec(n string) streamrt.Spec { return streamrt.Spec{Name: n, Stream: n, Group: group} }

func with(s streamrt.Spec, change func(*streamrt.Spec)) streamrt.Subscription {
	change(&s)
	return streamrt.Subscribe(s, streamrt.Raw, func(context.Context, []byte) outcome.HandlerOutcome { return outcome.Ack() })
}

// badStart is one thing that is wrong: how it comes about, and what the report says of it, mount and fix included.
type badStart struct {
	mount func(m *app.Mounts)
	want  []string
}

var badStarts = map[string]badStart{
	"no group": {func(m *app.Mounts) {
		m.Mount(with(spec("no.group"), func(s *streamrt.Spec) { s.Group = "" }))
	}, []string{"mount no.group:", "no group", "DefaultGroup"}},
	"dead letter is the source": {func(m *app.Mounts) {
		m.Mount(with(spec("self"), func(*streamrt.Spec) {}), app.DeadLetter("self"))
	}, []string{"mount self:", "source itself", "another key"}},
	"two mounts on one stream and group": {func(m *app.Mounts) {
		m.Mount(with(spec("twice"), func(*streamrt.Spec) {}))
		m.Mount(with(spec("twice"), func(s *streamrt.Spec) { s.Name = "again" }))
	}, []string{"mount again:", "stream twice", "another group"}},
	"one key as stream and set": {func(m *app.Mounts) {
		m.Mount(with(spec("mixed"), func(s *streamrt.Spec) { s.DelaySet = "mixed" }))
	}, []string{"mount mixed:", "delay set (a sorted set)", "two keys"}},
	"two streams on one delay set": {func(m *app.Mounts) {
		m.Mount(with(spec("set.one"), func(s *streamrt.Spec) { s.DelaySet = "shared" }))
		m.Mount(with(spec("set.two"), func(s *streamrt.Spec) { s.DelaySet = "shared" }))
	}, []string{"mount set.two:", "set shared belongs to stream set.one", "of its own"}},
	"a cycle of dead letters": {func(m *app.Mounts) {
		m.Mount(with(spec("c1"), func(*streamrt.Spec) {}), app.DeadLetter("c2"))
		m.Mount(with(spec("c2"), func(*streamrt.Spec) {}), app.DeadLetter("c3"))
		m.Mount(with(spec("c3"), func(*streamrt.Spec) {}), app.DeadLetter("c1"))
	}, []string{"mount c1:", "c1 → c2 → c3 → c1"}},
	"a brace without a hash tag": {func(m *app.Mounts) {
		m.Mount(with(spec("brace"), func(s *streamrt.Spec) { s.Stream = "foo}bar" }))
	}, []string{"mount brace:", `"foo}bar"`, "{name}"}},
	"delay-ttl below the backoff": {func(m *app.Mounts) {
		m.Mount(with(spec("ttl"), func(s *streamrt.Spec) { s.DelaySet, s.DelayTTL = "ttl.set", time.Minute }))
	}, []string{"mount ttl:", "delay-ttl=1m0s", "5m0s"}},
	"delay-ttl without a set": {func(m *app.Mounts) {
		m.Mount(with(spec("ttl.alone"), func(s *streamrt.Spec) { s.DelayTTL = time.Hour }))
	}, []string{"mount ttl.alone:", "delay-set=KEY"}},
	"no attempt": {func(m *app.Mounts) {
		m.Mount(with(spec("attempts"), func(*streamrt.Spec) {}), app.MaxAttempts(0))
	}, []string{"mount attempts:", "MaxAttempts(0)", "at least 1"}},
	"no slot": {func(m *app.Mounts) {
		m.Mount(with(spec("slots"), func(*streamrt.Spec) {}), app.Concurrency(0))
	}, []string{"mount slots:", "Concurrency(0)", "at least 1"}},
	"no place to park": {func(m *app.Mounts) {
		m.Mount(with(spec("parked"), func(*streamrt.Spec) {}), app.MaxParked(-1))
	}, []string{"mount parked:", "MaxParked(-1)", "at least 1"}},
	"no dead letter's name": {func(m *app.Mounts) {
		m.Mount(with(spec("nowhere"), func(*streamrt.Spec) {}), app.DeadLetter(""))
	}, []string{"mount nowhere:", `DeadLetter("")`}},
	"negative backoff": {func(m *app.Mounts) {
		m.Mount(with(spec("backoff"), func(*streamrt.Spec) {}), app.Backoff(app.Exponential{Initial: -time.Second}))
	}, []string{"mount backoff:", "Initial: -1s"}},
	"nil backoff": {func(m *app.Mounts) {
		m.Mount(with(spec("nil.backoff"), func(*streamrt.Spec) {}), app.Backoff(nil))
	}, []string{"mount nil.backoff:", "Backoff(nil)"}},
	"nil codec": {func(m *app.Mounts) {
		m.Mount(with(spec("nil.codec"), func(*streamrt.Spec) {}), app.WithCodec(nil))
	}, []string{"mount nil.codec:", "WithCodec(nil)"}},
	"nil middleware": {func(m *app.Mounts) {
		m.Mount(with(spec("nil.use"), func(*streamrt.Spec) {}), app.Use(nil))
	}, []string{"mount nil.use:", "Use(nil)"}},
	"short block": {func(m *app.Mounts) {
		m.Mount(with(spec("block"), func(s *streamrt.Spec) { s.Block = 100 * time.Microsecond }))
	}, []string{"mount block:", "block=100µs", "at least 1ms"}},
	"short claim": {func(m *app.Mounts) {
		m.Mount(with(spec("claim"), func(s *streamrt.Spec) { s.Claim = 999 * time.Millisecond }))
	}, []string{"mount claim:", "claim=999ms", "at least 1s"}},
	"negative timeout": {func(m *app.Mounts) {
		m.Mount(with(spec("timeout"), func(s *streamrt.Spec) { s.Timeout = -1 }))
	}, []string{"mount timeout:", "timeout=-1ns"}},
	"bad start": {func(m *app.Mounts) {
		m.Mount(with(spec("start"), func(s *streamrt.Spec) { s.Start = "yesterday" }))
	}, []string{"mount start:", "start=yesterday"}},
	"zero subscription": {func(m *app.Mounts) {
		m.Mount(streamrt.Subscription{})
	}, []string{"the subscription is zero", "streamgen"}},
}

func lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func mentions(line string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return true
}

func TestEachBadStartIsOneProblem(t *testing.T) { eachIsOneProblem(t, badStarts) }

func eachIsOneProblem(t *testing.T, all map[string]badStart) {
	for name, bad := range all {
		t.Run(name, func(t *testing.T) {
			apptest.Paused(t, func(h *apptest.H) {
				s := newService(h, h.Broker())
				s.app.OnStartup(func(context.Context) error { s.t.Error("a hook ran"); return nil })
				bad.mount(s.m)
				got := lines(s.app.Run(s.t.Context()))
				if len(got) != 1 || !mentions(got[0], bad.want) {
					s.t.Errorf("%q, want one line with %q", got, bad.want)
				}
			})
		})
	}
}

func TestAllBadStartsAreReportedAtOnce(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		s := newService(h, h.Broker())
		if err := h.Client().Set(s.t.Context(), "wrong.type", "x", 0).Err(); err != nil {
			s.t.Fatal(err)
		}
		s.m.Mount(with(spec("wrong.type"), func(*streamrt.Spec) {}))
		for _, bad := range badStarts {
			bad.mount(s.m)
		}
		got := lines(s.app.Run(s.t.Context()))
		if len(got) != len(badStarts)+1 {
			s.t.Errorf("%d lines for %d problems:\n%s", len(got), len(badStarts)+1, strings.Join(got, "\n"))
		}
		for name, bad := range badStarts {
			if !slices.ContainsFunc(got, func(line string) bool { return mentions(line, bad.want) }) {
				s.t.Errorf("%s: not reported", name)
			}
		}
		if !slices.ContainsFunc(got, func(line string) bool { return mentions(line, []string{"wrong.type", "string"}) }) {
			s.t.Errorf("the wrong type is not reported:\n%s", strings.Join(got, "\n"))
		}
	})
}

func TestWrongTypesAreAllReported(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		s := newService(h, h.Broker())
		for _, key := range []string{"in", "dlq", "later"} {
			h.Client().Set(s.t.Context(), key, "x", 0)
		}
		s.mount(streamrt.Spec{DelaySet: "later"}, ack, app.DeadLetter("dlq"))
		got := lines(s.app.Run(s.t.Context()))
		if len(got) != 3 {
			s.t.Errorf("%q", got)
		}
		for i, line := range got {
			if !strings.Contains(line, "test.in") {
				s.t.Errorf("line %d does not name the mount: %s", i, line)
			}
		}
	})
}

func TestNothingMounted(t *testing.T) {
	got := lines(app.New("empty", "1").Run(t.Context()))
	if len(got) != 1 || !strings.Contains(got[0], "nothing is mounted") {
		t.Errorf("%q", got)
	}
}

func TestAnAppRunsOnce(t *testing.T) {
	a := app.New("once", "1")
	_ = a.Run(t.Context())
	if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "before") {
		t.Error(err)
	}
}

func TestDelayTTLMayBeShorterThanWaitsThatTheCapRulesOut(t *testing.T) {
	paused(t, func(s *service) {
		// Three attempts wait 1 s and 2 s.
		s.mount(streamrt.Spec{DelaySet: "later", DelayTTL: 2 * time.Second}, ack, app.MaxAttempts(3))
		s.start()
	})
}

func TestTheBrokersDefaultsHoldForItsMounts(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		a := app.New("defaults", "1", app.Logger(slogDiscard))
		m := a.Broker(h.Broker(), app.MaxAttempts(0))
		m.Mount(with(spec("one"), func(*streamrt.Spec) {}))
		m.Mount(with(spec("two"), func(*streamrt.Spec) {}), app.MaxAttempts(3))
		got := lines(a.Run(h.T().Context()))
		if len(got) != 1 || !strings.Contains(got[0], "mount one: MaxAttempts(0)") {
			h.T().Errorf("%q", got)
		}
	})
}

func TestAServerThatDoesNotAnswerIsNamed(t *testing.T) {
	began := time.Now()
	a := app.New("away", "1", app.StartTimeout(300*time.Millisecond), app.Logger(slogDiscard))
	started := false
	a.OnStartup(func(context.Context) error { started = true; return nil })
	m := a.Broker(redisbroker.Standalone("redis://127.0.0.1:1"))
	m.Mount(subscription(streamrt.Spec{Stream: "in"}, ack))
	err := a.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
	if !started || time.Since(began) > 5*time.Second {
		t.Errorf("started %v, after %s", started, time.Since(began))
	}
}

func TestAnUnreachableServerIsReportedWithTheOtherProblems(t *testing.T) {
	a := app.New("away", "1", app.Logger(slogDiscard))
	m := a.Broker(redisbroker.Standalone("redis://127.0.0.1:1"))
	m.Mount(subscription(streamrt.Spec{Stream: "in"}, ack), app.MaxAttempts(0))
	got := lines(a.Run(t.Context()))
	if len(got) != 2 || !strings.Contains(got[0], "MaxAttempts") || !strings.Contains(got[1], "127.0.0.1:1") {
		t.Errorf("%q", got)
	}
}

func TestStopDuringTheStartIsClean(t *testing.T) {
	a := app.New("away", "1", app.Logger(slogDiscard))
	m := a.Broker(redisbroker.Standalone("redis://127.0.0.1:1"))
	m.Mount(subscription(streamrt.Spec{Stream: "in"}, ack))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := a.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestHooksRunInOrder(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		s := newService(h, h.Broker())
		var mu sync.Mutex // the handler still runs when the hooks of OnShutdown do
		var order []string
		add := func(name string) {
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
		}
		note := func(name string) app.Hook {
			return func(context.Context) error {
				groups, _ := h.Client().XInfoGroups(context.Background(), "in").Result()
				if len(groups) > 0 {
					name += "+"
				}
				add(name)
				return nil
			}
		}
		s.mount(streamrt.Spec{}, func(context.Context, string) outcome.HandlerOutcome {
			time.Sleep(time.Second)
			add("handled")
			return outcome.Ack()
		})
		s.app.OnStartup(note("up1"))
		s.app.OnStartup(note("up2"))
		s.app.AfterStartup(note("ready"))
		s.app.OnShutdown(note("down1"))
		s.app.OnShutdown(note("down2"))
		s.app.AfterShutdown(note("after1"))
		s.app.AfterShutdown(func(context.Context) error {
			if s.pending() != 0 {
				s.t.Error("AfterShutdown ran before the last settlement")
			}
			return note("after2")(s.t.Context())
		})
		s.start()
		s.publish("x")
		s.Stop()
		want := []string{"up1", "up2", "ready+", "down2+", "down1+", "handled", "after2+", "after1+"}
		if !slices.Equal(order, want) {
			s.t.Errorf("%v, want %v", order, want)
		}
	})
}

func TestAFailedStartHookStillRunsTheShutdownHooks(t *testing.T) {
	failed := errors.New("no disk")
	for name, add := range map[string]func(*app.App, app.Hook){
		"OnStartup": (*app.App).OnStartup, "AfterStartup": (*app.App).AfterStartup,
	} {
		t.Run(name, func(t *testing.T) {
			apptest.Paused(t, func(h *apptest.H) {
				s := newService(h, h.Broker())
				s.mount(streamrt.Spec{}, ack)
				var order []string
				add(s.app, func(context.Context) error { return failed })
				add(s.app, func(context.Context) error { order = append(order, "second"); return nil })
				s.app.OnShutdown(func(context.Context) error { order = append(order, "down"); panic("in a hook") })
				s.app.AfterShutdown(func(context.Context) error { order = append(order, "after"); return errors.New("late") })
				err := s.app.Run(s.t.Context())
				if !errors.Is(err, failed) || !mentions(err.Error(), []string{name, "OnShutdown panicked: in a hook", "late"}) {
					s.t.Errorf("%v", err)
				}
				if !slices.Equal(order, []string{"down", "after"}) {
					s.t.Errorf("%v", order)
				}
			})
		})
	}
}

func TestPublishGivesIDAndContentType(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		s := newService(h, h.Broker())
		ctx := s.t.Context()
		for _, err := range []error{
			s.m.Publish(ctx, broker.Stream("out"), map[string]int{"ID": 1}),
			s.m.Publish(ctx, broker.Stream("out"), []byte("raw"), broker.Header("message-id", "mine"), broker.Header("retry-count", "7")),
		} {
			if err != nil {
				s.t.Fatal(err)
			}
		}
		entries := s.entries("out")
		first, second := entries[0].Values, entries[1].Values
		if id, _ := first["h:message-id"].(string); len(id) < 20 || first["_payload"] != `{"ID":1}` || first["h:content-type"] != "json" {
			s.t.Errorf("%v", first)
		}
		if second["h:message-id"] != "mine" || second["_payload"] != "raw" || len(second) != 2 {
			s.t.Errorf("%v", second)
		}
		if err := s.m.Publish(ctx, broker.Stream("out"), func() {}); err == nil || !strings.Contains(err.Error(), "stream out") {
			s.t.Error(err)
		}
		if err := s.m.Publish(ctx, broker.Destination{}, []byte("x")); err == nil {
			s.t.Error("published to nowhere")
		}
		if err := s.m.Close(ctx); err != nil {
			s.t.Error(err)
		}
	})
}
