package redisbroker_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// A server that refuses a new connection has carried out nothing that was to be sent on it: every message of a publish has
// its error, and every outcome waits. Nothing is taken for written that stands nowhere.
func TestNothingIsWrittenOnAConnectionThatIsRefused(t *testing.T) {
	redistest.Each(t, func(t *testing.T, shared *redistest.Server) {
		server := shared.Own(t) // users are the whole server's
		admin := server.Client()
		password := func(words ...any) {
			t.Helper()
			for _, command := range [][]any{
				append([]any{"ACL", "SETUSER", "worker", "reset", "on", "allkeys", "allchannels", "allcommands"}, words...),
				{"CLIENT", "KILL", "USER", "worker"},
			} {
				if err := admin.Do(t.Context(), command...).Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
		address, err := url.Parse(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		address.User = url.UserPassword("worker", "right")
		password(">right")
		b := redisbroker.Standalone(address.String())
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		publish := func() []error {
			return b.Publish(t.Context(), []broker.Outgoing{
				broker.NewOutgoing(broker.Stream("s"), []byte("x")), broker.NewOutgoing(broker.List("l"), []byte("x")),
				broker.NewOutgoing(broker.Channel("c"), []byte("x")), broker.NewOutgoing(broker.Stream("s"), []byte("x"), broker.After("z", 1e9)),
			})
		}
		var subs []broker.Subscription
		var deliveries []*broker.Delivery
		for _, source := range []broker.Source{
			{Structure: broker.StructureStream, Key: "s", Group: "g"},
			{Structure: broker.StructureList, Key: "l"},
			{Structure: broker.StructureList, Key: "r", Reliable: true},
			{Structure: broker.StructureChannel, Key: "c"},
		} {
			sub, err := b.Subscribe(t.Context(), broker.Config{
				Name: "t.h", Source: b.Resolve(source), DeadLetter: "dlq." + source.Key, Logger: slog.New(slog.DiscardHandler),
				Discarded: func(string) {}, Buried: func(string) {}, Holder: &fixture{},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				sub.Stop(context.Background())
				_ = sub.Release(context.Background(), nil)
			})
			admin.LPush(t.Context(), "r", "x")
			for _, err := range publish() {
				if err != nil {
					t.Fatal(err)
				}
			}
			ds, err := sub.Read(t.Context(), broker.Want{New: 1, Back: 1})
			if err != nil || len(ds) != 1 {
				t.Fatalf("%s: %d read, %v", source.Key, len(ds), err)
			}
			subs, deliveries = append(subs, sub), append(deliveries, ds[0])
		}
		before := sizes(t, admin)
		password(">other")
		// The connections that were killed say so once each.
		var errs []error
		for errs = publish(); errors.Is(errs[0], io.EOF); errs = publish() {
		}
		for i, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
				t.Errorf("message %d of a publish that was refused: %v", i, err)
			}
		}
		for i, sub := range subs {
			for _, action := range []broker.Action{broker.Ack, broker.Copy, broker.Bury} {
				if action == broker.Ack && !sub.Capabilities().Acks {
					continue // it is gone anyway
				}
				st := broker.Settlement{Delivery: deliveries[i], Action: action, Target: "dlq", Burial: &broker.Burial{Reason: broker.ReasonRejected}}
				settle := func() error {
					sub.Settle(t.Context(), []*broker.Settlement{&st})
					return st.Err
				}
				for errors.Is(settle(), io.EOF) {
				}
				if st.Err == nil || !strings.Contains(st.Err.Error(), "WRONGPASS") && !strings.Contains(st.Err.Error(), "stands again") {
					t.Errorf("%s by %T: %s, %v", action, sub, st.Result, st.Err)
				}
			}
		}
		if after := sizes(t, admin); after != before {
			t.Errorf("the keys held %s and hold %s", before, after)
		}
		password(">right")
	})
}

// sizes are how much the keys hold.
func sizes(t *testing.T, client *redis.Client) string {
	t.Helper()
	n, err := client.Eval(t.Context(), `return redis.call("XLEN", "s") .. " " .. redis.call("LLEN", "l") .. " " .. redis.call("ZCARD", "z")`, nil).Text()
	if err != nil {
		t.Fatal(err)
	}
	return n
}
