package redisbroker_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
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

// openList opens a subscription of list l, dead letter dlq.
func openList(t *testing.T, client *redis.Client, b *redisbroker.Broker, source broker.Source) *fixture {
	t.Helper()
	f := &fixture{t: t, client: client, count: map[string]int{}, hand: map[string]int64{}}
	source.Structure, source.Key = broker.StructureList, "l"
	var err error
	if err = b.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.sub, err = b.Subscribe(t.Context(), broker.Config{
		Name: "t.h", Source: b.Resolve(source), DeadLetter: "dlq", Logger: slog.New(slog.DiscardHandler),
		Discarded: f.note, Buried: f.note, Holder: f,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.sub.Release(context.Background(), nil) })
	return f
}

func (f *fixture) note(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count[what]++
}

// lists runs the body with a plain and with a reliable list.
func lists(t *testing.T, body func(t *testing.T, client *redis.Client, b *redisbroker.Broker, source broker.Source)) {
	for _, reliable := range []bool{false, true} {
		name := "plain"
		if reliable {
			name = "reliable"
		}
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
				body(t, client, b, broker.Source{Reliable: reliable, Block: time.Second})
			})
		})
	}
}

// push is what a producer does.
func (f *fixture) push(items ...string) {
	f.t.Helper()
	for _, item := range items {
		if err := f.client.LPush(f.t.Context(), "l", item).Err(); err != nil {
			f.t.Fatal(err)
		}
	}
}

// items returns what the list holds, the next one to be taken first.
func (f *fixture) items(key string) []string {
	f.t.Helper()
	all, err := f.client.LRange(f.t.Context(), key, 0, -1).Result()
	if err != nil {
		f.t.Fatal(err)
	}
	slices.Reverse(all)
	return all
}

// keys returns the keys of that kind.
func (f *fixture) keys(pattern string) []string {
	f.t.Helper()
	all, err := f.client.Keys(f.t.Context(), pattern).Result()
	if err != nil {
		f.t.Fatal(err)
	}
	return all
}

// inFlight is how many items are in in-flight lists and in those beside them.
func (f *fixture) inFlight() (n int) {
	f.t.Helper()
	for _, key := range append(f.keys("{l}:inflight:*"), f.keys("{l}:aside:*")...) {
		n += len(f.items(key))
	}
	return n
}

// del deletes keys, whatever slots they are in.
func (f *fixture) del(keys ...string) {
	f.t.Helper()
	for _, key := range keys {
		if err := f.client.Del(f.t.Context(), key).Err(); err != nil {
			f.t.Fatal(err)
		}
	}
}

// exist is how many of the keys exist.
func (f *fixture) exist(keys ...string) (n int64) {
	f.t.Helper()
	for _, key := range keys {
		n += f.client.Exists(f.t.Context(), key).Val()
	}
	return n
}

// gather reads until it has n.
func (f *fixture) gather(n int) []*broker.Delivery {
	f.t.Helper()
	var all []*broker.Delivery
	for range 50 {
		if len(all) == n {
			break
		}
		all = append(all, f.read(n-len(all))...)
	}
	if len(all) != n {
		f.t.Fatalf("read %d items, want %d", len(all), n)
	}
	return all
}

func bodies(ds []*broker.Delivery) []string {
	var all []string
	for _, d := range ds {
		all = append(all, string(d.Body))
	}
	return all
}

func TestAListIsReadFromTheRightInOrder(t *testing.T) {
	lists(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker, source broker.Source) {
		f := openList(t, client, b, source)
		f.push("1", "2", "3", "4", "5")
		if got := bodies(f.gather(3)); !slices.Equal(got, []string{"1", "2", "3"}) {
			t.Errorf("read %v", got)
		}
		if got := f.items("l"); !slices.Equal(got, []string{"4", "5"}) {
			t.Errorf("left are %v", got)
		}
		want := 0
		if source.Reliable {
			want = 3
		}
		if n := f.inFlight(); n != want {
			t.Errorf("%d in flight, want %d", n, want)
		}
		ds := f.gather(2)
		if ds[0].ID == ds[1].ID || ds[0].Count != 1 || ds[0].HandedOut.IsZero() {
			t.Errorf("read %+v", ds[0])
		}
	})
}

func TestAnEmptyListWaitsForAnItem(t *testing.T) {
	lists(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker, source broker.Source) {
		source.Block = 5 * time.Second
		f := openList(t, client, b, source)
		came := make(chan []*broker.Delivery, 1)
		go func() {
			for {
				ds, err := f.sub.Read(t.Context(), broker.Want{New: 10, Back: 10})
				if err != nil || len(ds) > 0 {
					came <- ds
					return
				}
			}
		}()
		time.Sleep(50 * time.Millisecond)
		began := time.Now()
		f.push("late")
		if got := bodies(<-came); !slices.Equal(got, []string{"late"}) || time.Since(began) > 200*time.Millisecond {
			t.Errorf("read %v after %s", got, time.Since(began))
		}
	})
}

// binaries are bodies that any wrapping in text would spoil.
func binaries() map[string]string {
	var all []byte
	for range 4 {
		for b := range 256 {
			all = append(all, byte(b))
		}
	}
	return map[string]string{
		"every byte":           string(all),
		"empty":                "",
		"a megabyte":           string(bytes.Repeat(all, 1024)),
		"the mark":             "\xd9\xd9\xf7\xda\x4d\x4c\x52\x31",
		"an envelope":          "\xd9\xd9\xf7\xda\x4d\x4c\x52\x31\x83\x01\x80\x41x",
		"other CBOR":           "\xd9\xd9\xf7\x83\x01\x80\x40",
		"lines\r\nand NUL\x00": "a\r\nb\x00c",
	}
}

func TestBodiesAndHeadersSurviveEveryHop(t *testing.T) {
	lists(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker, source broker.Source) {
		f := openList(t, client, b, source)
		for name, body := range binaries() {
			want := sha256.Sum256([]byte(body))
			header := broker.HeaderLine{Name: "x", Value: body[:min(len(body), 2000)]}
			if errs := b.Publish(t.Context(), []broker.Outgoing{{To: broker.List("l"), Body: []byte(body)}}); errs[0] != nil {
				t.Fatal(errs[0])
			}
			d := f.gather(1)[0]
			hops := []broker.Settlement{{Action: broker.Copy}, {Action: broker.Copy, Edits: broker.Edits{Set: []broker.HeaderLine{header}}}}
			if source.Reliable {
				hops = append(hops, broker.Settlement{Action: broker.Delay})
			}
			for _, st := range hops {
				st.Delivery = d
				if got := f.settle(st); got != broker.Done {
					t.Fatalf("%s, %s: %v", name, st.Action, got)
				}
				if st.Action == broker.Delay {
					f.moved()
				}
				d = f.gather(1)[0]
				if sha256.Sum256(d.Body) != want || d.Fault != nil {
					t.Errorf("%s after %s: %.40q, %v", name, st.Action, d.Body, d.Fault)
				}
			}
			if got, _ := d.Header("x"); got != header.Value {
				t.Errorf("%s: the header is %.40q", name, got)
			}
			f.settle(broker.Settlement{Delivery: d, Action: broker.Bury, Target: "l", Burial: &broker.Burial{Reason: "rejected"}})
			letter := f.gather(1)[0]
			if sha256.Sum256(letter.Body) != want || letter.Burial == nil || letter.Burial.Reason != "rejected" || letter.Burial.At.IsZero() {
				t.Errorf("%s: the dead letter is %.40q, %+v", name, letter.Body, letter.Burial)
			}
			if id, _ := letter.Header("message-id"); id == "" || id == letter.ID {
				t.Errorf("%s: message-id %q", name, id)
			}
			f.settle(broker.Settlement{Delivery: letter, Action: broker.Ack})
		}
		if n := f.inFlight(); n != 0 {
			t.Errorf("%d in flight", n)
		}
	})
}

// moved runs the mover until the delay set is empty.
func (f *fixture) moved() {
	f.t.Helper()
	ctx, end := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.task("mover")(ctx)
	}()
	for deadline := time.Now().Add(5 * time.Second); f.client.ZCard(ctx, "{l}:deferred").Val() > 0 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	end()
	<-done
}

func TestACopyGoesBehindWhatWaits(t *testing.T) {
	lists(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker, source broker.Source) {
		f := openList(t, client, b, source)
		f.push("1", "2", "3")
		d := f.gather(1)[0]
		f.settle(broker.Settlement{Delivery: d, Action: broker.Copy, Edits: broker.Edits{Set: []broker.HeaderLine{{Name: "retry-count", Value: "1"}}}})
		ds := f.gather(3)
		if got := bodies(ds); !slices.Equal(got, []string{"2", "3", "1"}) {
			t.Errorf("read %v", got)
		}
		count, _ := ds[2].Header("retry-count")
		id, _ := ds[2].Header("message-id")
		if count != "1" || id != d.ID {
			t.Errorf("headers %v", ds[2].Headers)
		}
	})
}

func TestAStopBringsWhatWasReadBackInOrder(t *testing.T) {
	lists(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker, source broker.Source) {
		f := openList(t, client, b, source)
		var want []string
		for i := range 150 {
			want = append(want, fmt.Sprint(i))
		}
		f.push(want...)
		ds := f.gather(120)
		var held []broker.Held
		for i, d := range ds {
			held = append(held, broker.Held{ID: d.ID, Delivery: d, Started: i == 3})
		}
		f.sub.Stop(t.Context())
		if err := f.sub.Release(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		lost := 0
		if !source.Reliable {
			want, lost = slices.Delete(want, 3, 4), 1
		}
		if got := f.items("l"); !slices.Equal(got, want) {
			t.Errorf("the list is %v", got)
		}
		if f.count["stopped"] != lost {
			t.Errorf("counted %v", f.count)
		}
		if keys := f.keys("{l}*"); len(keys) > 0 {
			t.Errorf("left are the keys %v", keys)
		}
	})
}

// A read that blocks for a minute ends at once, and an item that is pushed around that moment is lost on no server.
func TestAStopEndsABlockedReadAndLosesNothing(t *testing.T) {
	lists(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker, source broker.Source) {
		source.Block = time.Minute
		for round := range 20 {
			f := openList(t, client, b, source)
			read := make(chan []*broker.Delivery, 1)
			go func() {
				var all []*broker.Delivery
				for {
					ds, err := f.sub.Read(t.Context(), broker.Want{New: 1, Back: 1})
					all = append(all, ds...)
					if errors.Is(err, broker.ErrClosed) {
						read <- all
						return
					}
				}
			}()
			if round%2 == 0 {
				time.Sleep(5 * time.Millisecond)
			}
			go f.client.LPush(t.Context(), "l", "x")
			began := time.Now()
			f.sub.Stop(t.Context())
			if took := time.Since(began); took > time.Second {
				t.Fatalf("the stop took %s", took)
			}
			var held []broker.Held
			for _, d := range <-read {
				held = append(held, broker.Held{ID: d.ID, Delivery: d})
			}
			if err := f.sub.Release(t.Context(), held); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(5 * time.Second); len(f.items("l")) == 0 && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
			if got := f.items("l"); !slices.Equal(got, []string{"x"}) {
				t.Fatalf("round %d: the list is %v", round, got)
			}
			f.del("l")
		}
	})
}

func TestAKeyOfAnotherTypeIsAnError(t *testing.T) {
	lists(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker, source broker.Source) {
		f := openList(t, client, b, source)
		client.Set(t.Context(), "l", "a string", 0)
		_, err := f.sub.Read(t.Context(), broker.Want{New: 1, Back: 1})
		if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("read: %v", err)
		}
		f.del("l")
		f.push("1")
		if got := bodies(f.gather(1)); !slices.Equal(got, []string{"1"}) {
			t.Errorf("read %v", got)
		}
	})
}

// A plain list has nothing by which a push that is sent again could be told from the first.
func TestAPushWhoseAnswerIsLostIsNotRepeatedOnAPlainList(t *testing.T) {
	server := redistest.Start(t)
	p := newCutter(t, server.Client().Options())
	b := redisbroker.Standalone(p.url())
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	f := openList(t, server.Client(), b, broker.Source{Block: time.Second})
	f.push("1")
	d := f.gather(1)[0]
	p.cutReplyTo("lpush")
	if got := f.settle(broker.Settlement{Delivery: d, Action: broker.Copy}); got != broker.Lost {
		t.Errorf("the copy ended as %v", got)
	}
	if got := f.items("l"); len(got) != 1 {
		t.Errorf("the list is %v", got)
	}
}
