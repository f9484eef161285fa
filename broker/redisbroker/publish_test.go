package redisbroker_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

func publishAll(t *testing.T, b *redisbroker.Broker, messages ...broker.Outgoing) {
	t.Helper()
	for i, err := range b.Publish(t.Context(), messages) {
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

func out(to broker.Destination, body string, options ...broker.PublishOption) broker.Outgoing {
	return broker.NewOutgoing(to, []byte(body), options...)
}

func TestAMessageIsPublishedByteForByteWhereverItGoes(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		ctx := t.Context()
		channel := listen(t, b, broker.Source{Key: "channel"})
		var messages []broker.Outgoing
		for _, to := range []broker.Destination{broker.Stream("stream"), broker.List("list"), broker.Channel("channel")} {
			messages = append(messages, out(to, everyByte, broker.Header(everyByte, everyByte)), out(to, everyByte), out(to, ""))
		}
		publishAll(t, b, messages...)
		entries := client.XRange(ctx, "stream", "-", "+").Val()
		if len(entries) != 3 || entries[0].Values["_payload"] != everyByte || entries[0].Values["h:"+everyByte] != everyByte ||
			len(entries[1].Values) != 1 || entries[2].Values["_payload"] != "" {
			t.Errorf("%d entries", len(entries))
		}
		list := client.LRange(ctx, "list", 0, -1).Val()
		// Consumers take from the right.
		if len(list) != 3 || list[0] != "" || list[1] != everyByte || !strings.HasPrefix(list[2], "\xd9\xd9\xf7\xda\x4d\x4c\x52\x31") {
			t.Errorf("list %.30q", list)
		}
		ds := channel.read(3)
		if v, _ := ds[0].Header(everyByte); v != everyByte || string(ds[0].Body) != everyByte || string(ds[1].Body) != everyByte || len(ds[1].Headers) > 0 {
			t.Errorf("%+v", ds)
		}
	})
}

func TestAShardedChannelIsAnotherOne(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		b := redisbroker.Standalone(server.URL())
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		plain, sharded := listen(t, b, broker.Source{Key: "twin"}), listen(t, b, broker.Source{Key: "twin", Sharded: true})
		publishAll(t, b, out(broker.ShardedChannel("twin"), "sharded"), out(broker.Channel("twin"), "plain"))
		if d := sharded.read(1)[0]; string(d.Body) != "sharded" {
			t.Errorf("%s", d.Body)
		}
		if d := plain.read(1)[0]; string(d.Body) != "plain" {
			t.Errorf("%s", d.Body)
		}
		sharded.none()
	})
}

func TestAPublishTrimsTheStream(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		var messages []broker.Outgoing
		for range 1000 {
			messages = append(messages, out(broker.Stream("trimmed"), "x", broker.MaxLen(10)))
		}
		publishAll(t, b, messages...)
		// The server trims by whole nodes of a hundred entries.
		n := client.XLen(t.Context(), "trimmed").Val()
		if n < 10 || n > 200 {
			t.Errorf("MaxLen left %d", n)
		}
		publishAll(t, b, out(broker.Stream("trimmed"), "x", broker.MinID("99999999999999")))
		if after := client.XLen(t.Context(), "trimmed").Val(); after > n || after > 101 {
			t.Errorf("MinID left %d of %d", after, n+1)
		}
	})
}

func TestAPublishWaitsByTheServersClock(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		ctx := t.Context()
		if err := client.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		for _, to := range []broker.Destination{broker.Stream("to"), broker.List("list")} {
			set := to.Key() + ".delayed"
			before := client.Time(ctx).Val().UnixMilli()
			var messages []broker.Outgoing
			for range 250 {
				messages = append(messages, out(to, "same", broker.After(set, time.Minute), broker.Header("a", "b")))
			}
			publishAll(t, b, append(messages,
				out(to, "longest", broker.After(set, math.MaxInt64)),
				out(to, "now", broker.After(set, 0)),
				out(to, "now", broker.After(set, math.MinInt64)),
			)...)
			after := client.Time(ctx).Val().UnixMilli()
			all := client.ZRangeWithScores(ctx, set, 0, -1).Val()
			if len(all) != 251 {
				t.Fatalf("%s: ZCARD %d: equal messages collapsed", set, len(all))
			}
			for _, z := range all[:250] {
				if due := int64(z.Score); due < before+60_000 || due > after+60_001 {
					t.Fatalf("due %d ms after the publish", due-before)
				}
			}
			century := (100 * 365 * 24 * time.Hour).Milliseconds()
			if due := int64(all[250].Score); due < before+century || due > after+century+1 {
				t.Errorf("the longest is due at %d", due)
			}
			if ttl := client.PTTL(ctx, set).Val(); ttl > 0 {
				t.Errorf("the set expires in %v", ttl)
			}
		}
		if x, l := client.XLen(ctx, "to").Val(), client.LLen(ctx, "list").Val(); x != 2 || l != 2 {
			t.Errorf("at once: XLEN %d, LLEN %d", x, l)
		}
	})
}

func TestASetThatExpiresOutlivesWhatIsPublishedIntoIt(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		ctx := t.Context()
		now := client.Time(ctx).Val()
		client.ZAdd(ctx, "expiring", redis.Z{Score: float64(now.Add(time.Minute).UnixMilli()), Member: "m"})
		client.PExpireAt(ctx, "expiring", now.Add(10*time.Minute))
		left := func() time.Duration { return client.PTTL(ctx, "expiring").Val() }
		publishAll(t, b, out(broker.Stream("to"), "x", broker.After("expiring", time.Second)))
		if ttl := left(); ttl > 10*time.Minute || ttl < 9*time.Minute {
			t.Errorf("a shorter delay: %v", ttl)
		}
		// 9 minutes after the last due time, as before.
		publishAll(t, b, out(broker.Stream("to"), "x", broker.After("expiring", time.Hour)),
			out(broker.Stream("to"), "x", broker.After("expiring", 2*time.Hour)))
		if ttl := left() - 129*time.Minute; ttl.Abs() > 10*time.Second {
			t.Errorf("a longer one: %v from 129m", ttl)
		}
	})
}

func TestWhatWaitsIsMovedAndReadAsItWasPublished(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: 2 * time.Second, DelaySet: "z"})
		f.start()
		publishAll(t, b, out(broker.Stream("s"), everyByte, broker.After("z", 50*time.Millisecond),
			broker.Header(everyByte, everyByte), broker.Header(broker.HeaderRetryCount, "7")))
		d := f.wait()
		v, _ := d.Header(everyByte)
		if _, counted := d.Header(broker.HeaderRetryCount); counted || v != everyByte || string(d.Body) != everyByte || len(d.Fields) != 2 {
			t.Errorf("%+v", d)
		}
	})
}

func TestALargeBatchIsCutAndLosesNothing(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		const n = 2500
		large := strings.Repeat("x", 3<<20)
		var messages []broker.Outgoing
		for i := range n {
			messages = append(messages, out(broker.Stream("many"), fmt.Sprint(i)))
		}
		for range 5 {
			messages = append(messages, out(broker.List("large"), large))
		}
		messages[1200].MaxLen, messages[1200].MinID = 1, "1"
		errs := b.Publish(t.Context(), messages)
		for i, err := range errs {
			if (err != nil) != (i == 1200) {
				t.Fatalf("message %d: %v", i, err)
			}
		}
		if x, l := client.XLen(t.Context(), "many").Val(), client.LLen(t.Context(), "large").Val(); x != n-1 || l != 5 {
			t.Errorf("XLEN %d, LLEN %d", x, l)
		}
		if last := client.XRevRangeN(t.Context(), "many", "+", "-", 1).Val(); last[0].Values["_payload"] != fmt.Sprint(n-1) {
			t.Errorf("the last is %v", last)
		}
	})
}

func TestAnOptionThatSaysNothingIsAnError(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		s, l, c := broker.Stream("bad"), broker.List("bad"), broker.Channel("bad")
		for _, bad := range []struct {
			message broker.Outgoing
			want    string
		}{
			{out(s, "x", broker.MaxLen(0)), "broker.MaxLen(0) would leave nothing; give at least 1"},
			{out(s, "x", broker.MaxLen(-3)), "broker.MaxLen(-3)"},
			{out(s, "x", broker.MinID("")), `broker.MinID("") is no entry id; give one such as`},
			{out(s, "x", broker.MinID("yesterday")), `broker.MinID("yesterday")`},
			{out(s, "x", broker.MinID("1-2-3")), "broker.MinID"},
			{out(s, "x", broker.MaxLen(5), broker.MinID("5-1")), `broker.MaxLen(5) and broker.MinID("5-1") exclude each other; leave one out`},
			{out(l, "x", broker.MaxLen(5)), "broker.MaxLen(5) trims streams, and a list is none; leave it out"},
			{out(c, "x", broker.MinID("5-1")), `broker.MinID("5-1") trims streams, and a channel is none`},
			{out(c, "x", broker.After("set", time.Second)), `broker.After("set", 1s): nothing can wait for a channel`},
			{out(c, "x", broker.After("set", 0)), "broker.After"},
			{out(s, "x", broker.After("", time.Second)), "names no set"},
			{out(s, "x", broker.After("set", time.Second), broker.MaxLen(5)), "leave one out"},
			{out(s, "x", broker.Header("", "v")), "has no name"},
			{out(broker.Stream(""), "x"), "has no key"},
			{out(broker.Destination{}, "x"), "the destination is zero"},
		} {
			for range 2 {
				if err := b.Publish(t.Context(), []broker.Outgoing{bad.message})[0]; err == nil || !strings.Contains(err.Error(), bad.want) {
					t.Errorf("%v; want %q", err, bad.want)
				}
			}
		}
		if n := client.Exists(t.Context(), "bad", "set").Val(); n != 0 {
			t.Errorf("%d keys were written", n)
		}
	})
}

func TestARefusedMessageHarmsNoOther(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		ctx := t.Context()
		client.Set(ctx, "text", "x", 0)
		errs := b.Publish(ctx, []broker.Outgoing{
			out(broker.Stream("text"), "x"), out(broker.Stream("good"), "x"), out(broker.List("text"), "x"),
			out(broker.Stream("good"), "x", broker.After("text", time.Second)), out(broker.List("list"), "x"),
		})
		for i, err := range errs {
			if bad := i%2 == 0 && i < 4 || i == 3; bad != (err != nil) || bad && !strings.Contains(err.Error(), "WRONGTYPE") {
				t.Errorf("message %d: %v", i, err)
			}
		}
		if x, l := client.XLen(ctx, "good").Val(), client.LLen(ctx, "list").Val(); x != 1 || l != 1 {
			t.Errorf("XLEN %d, LLEN %d", x, l)
		}
	})
}

func TestNothingMoreIsSentToAServerThatCannotBeReached(t *testing.T) {
	b := redisbroker.Standalone("redis://127.0.0.1:1")
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	messages := make([]broker.Outgoing, 3000)
	for i := range messages {
		messages[i] = out(broker.Stream("s"), "x")
	}
	for i, err := range b.Publish(t.Context(), messages) {
		if err == nil || !strings.Contains(err.Error(), "refused") {
			t.Fatalf("message %d: %v", i, err)
		}
	}
}

// documentedForPublishing are the rights that docs/publishing.md lists.
var documentedForPublishing = []string{
	"+xadd", "+lpush", "+publish", "+spublish", "+evalsha", "+script|load", "+time", "+pttl", "+zadd", "+zrange", "+pexpireat",
	"+ping", "+hello", "+select", "~key", "~set", "~list", "&name",
}

func TestAPublisherNeedsTheRightsThatTheGuideLists(t *testing.T) {
	guide, err := os.ReadFile("../../docs/publishing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(guide), "## What a Redis user needs")
	for _, right := range documentedForPublishing {
		if plain := strings.ReplaceAll(section, "\\|", "|"); right[0] == '+' && !strings.Contains(plain, right) {
			t.Errorf("the guide does not list %s", right)
		}
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		server = server.Own(t)
		client := server.Client()
		client.ZAdd(t.Context(), "set", redis.Z{Score: 1, Member: "m"})
		client.Expire(t.Context(), "set", time.Hour)
		b := userWith(t, server, documentedForPublishing)
		publishAll(t, b,
			out(broker.Stream("key"), "x", broker.MaxLen(9)), out(broker.List("list"), "x"), out(broker.Channel("name"), "x"),
			out(broker.ShardedChannel("name"), "x"), out(broker.Stream("key"), "x", broker.After("set", time.Minute)))
		if err := b.Publish(t.Context(), []broker.Outgoing{out(broker.Channel("other"), "x")})[0]; err == nil ||
			!strings.Contains(err.Error(), "channel other") || !strings.Contains(err.Error(), "NOPERM") {
			t.Error(err)
		}
	})
}

// BenchmarkPublish sends messages of 200 bytes one by one and as batches of a thousand:
//
//	go test -run '^$' -bench Publish ./broker/redisbroker
func BenchmarkPublish(b *testing.B) {
	server := redistest.Start(b)
	p := redisbroker.Standalone(server.URL())
	b.Cleanup(func() { _ = p.Close(context.Background()) })
	body := strings.Repeat("x", 200)
	for _, size := range []int{1, 1000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			messages := make([]broker.Outgoing, size)
			for i := range messages {
				messages[i] = out(broker.Stream("bench"), body, broker.Header(broker.HeaderMessageID, "m"), broker.MaxLen(100_000))
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range p.Publish(b.Context(), messages) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}
