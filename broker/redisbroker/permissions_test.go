package redisbroker_test

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// documented are the commands and key patterns that docs/reliability.md says a subscription needs.
var documented = []string{
	"+ping", "+hello", "+select", "+client|id", "+client|unblock", "+type", "+time",
	"+evalsha", "+script|load",
	"+xreadgroup", "+xack", "+xpending", "+xclaim", "+xrange", "+xinfo", "+xadd", "+xgroup",
	"+get", "+set", "+del", "+exists", "+pexpire",
	"+zadd", "+zrange", "+zrangebyscore", "+zmscore", "+zrem", "+pttl", "+pexpireat", "+persist",
	"~s", "~{s}:*", "~z", "~dlq",
}

// restricted returns a broker whose user has these rules, less those that are left out.
func restricted(t *testing.T, server *redistest.Server, without ...string) *redisbroker.Broker {
	t.Helper()
	return restrictedTo(t, server, documented, without...)
}

func restrictedTo(t *testing.T, server *redistest.Server, permitted []string, without ...string) *redisbroker.Broker {
	t.Helper()
	rules := []any{"ACL", "SETUSER", "worker", "reset", "on", ">secret"}
	for _, rule := range permitted {
		left := false
		for _, w := range without {
			left = left || rule == w
		}
		if !left {
			rules = append(rules, rule)
		}
	}
	if err := server.Client().Do(t.Context(), rules...).Err(); err != nil {
		t.Fatal(err)
	}
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	options.Username, options.Password = "worker", "secret"
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	b := redisbroker.FromClient(client)
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b
}

func subscribe(t *testing.T, b *redisbroker.Broker, holder broker.Holder) (broker.Subscription, error) {
	if err := b.Connect(t.Context()); err != nil {
		return nil, err
	}
	return b.Subscribe(t.Context(), broker.Config{
		Name:       "t.h",
		Source:     b.Resolve(broker.Source{Structure: broker.StructureStream, Key: "s", Group: "g", DelaySet: "z", Block: time.Second}),
		DeadLetter: "dlq", Logger: slog.New(slog.DiscardHandler), Holder: holder,
		Discarded: func(string) {}, Buried: func(string) {},
	})
}

func TestTheGuideListsTheSamePermissions(t *testing.T) {
	guide, err := os.ReadFile("../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(guide), "```text\n")
	block, _, _ = strings.Cut(block, "```")
	listed := strings.Fields(block)
	slices.Sort(listed)
	want := slices.Sorted(slices.Values(documented))
	if !slices.Equal(listed, want) {
		t.Errorf("docs/reliability.md lists\n%v, the tests run with\n%v", listed, want)
	}
}

func TestAMissingPermissionIsNamedAtTheStart(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		server = server.Own(t)
		f := &fixture{t: t, client: server.Client(), hand: map[string]int64{}}
		for _, rule := range documented {
			want := strings.TrimRight(strings.TrimLeft(rule, "+~"), "*")
			switch rule {
			case "+ping", "+hello", "+select", "+client|id", "+client|unblock":
				continue // go-redis or the reader does without
			case "+type":
				continue // Inspect reports it
			case "+script|load":
				want = "SCRIPT LOAD"
			}
			_, err := subscribe(t, restricted(t, server, rule), f)
			if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
				t.Errorf("without %s: %v", rule, err)
			}
		}
		// With everything that is documented it works: read, delay, copy, bury, acknowledge, hand back.
		b := restricted(t, server)
		sub, err := subscribe(t, b, f)
		if err != nil {
			t.Fatal(err)
		}
		f.sub = sub
		stop := f.start()
		for range 4 {
			f.add("_payload", "b")
		}
		ds := f.read(4)
		for i, st := range []broker.Settlement{
			{Action: broker.Delay, Delay: 50 * time.Millisecond},
			{Action: broker.Copy},
			{Action: broker.Bury, Target: "dlq", Burial: &broker.Burial{Reason: "rejected"}},
			{Action: broker.Ack},
		} {
			st.Delivery = ds[i]
			if got := f.settle(st); got != broker.Done {
				t.Errorf("%s: %v", st.Action, got)
			}
		}
		f.collect(2)
		stop()
		sub.Stop(t.Context())
		if err := sub.Release(t.Context(), nil); err != nil {
			t.Error(err)
		}
	})
}

// What docs/servers.md names besides is enough for a cluster.
func TestThePermissionsOfAClusterAreEnough(t *testing.T) {
	server := redistest.ClusterOf(t, 1)[0]
	on := func(permitted []string) (*fixture, broker.Subscription, error) {
		restrictedTo(t, server, permitted)
		options, err := redis.ParseClusterURL(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		options.Username, options.Password = "worker", "secret"
		client := redis.NewClusterClient(options)
		t.Cleanup(func() { _ = client.Close() })
		b := redisbroker.FromClient(client)
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		f := &fixture{t: t, client: server.Client(), hand: map[string]int64{}}
		sub, err := subscribe(t, b, f)
		f.sub = sub
		return f, sub, err
	}
	if _, _, err := on(documented); err == nil || !strings.Contains(err.Error(), "cluster|slots") {
		t.Errorf("without +cluster|slots: %v", err)
	}
	f, sub, err := on(append([]string{"+cluster|slots", "+asking"}, documented...))
	if err != nil {
		t.Fatal(err)
	}
	stop := f.start()
	for range 2 {
		f.add("_payload", "b")
	}
	for i, d := range f.read(2) {
		st := []broker.Settlement{
			{Action: broker.Delay, Delay: 50 * time.Millisecond},
			{Action: broker.Bury, Target: "dlq", Burial: &broker.Burial{Reason: "rejected"}},
		}[i]
		st.Delivery = d
		if got := f.settle(st); got != broker.Done {
			t.Errorf("%s: %v", st.Action, got)
		}
	}
	f.collect(1)
	stop()
	sub.Stop(t.Context())
	if err := sub.Release(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// A right that is taken away while a worker runs doubles nothing: what could not be finished is not begun.
func TestARightThatIsTakenAwayDoublesNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		server = server.Own(t)
		client, ctx := server.Client(), t.Context()
		f := &fixture{t: t, client: client, hand: map[string]int64{}, count: map[string]int{}}
		sub, err := subscribe(t, restricted(t, server), f)
		if err != nil {
			t.Fatal(err)
		}
		f.sub = sub
		for range 3 {
			f.add("_payload", "b")
		}
		var all []*broker.Delivery
		for len(all) < 3 {
			all = append(all, f.read(3)...)
		}
		may := func(rule string) {
			if err := client.Do(ctx, "ACL", "SETUSER", "worker", rule).Err(); err != nil {
				t.Fatal(err)
			}
		}
		may("-xack")
		for _, action := range []broker.Action{broker.Copy, broker.Delay, broker.Bury} {
			for range 2 {
				var batch []*broker.Settlement
				for _, d := range all {
					batch = append(batch, &broker.Settlement{Delivery: d, Action: action, Delay: time.Hour, Target: "dlq", Burial: &broker.Burial{}})
				}
				f.sub.Settle(ctx, batch)
				for _, st := range batch {
					if st.Err == nil || !strings.Contains(st.Err.Error(), "xack") {
						t.Errorf("%s: %s, %v", action, st.Result, st.Err)
					}
				}
			}
		}
		if n := client.Exists(ctx, "z", "dlq").Val(); n != 0 || len(f.entries("s")) != 3 || len(f.pending()) != 3 {
			t.Errorf("%d keys were written, stream %v, pending %v", n, f.entries("s"), f.pending())
		}
		may("+xack")
		for _, d := range all {
			if got := f.settle(broker.Settlement{Delivery: d, Action: broker.Delay}); got != broker.Done {
				t.Errorf("delayed: %s", got)
			}
		}
		may("-zrem")
		for range 2 {
			f.eventually("moving is refused", func() bool { // once they are due by the server's clock
				err := redisbroker.MoveDue(ctx, f.sub)
				return err != nil && strings.Contains(err.Error(), "zrem")
			})
		}
		if n := len(f.entries("s")); n != 3 {
			t.Errorf("%d entries, want the 3 that were there: the delayed ones stay in their set", n)
		}
		may("+zrem")
		f.eventually("they are moved", func() bool {
			_ = redisbroker.MoveDue(ctx, f.sub)
			return len(f.entries("s")) == 6 && client.ZCard(ctx, "z").Val() == 0
		})
	})
}
