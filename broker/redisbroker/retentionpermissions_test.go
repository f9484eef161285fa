package redisbroker_test

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// What docs/reliability.md says that retention needs besides.
var (
	documentedTrimming  = []string{"+xtrim", "+xlen"}
	documentedListBound = []string{"+llen", "+ltrim", "+time", "+lrange", "+lrem"}
)

func TestTheGuideListsThePermissionsOfRetention(t *testing.T) {
	guide, err := os.ReadFile("../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "[Retention](retention.md) needs more.")
	for _, want := range [][]string{documentedTrimming, documentedListBound} {
		var block string
		_, rest, _ = strings.Cut(rest, "```text\n")
		block, rest, _ = strings.Cut(rest, "```")
		if listed := strings.Fields(block); !slices.Equal(listed, want) {
			t.Errorf("docs/reliability.md lists %v, the tests run with %v", listed, want)
		}
	}
}

func TestThePermissionsOfRetentionAreEnoughAndNeeded(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		server = server.Own(t)
		bound := map[string]broker.Retention{"dlq": {Last: 1, For: time.Hour}}
		for _, c := range []struct {
			name               string
			source             broker.Source
			retain             broker.Retention
			permitted, besides []string
		}{
			{"stream", broker.Source{Structure: broker.StructureStream, Key: "s", Group: "g"}, broker.Retention{DeleteAcked: true}, documented, documentedTrimming},
			{"list", broker.Source{Structure: broker.StructureList, Key: "l"}, broker.Retention{}, documentedPlain, documentedListBound},
			{"reliable list", broker.Source{Structure: broker.StructureList, Key: "l", Reliable: true}, broker.Retention{}, documentedReliable, documentedListBound},
		} {
			f := &fixture{t: t, client: server.Client(), hand: map[string]int64{}, count: map[string]int{}}
			subscribe := func(without ...string) error {
				b := restrictedTo(t, server, slices.Concat(c.permitted, c.besides, []string{"~{l}:*"}), without...)
				if err := b.Connect(t.Context()); err != nil {
					t.Fatal(err)
				}
				c.source.Block = time.Second
				sub, err := b.Subscribe(t.Context(), broker.Config{
					Name: "t.h", Source: b.Resolve(c.source), DeadLetter: "dlq", Logger: slog.New(slog.DiscardHandler), Holder: f,
					Retain: c.retain, Letters: bound,
					Discarded: func(string) {}, Buried: func(string) {}, Trimmed: func(key string, n int64) { f.count[key] += int(n) },
				})
				f.sub = sub
				return err
			}
			for _, rule := range c.besides {
				if err := subscribe(rule); err == nil || !strings.Contains(strings.ToLower(err.Error()), rule[1:]) {
					t.Errorf("%s without %s: %v", c.name, rule, err)
				}
			}
			if err := subscribe(); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			for range 3 {
				if c.source.Structure == broker.StructureStream {
					f.add("_payload", "b")
				} else {
					server.Client().LPush(t.Context(), "l", "b")
				}
			}
			for range 3 {
				st := broker.Settlement{Delivery: f.one(), Action: broker.Bury, Target: "dlq", Burial: &broker.Burial{Reason: "rejected"}}
				if got := f.settle(st); got != broker.Done {
					t.Errorf("%s: buried: %s", c.name, got)
				}
			}
			if err := redisbroker.Trim(t.Context(), f.sub, nil); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if f.count["dlq"] != 2 {
				t.Errorf("%s: %d dead letters removed, want 2", c.name, f.count["dlq"])
			}
			f.sub.Stop(t.Context())
			if err := f.sub.Release(context.Background(), nil); err != nil {
				t.Error(err)
			}
			server.Client().Del(t.Context(), "dlq", "s", "l")
		}
		refused, err := server.Client().ACLLog(t.Context(), 100).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range refused {
			if r.Object == "evalsha" {
				t.Errorf("a script was refused: %+v", r)
			}
		}
	})
}
