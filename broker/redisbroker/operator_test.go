package redisbroker_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

func operator(t *testing.T, b *redisbroker.Broker) *redisbroker.Operator {
	t.Helper()
	o, err := b.Operator(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func delayed(t *testing.T, o *redisbroker.Operator, set string) (all []redisbroker.Delayed) {
	t.Helper()
	for d, err := range o.Delayed(t.Context(), set) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

func TestAnOperatorSeesWhatIsDelayedAndMovesItOnce(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		ctx, o := t.Context(), operator(t, b)
		f := open(t, client, b, broker.Source{DelaySet: "z", Block: time.Second})
		id := f.add("_payload", "b", "h:k", "\x00\xff", "k", "1", "k", "2")
		f.settle(broker.Settlement{Delivery: f.one(), Action: broker.Delay, Delay: time.Hour})
		out := broker.NewOutgoing(broker.Stream("s"), []byte("later"), broker.After("z", 2*time.Hour))
		if err := b.Publish(ctx, []broker.Outgoing{out})[0]; err != nil {
			t.Fatal(err)
		}
		client.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "stray"})

		all := delayed(t, o, "z")
		if len(all) != 3 {
			t.Fatalf("%d are delayed", len(all))
		}
		stray, retried, published := all[0], all[1], all[2]
		if stray.Message.Fault == nil || stray.Structure != 0 || string(stray.Message.Body) != "stray" {
			t.Errorf("what is not ours is %+v", stray)
		}
		if retried.Source != "s" || retried.Group != "g" || retried.EntryID != id || retried.Structure != broker.StructureStream {
			t.Errorf("the retry comes from %q, group %q, entry %q, a %s", retried.Source, retried.Group, retried.EntryID, retried.Structure)
		}
		if v, _ := retried.Message.Header("k"); string(retried.Message.Body) != "b" || v != "\x00\xff" {
			t.Errorf("the retry is %q with header %q", retried.Message.Body, v)
		}
		if left := time.Until(retried.Due); left < 55*time.Minute || left > 65*time.Minute {
			t.Errorf("it is due in %s", left)
		}
		if published.Source != "" || published.Group != "" || string(published.Message.Body) != "later" {
			t.Errorf("what was published is %+v", published)
		}

		members := [][]byte{stray.Member, retried.Member, published.Member}
		for round, want := range []int{2, 0} {
			if n, err := o.MoveDelayed(ctx, "z", broker.Stream("s"), members); err != nil || n != want {
				t.Errorf("round %d moved %d (%v), want %d", round, n, err, want)
			}
		}
		entries, err := o.Entries(ctx, "s", "-", "+", 10, true)
		if err != nil || len(entries) != 3 {
			t.Fatalf("%d entries (%v)", len(entries), err)
		}
		var names []string
		for _, field := range entries[1].Fields {
			names = append(names, string(field.Name)+"="+string(field.Value))
		}
		if string(entries[0].Body) != "later" || !slices.Contains(names, "k=1") || !slices.Contains(names, "k=2") {
			t.Errorf("the newest is %q, the one before it %q", entries[0].Body, names)
		}
		if left := client.ZRange(ctx, "z", 0, -1).Val(); len(left) != 1 || left[0] != "stray" {
			t.Errorf("the set holds %q", left)
		}
	})
}

func TestManyAreDelayedAtTheSameTime(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		const n = 350
		members := make([]redis.Z, n)
		for i := range members {
			members[i] = redis.Z{Score: 1_700_000_000_000 + float64(i/300), Member: string(rune('a'+i/26)) + string(rune('a'+i%26))}
		}
		client.ZAdd(t.Context(), "z", members...)
		seen := map[string]bool{}
		for _, d := range delayed(t, operator(t, b), "z") {
			seen[string(d.Member)] = true
		}
		if len(seen) != n {
			t.Errorf("%d were seen, want %d", len(seen), n)
		}
	})
}

func TestAMemberTellsWhereItComesFromOnlyWhereItCan(t *testing.T) {
	member := func(key, elements string) []byte {
		return append([]byte("\xd9\xd9\xf7\xda\x4d\x4c\x52\x31"+elements), append([]byte{0x78, byte(len(key))}, key...)...)
	}
	const stream, list = "\x83\x01\x81\x82\x48_payload\x41b", "\x84\x01\x80\x41b"
	for _, c := range []struct {
		name, elements, key string
		source, group, id   string
		structure           broker.Structure
	}{
		{"of a stream", stream, "s|g|1-0|1", "s", "g", "1-0", broker.StructureStream},
		{"of a stream whose name holds a bar", stream, "a|b|g|1-0|1", "", "", "", broker.StructureStream},
		{"published to a stream", stream, "after|token|7", "", "", "", broker.StructureStream},
		{"of a list", list, "l|token-l1-7", "l", "", "token-l1-7", broker.StructureList},
		{"of a list whose name holds a bar", list, "a|b|token-l1-7", "a|b", "", "token-l1-7", broker.StructureList},
		{"published to a list", list, "after|token|7", "", "", "", broker.StructureList},
	} {
		d := redisbroker.OpenDelayed(member(c.key, c.elements))
		if d.Message.Fault != nil || string(d.Message.Body) != "b" {
			t.Errorf("%s: %q, fault %v", c.name, d.Message.Body, d.Message.Fault)
		}
		if d.Source != c.source || d.Group != c.group || d.EntryID != c.id || d.Structure != c.structure {
			t.Errorf("%s: %q %q %q, a %s", c.name, d.Source, d.Group, d.EntryID, d.Structure)
		}
	}
	for name, data := range map[string]string{
		"nothing": "", "text": "text", "the mark alone": "\xd9\xd9\xf7\xda\x4d\x4c\x52\x31", "a list's, cut off": "\xd9\xd9\xf7\xda\x4d\x4c\x52\x31\x84\x01",
	} {
		if d := redisbroker.OpenDelayed([]byte(data)); d.Message.Fault == nil || string(d.Message.Body) != data {
			t.Errorf("%s: %q, fault %v", name, d.Message.Body, d.Message.Fault)
		}
	}
	if d := redisbroker.OpenDelayed([]byte("\xd9\xd9\xf7\xda\x4d\x4c\x52\x31\x83\x02\x80\x60")); !d.Message.Newer || d.Message.Fault != nil {
		t.Errorf("a later version's: %+v", d.Message)
	}
}

func TestASurveyFindsWhatIsThereAndWhoLives(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		ctx, o := t.Context(), operator(t, b)
		f := open(t, client, b, broker.Source{DelaySet: "z", Block: time.Second})
		f.add("_payload", "b")
		f.settle(broker.Settlement{Delivery: f.one(), Action: broker.Delay, Delay: time.Hour})
		sub, err := b.Subscribe(ctx, broker.Config{
			Name: "t.l", Source: b.Resolve(broker.Source{Structure: broker.StructureList, Key: "l", Reliable: true}),
			Logger: slog.New(slog.DiscardHandler), Discarded: func(string) {}, Buried: func(string) {}, Holder: f,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sub.Release(context.Background(), nil) })
		client.LPush(ctx, "l", "1", "2")
		if ds, err := sub.Read(ctx, broker.Want{New: 1}); err != nil || len(ds) != 1 {
			t.Fatalf("read %d (%v)", len(ds), err)
		}
		client.ZAdd(ctx, "ranking", redis.Z{Score: 1, Member: "somebody"})
		client.Set(ctx, "text", "x", 0)

		steps := 0
		s, err := o.Survey(ctx, "", func(int) { steps++ })
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.Streams, []string{"s"}) || !slices.Equal(s.Lists, []string{"l"}) || !slices.Equal(s.DelaySets, []string{"z"}) || steps == 0 {
			t.Errorf("streams %q, lists %q, delay sets %q in %d steps", s.Streams, s.Lists, s.DelaySets, steps)
		}
		for key, group := range map[string]string{"s": "g", "l": ""} {
			alone, err := o.Living(ctx, key)
			for _, living := range [][]redisbroker.Living{s.Living(key), alone} {
				if err != nil || len(living) != 1 || living[0].Group != group || living[0].Consumer == "" || living[0].Left <= 0 {
					t.Errorf("alive on %s: %+v (%v)", key, living, err)
				}
			}
		}
		if lists := s.ReliableLists(); !slices.Equal(lists, []string{"l"}) {
			t.Errorf("reliable lists %q", lists)
		}
		owners, err := o.Owners(ctx, "l")
		if err != nil || len(owners) != 1 || !owners[0].Living || owners[0].InFlight != 1 {
			t.Fatalf("owners %+v (%v)", owners, err)
		}
		if items, err := o.InFlight(ctx, "l", owners[0].Name, false, 10); err != nil || len(items) != 1 || string(items[0].Body) != "1" {
			t.Errorf("in flight %v (%v)", items, err)
		}
		if s, err = o.Survey(ctx, "nothing", nil); err != nil || len(s.Streams)+len(s.Lists)+len(s.DelaySets) > 0 {
			t.Errorf("a survey of another prefix finds %+v (%v)", s, err)
		}
	})
}

// A user who may write to the target and not remove from the set would double what he moves.
func TestMovingWhatIsDelayedWithoutARightBeginsNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		server = server.Own(t)
		client := server.Client()
		out := broker.NewOutgoing(broker.Stream("s"), []byte("later"), broker.After("z", time.Hour))
		if err := restrictedTo(t, server, []string{"+@all", "~*"}).Publish(t.Context(), []broker.Outgoing{out})[0]; err != nil {
			t.Fatal(err)
		}
		for to, write := range map[broker.Destination]string{broker.Stream("s"): "xadd", broker.List("l"): "lpush"} {
			for _, right := range []string{write, "time", "zmscore", "zadd", "zrem"} {
				o := operator(t, restrictedTo(t, server, []string{"+@all", "~*", "-" + right}))
				n, err := o.MoveDelayed(t.Context(), "z", to, [][]byte{delayed(t, o, "z")[0].Member})
				if n != 0 || err == nil || !strings.Contains(strings.ToLower(err.Error()), right) {
					t.Fatalf("%s without %s: %d, %v", to, right, n, err)
				}
				if left := client.Exists(t.Context(), "z", to.Key()).Val(); left != 1 {
					t.Fatalf("%s without %s: %d keys", to, right, left)
				}
			}
		}
	})
}
