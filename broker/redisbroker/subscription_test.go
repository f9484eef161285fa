package redisbroker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestTheFieldsOfAnEntryArriveAsTheyStand(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second})
		id := f.add("_payload", "\x00\xff\r\nbody", "h:message-id", "m1", "x", "1", "x", "2", "h:a", "")
		d := f.one()
		if d.ID != id || d.Count != 1 || string(d.Body) != "\x00\xff\r\nbody" || d.MessageID() != "m1" || len(d.Fields) != 5 || d.Burial != nil {
			t.Fatalf("got %+v", d)
		}
		if v, ok := d.Header("a"); !ok || v != "" {
			t.Fatalf("header a: %q %v", v, ok)
		}
		if got := f.settle(broker.Settlement{Delivery: d, Action: broker.Ack}); got != broker.Done || len(f.pending()) != 0 {
			t.Fatalf("%v, pending %v", got, f.pending())
		}
	})
}

func TestStopEndsABlockedReadAtOnceAndReleaseHandsBack(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Minute})
		for range 3 {
			f.add("_payload", "b")
		}
		ds := f.read(3)
		f.settle(broker.Settlement{Delivery: ds[1], Action: broker.Keep, Count: 1000})
		ended := make(chan error, 1)
		go func() {
			for {
				if _, err := f.sub.Read(context.Background(), broker.Want{New: 1, Back: 1}); err != nil {
					ended <- err
					return
				}
			}
		}()
		time.Sleep(50 * time.Millisecond)
		start := time.Now()
		f.sub.Stop(t.Context())
		if err := <-ended; !errors.Is(err, broker.ErrClosed) || time.Since(start) > time.Second {
			t.Fatalf("read ended with %v after %v", err, time.Since(start))
		}
		err := f.sub.Release(t.Context(), []broker.Held{{ID: ds[0].ID, Count: 0}, {ID: ds[1].ID, Count: 1000, Due: 10 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		p := f.pending()
		if len(p) != 3 || p[0].Consumer != "~free" || p[0].RetryCount != 0 || p[1].RetryCount != 1000 || p[2].RetryCount != 0 {
			t.Fatalf("pending %v", p)
		}
		if p[0].Idle < 30*time.Second || p[1].Idle > 22*time.Second || p[2].Idle < 30*time.Second {
			t.Errorf("idle %v %v %v", p[0].Idle, p[1].Idle, p[2].Idle)
		}
		for _, c := range client.XInfoConsumers(t.Context(), "s", "g").Val() {
			if c.Name != "~free" {
				t.Errorf("consumer %s was left", c.Name)
			}
		}
	})
}

func TestAGroupThatIsGoneIsMadeAgainWhereItWas(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second})
		f.add("_payload", "1")
		f.settle(broker.Settlement{Delivery: f.one(), Action: broker.Ack})
		client.XGroupDestroy(t.Context(), "s", "g")
		want := f.add("_payload", "2")
		if _, err := f.sub.Read(t.Context(), broker.Want{New: 1, Back: 1}); err == nil {
			t.Fatal("the group is gone and nothing was said")
		}
		if d := f.one(); d.ID != want {
			t.Errorf("read %s, want %s", d.ID, want)
		}
		// The embedded server cannot tell a new stream from an old one within the same millisecond.
		for old := want; want == old; {
			client.Del(t.Context(), "s")
			want = f.add("_payload", "3")
		}
		_, _ = f.sub.Read(t.Context(), broker.Want{New: 1, Back: 1})
		if d := f.wait(); d.ID != want {
			t.Errorf("read %s, want %s", d.ID, want)
		}
	})
}

func TestWhatAPeerHandedBackIsTakenWithinASecond(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Minute})
		id := f.add("_payload", "b")
		f.one()
		client.Do(t.Context(), "XCLAIM", "s", "g", "~free", 0, id, "IDLE", 30000, "RETRYCOUNT", 0, "JUSTID")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, task := range f.sub.Tasks() {
			go task.Run(ctx)
		}
		start := time.Now()
		if d := f.wait(); d.ID != id || d.Count != 1 || time.Since(start) > 2*time.Second {
			t.Errorf("took %s with count %d after %v", d.ID, d.Count, time.Since(start))
		}
	})
}

func TestAVanishedEntryIsNeverHandedOut(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: 100 * time.Millisecond, Claim: time.Second})
		gone := f.add("_payload", "gone")
		f.one()
		client.XDel(t.Context(), "s", gone)
		client.Do(t.Context(), "XCLAIM", "s", "g", "other", 0, gone, "IDLE", 5000, "RETRYCOUNT", 1, "JUSTID")
		stays := f.add("_payload", "stays")
		if d := f.wait(); d.ID != stays {
			t.Errorf("read %s", d.ID)
		}
	})
}

func TestInspectNamesEveryKeyThatHoldsSomethingElse(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		client.Set(t.Context(), "a", "x", 0)
		client.LPush(t.Context(), "b", "x")
		client.XAdd(t.Context(), &redis.XAddArgs{Stream: "c", Values: []string{"k", "v"}})
		errs := b.Inspect(t.Context(), []broker.KeyUse{
			{Mount: "m1", Role: "source", Key: "a", Structure: broker.StructureStream},
			{Mount: "m2", Role: "delay set", Key: "b", Structure: broker.StructureSortedSet},
			{Mount: "m3", Role: "source", Key: "c", Structure: broker.StructureStream},
			{Mount: "m3", Role: "dead letter", Key: "none", Structure: broker.StructureStream},
		})
		if len(errs) != 2 || !strings.Contains(errs[0].Error(), `m1: source "a"`) || !strings.Contains(errs[1].Error(), "is a list, not a sorted set") {
			t.Errorf("got %v", errs)
		}
	})
}

// What came with one read is taken apart in one piece of memory, and each entry keeps what is its own.
func TestEntriesOfOneReadKeepTheirOwnFields(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second})
		const entries = 50
		want := map[string]string{}
		for i := range entries {
			values := []string{"_payload", fmt.Sprint("body ", i), "h:n", fmt.Sprint(i)}
			for range i % 4 {
				values = append(values, "x", fmt.Sprint("extra ", i))
			}
			want[f.add(values...)] = strings.Join(values, " ")
		}
		got := map[string]string{}
		for len(got) < entries {
			for _, d := range f.read(entries) {
				var values []string
				for _, field := range d.Fields {
					values = append(values, string(field.Name), string(field.Value))
				}
				n, _ := d.Header("n")
				if string(d.Body) != "body "+n {
					t.Errorf("the body %q of entry %s", d.Body, n)
				}
				got[d.ID] = strings.Join(values, " ")
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("got %v\nwant %v", got, want)
		}
	})
}
