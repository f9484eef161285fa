package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// later is a service that wants every message again in an hour, and says to have it.
func (s *stage) later(spec streamrt.Spec) {
	s.worker(spec, func(context.Context, string) outcome.HandlerOutcome {
		return outcome.RetryAfter(time.Hour).WithError(errNoAnswer)
	})
}

func TestDelaysAsTheyArePrinted(t *testing.T) {
	paused(t, func(s *stage) {
		s.later(streamrt.Spec{Stream: "refunds", Group: "refunds", DelaySet: "refunds.delayed"})
		for i, body := range []string{`{"id":7}`, "\x00\xff"} {
			s.publish(broker.Stream("refunds"), body)
			s.Eventually("it is delayed", func(ctx context.Context) bool { return s.Client().ZCard(ctx, "refunds.delayed").Val() == int64(i+1) })
			s.Advance(time.Minute)
		}
		s.Stop()
		s.does(0, "publish", "refunds", "published", "--after", "refunds.delayed", "--delay", "2h", "--header", "message-id=m3")
		s.does(0, "delayed", "ls")
		rows := strings.Split(strings.TrimSpace(s.does(0, "delayed", "ls", "refunds.delayed").out), "\n")
		id, _, _ := strings.Cut(rows[3], " ") // what is published is never like anything else
		s.masks = []string{id, "0a1b2c3d4e5f"}
		s.does(0, "delayed", "ls", "refunds.delayed", "--due")
		s.does(0, "delayed", "ls", "refunds.delayed", "--limit", "1", "--json")
		s.does(0, "delayed", "ls", "nothing.here")
		s.does(2, "delayed", "run", "refunds.delayed")
		s.does(2, "delayed", "run", "refunds.delayed", "--all", "--due")
		s.does(1, "delayed", "run", "refunds.delayed", "0123456789ab")
		s.Advance(time.Hour - time.Minute)
		s.does(0, "delayed", "run", "refunds.delayed", "--due")
		s.does(1, "delayed", "run", "refunds.delayed", "--all")
		s.does(2, "delayed", "run", "refunds.delayed", "--all", "--kind", "list")
		s.does(1, "delayed", "run", "refunds.delayed", "--all", "--to", "a.list", "--kind", "list")
		s.does(0, "delayed", "run", "refunds.delayed", "--all", "--to", "refunds", "--json")
		s.does(0, "peek", "refunds", "--newest", "-n", "2")
		s.does(0, "publish", "refunds", "again", "--after", "refunds.delayed", "--delay", "2h", "--bare")
		s.does(2, "delayed", "rm", "refunds.delayed", "--all")
		s.answers = "no\n"
		s.does(1, "delayed", "rm", "refunds.delayed", "--all")
		s.answers = ""
		s.does(0, "delayed", "rm", "refunds.delayed", "--all", "--yes")
		s.does(0, "delayed", "ls")
		s.golden("delayed")
	})
}

func TestGroupsAsTheyArePrinted(t *testing.T) {
	paused(t, func(s *stage) {
		s.later(streamrt.Spec{Stream: "refunds", Group: "refunds"})
		s.worker(streamrt.Spec{Stream: "refunds", Group: "audit"}, func(context.Context, string) outcome.HandlerOutcome { return outcome.Ack() })
		s.Advance(time.Minute)
		s.publish(broker.Stream("refunds"), `{"id":7}`, "b")
		s.Advance(90 * time.Second)
		s.Client().XGroupCreate(t.Context(), "refunds", "abandoned", "0")
		s.does(0, "groups")
		s.does(0, "groups", "refunds", "--json")
		s.does(1, "groups", "nothing.here")
		s.does(0, "consumers", "refunds")
		s.does(0, "consumers", "refunds", "refunds", "--json")
		s.does(1, "consumers", "refunds", "nobody")
		s.does(2, "pending", "refunds")
		s.does(0, "pending", "refunds", "refunds")
		s.does(0, "pending", "refunds", "refunds", "--json", "--limit", "1")
		s.does(0, "pending", "refunds", "refunds", "--idle", "1m")
		s.does(0, "pending", "refunds", "audit")
		s.Stop()
		s.does(0, "consumers", "refunds")
		s.does(0, "pending", "refunds", "refunds")
		s.golden("groups")
	})
}

func TestListsAsTheyArePrinted(t *testing.T) {
	paused(t, func(s *stage) {
		release := make(chan struct{})
		s.worker(streamrt.Spec{List: "thumbnails", Reliable: true}, func(context.Context, string) outcome.HandlerOutcome {
			<-release
			return outcome.Ack()
		})
		s.publish(broker.List("thumbnails"), "one", "\xff two")
		s.Advance(time.Second)
		s.does(0, "consumers", "thumbnails")
		r := s.does(0, "pending", "thumbnails")
		s.has(r, "one", `"\xff two"`)
		s.does(0, "pending", "thumbnails", "--json", "--limit", "1")
		close(release)
		s.Advance(time.Second)
		s.does(0, "pending", "thumbnails")
		s.Stop()
		s.does(0, "publish", "thumbnails", "three", "--kind", "list")
		s.does(0, "publish", "thumbnails", "four", "--header", "task=resize", "--header", "message-id=m4")
		s.does(0, "peek", "thumbnails")
		s.does(0, "peek", "thumbnails", "--newest", "--limit", "1", "--json")
		s.does(0, "peek", "thumbnails", "--raw")
		s.does(2, "peek", "thumbnails", "--from", "1-0")
		s.does(1, "peek", "nothing.here")
		s.golden("lists")
	})
}

func TestPublishingAsItIsPrinted(t *testing.T) {
	paused(t, func(s *stage) {
		id := []string{"--header", "message-id=m1"}
		s.does(0, append([]string{"publish", "refunds", `{"id":7}`}, id...)...)
		s.stdin = "\x00\xff"
		s.does(0, append([]string{"publish", "refunds"}, id...)...)
		s.stdin = "a\r\n\n{}\nlast"
		s.does(0, append([]string{"publish", "refunds", "--lines", "--json"}, id...)...)
		s.stdin = ""
		s.does(0, append([]string{"publish", "refunds", "text", "--content-type", "text/plain", "--maxlen", "1000"}, id...)...)
		s.does(0, append([]string{"publish", "refunds", "{}", "--content-type", "-"}, id...)...)
		s.does(0, "publish", "refunds", "{}", "--bare")
		s.does(0, "publish", "prices", "1", "--kind", "channel")
		s.does(2, "publish", "refunds", "x", "--kind", "set")
		s.does(2, "publish", "refunds", "x", "--header", "novalue")
		s.does(2, "publish", "refunds", "x", "--after", "z")
		s.does(2, "publish", "refunds", "x", "--maxlen", "0")
		s.does(2, "publish", "refunds", "x", "--lines")
		s.does(0, "peek", "refunds")
		s.does(0, "peek", "refunds", "--json", "-n", "2")
		s.golden("publish")
	})
}

// What a table shows can be given back, with or without the prefix.
func TestAPrefixStandsBeforeEveryKey(t *testing.T) {
	paused(t, func(s *stage) {
		s.env = map[string]string{envPrefix: "prod:"}
		for _, key := range []string{"refunds", "prod:refunds"} {
			s.does(0, "publish", key, "b", "--header", "message-id=m1")
		}
		s.Client().XAdd(t.Context(), xadd("other:refunds", "f", "v"))
		s.Client().XGroupCreate(t.Context(), "prod:refunds", "g", "0")
		s.Client().XGroupCreate(t.Context(), "other:refunds", "g", "0")
		if n := s.length("prod:refunds"); n != 2 {
			t.Errorf("%d entries", n)
		}
		s.does(0, "groups")
		s.does(0, "groups", "refunds")
		s.does(0, "groups", "--prefix", "other:")
		s.golden("prefix")
	})
}

func TestADelayedMessageOfAListGoesBackToIt(t *testing.T) {
	each(t, func(s *stage) {
		key := "l" + s.t.Name()
		s.later(streamrt.Spec{List: key, Reliable: true, Name: "t.h"})
		s.publish(broker.List(key), "body")
		set := redisbroker.DeferredSet(key)
		s.Eventually("it is delayed", func(ctx context.Context) bool { return s.Client().ZCard(ctx, set).Val() == 1 })
		s.Stop()
		s.has(s.does(0, "delayed", "ls", set), key, "m1", "body")
		s.does(0, "delayed", "run", set, "--all")
		s.has(s.does(0, "peek", key), "m1", "body", "retry-count: 1")
		if n := s.Client().ZCard(s.t.Context(), set).Val(); n != 0 {
			s.t.Errorf("%d are still delayed", n)
		}
	})
}
