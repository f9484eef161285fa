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

// What docs/reliability.md says a subscription of a list needs.
var (
	documentedPlain = []string{
		"+ping", "+hello", "+select", "+type", "+time", "+client|id", "+client|unblock", "+evalsha", "+script|load",
		"+blmpop", "+lpush", "+rpush", "~l", "~dlq",
	}
	documentedReliable = []string{
		"+ping", "+hello", "+select", "+type", "+time", "+client|id", "+client|unblock", "+evalsha", "+script|load",
		"+lmove", "+blmove", "+lpush", "+rpush", "+lpop", "+lrem", "+lpos", "+lindex", "+llen", "+lrange",
		"+sadd", "+srem", "+smembers", "+get", "+set", "+del", "+pexpire",
		"+zadd", "+zscore", "+zmscore", "+zrem", "+zremrangebyscore", "+zrange", "+zrangebyscore", "+pttl", "+pexpireat", "+persist",
		"~l", "~{l}:*", "~z", "~dlq",
	}
)

func TestTheGuideListsThePermissionsOfLists(t *testing.T) {
	guide, err := os.ReadFile("../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	for heading, want := range map[string][]string{
		"For a plain list `l` with": documentedPlain, "For a reliable list `l` with": documentedReliable,
	} {
		_, block, _ := strings.Cut(string(guide), heading)
		_, block, _ = strings.Cut(block, "```text\n")
		block, _, _ = strings.Cut(block, "```")
		listed := strings.Fields(block)
		slices.Sort(listed)
		if !slices.Equal(listed, slices.Sorted(slices.Values(want))) {
			t.Errorf("docs/reliability.md lists\n%v, the tests run with\n%v", listed, want)
		}
	}
}

func TestAMissingPermissionOfAListIsNamedAtTheStart(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		server = server.Own(t)
		for _, c := range []struct {
			source    broker.Source
			permitted []string
		}{
			{broker.Source{Block: 2 * time.Second}, documentedPlain},
			{broker.Source{Block: 2 * time.Second, Reliable: true, DelaySet: "z"}, documentedReliable},
		} {
			for _, rule := range c.permitted {
				switch rule {
				case "+ping", "+hello", "+select", "+type":
					continue // as for streams
				case "+client|id", "+client|unblock":
					patientStop(t, restrictedTo(t, server, c.permitted, rule), c.source)
					continue
				}
				_, err := openAs(t, restrictedTo(t, server, c.permitted, rule), c.source)
				want := strings.TrimRight(strings.TrimLeft(rule, "+~"), "*")
				if rule == "+script|load" {
					want = "script"
				}
				if err == nil || !strings.Contains(strings.ToLower(err.Error()), want) {
					t.Errorf("without %s: %v", rule, err)
				}
			}
			worksWith(t, server, restrictedTo(t, server, c.permitted), c.source)
		}
	})
}

// openAs is openList without ending the test.
func openAs(t *testing.T, b *redisbroker.Broker, source broker.Source) (broker.Subscription, error) {
	t.Helper()
	source.Structure, source.Key = broker.StructureList, "l"
	if err := b.Connect(t.Context()); err != nil {
		return nil, err
	}
	return b.Subscribe(t.Context(), broker.Config{
		Name: "t.h", Source: b.Resolve(source), DeadLetter: "dlq", Logger: slog.New(slog.DiscardHandler),
		Discarded: func(string) {}, Buried: func(string) {}, Holder: new(fixture),
	})
}

// patientStop: where the server ends no read on demand, a stop waits for it and loses nothing.
func patientStop(t *testing.T, b *redisbroker.Broker, source broker.Source) {
	t.Helper()
	source.Block = time.Minute
	sub, err := openAs(t, b, source)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := sub.Read(context.Background(), broker.Want{New: 1, Back: 1}); err != nil {
				ended <- err
				return
			}
		}
	}()
	time.Sleep(50 * time.Millisecond)
	sub.Stop(t.Context())
	if err := <-ended; err != broker.ErrClosed || time.Since(began) > time.Second { //nolint:errorlint // it is that very error
		t.Errorf("the read ended with %v after %s", err, time.Since(began))
	}
	if err := sub.Release(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// worksWith: with everything that is documented, every settlement works.
func worksWith(t *testing.T, server *redistest.Server, b *redisbroker.Broker, source broker.Source) {
	t.Helper()
	f := openList(t, server.Client(), b, source)
	end := f.beats()
	settlements := []broker.Settlement{
		{Action: broker.Copy},
		{Action: broker.Bury, Target: "dlq", Burial: &broker.Burial{Reason: "rejected"}},
		{Action: broker.Ack},
	}
	if source.Reliable {
		settlements = append(settlements, broker.Settlement{Action: broker.Delay, Delay: 50 * time.Millisecond})
	}
	for _, st := range settlements {
		f.push("1")
		st.Delivery = f.gather(1)[0]
		if got := f.settle(st); got != broker.Done {
			t.Errorf("%s: %v", st.Action, got)
		}
		if st.Action == broker.Copy || st.Action == broker.Delay {
			f.settle(broker.Settlement{Delivery: f.gather(1)[0], Action: broker.Ack})
		}
	}
	end()
	f.sub.Stop(t.Context())
	if err := f.sub.Release(t.Context(), nil); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"l", "dlq", "z"} {
		server.Client().Del(t.Context(), key)
	}
	// The key that keeps other processes from looking within the same second ends by itself.
	if keys := f.keys("{l}*[^:]"); len(keys) != 0 {
		t.Errorf("keys are left: %v", keys)
	}
}
