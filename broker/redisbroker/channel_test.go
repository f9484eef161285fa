package redisbroker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/embedded"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// listener is an open subscription of a channel or pattern.
type listener struct {
	t   *testing.T
	sub broker.Subscription
	log *logText

	mu    sync.Mutex
	count map[string]int
}

// logText is a log that tests read. Safe for concurrent use.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// nobody has nothing in hand.
type nobody struct{}

func (nobody) Held(time.Duration) []broker.Held { return nil }
func (nobody) Lost([]broker.Held)               {}

func newListener(t *testing.T) *listener {
	return &listener{t: t, log: new(logText), count: map[string]int{}}
}

func (l *listener) config(b *redisbroker.Broker, source broker.Source) broker.Config {
	if source.Structure == 0 {
		source.Structure = broker.StructureChannel
	}
	if source.Block == 0 {
		source.Block = 200 * time.Millisecond
	}
	return broker.Config{
		Name: "t.h", Source: b.Resolve(source), DeadLetter: b.ResolveKey("dead"),
		Logger: slog.New(slog.NewTextHandler(l.log, nil)), Holder: nobody{},
		Discarded: func(why string) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.count[why]++
		},
		Buried: func(string) {},
	}
}

// listen subscribes. It is stopped with the test at the latest.
func listen(t *testing.T, b *redisbroker.Broker, source broker.Source) *listener {
	t.Helper()
	l := newListener(t)
	if err := b.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	var err error
	if l.sub, err = b.Subscribe(t.Context(), l.config(b, source)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.release)
	return l
}

func (l *listener) release() { l.hand(nil) }

func (l *listener) hand(held []broker.Held) {
	l.t.Helper()
	l.sub.Stop(context.Background())
	if err := l.sub.Release(context.Background(), held); err != nil {
		l.t.Error(err)
	}
}

func (l *listener) discarded(why string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count[why]
}

// read reads until it has n messages.
func (l *listener) read(n int) []*broker.Delivery {
	l.t.Helper()
	var all []*broker.Delivery
	for deadline := time.Now().Add(20 * time.Second); len(all) < n; {
		ds, err := l.sub.Read(l.t.Context(), broker.Want{New: n - len(all)})
		if err != nil {
			l.t.Fatal(err)
		}
		all = append(all, ds...)
		if time.Now().After(deadline) {
			l.t.Fatalf("read %d messages, want %d; the log:\n%s", len(all), n, l.log)
		}
	}
	return all
}

// none reads once and wants nothing.
func (l *listener) none() {
	l.t.Helper()
	ds, err := l.sub.Read(l.t.Context(), broker.Want{New: 10})
	if err != nil || len(ds) > 0 {
		l.t.Errorf("read %d messages, %v; want none", len(ds), err)
	}
}

func (l *listener) settle(st broker.Settlement) broker.Result {
	l.t.Helper()
	l.sub.Settle(l.t.Context(), []*broker.Settlement{&st})
	if st.Err != nil {
		l.t.Fatalf("%s: %v", st.Action, st.Err)
	}
	return st.Result
}

// logged waits until the text stands in the log.
func (l *listener) logged(text string) {
	l.t.Helper()
	eventually(l.t, "the log says "+text, func() bool { return strings.Contains(l.log.String(), text) })
}

func publish(t *testing.T, client *redis.Client, name, body string) {
	t.Helper()
	if err := client.Publish(t.Context(), name, body).Err(); err != nil {
		t.Fatal(err)
	}
}

// everyByte is no text.
var everyByte = func() string {
	b := make([]byte, 1024)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}()

func TestAChannelIsReceivedFromTheConfirmationOn(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		l := listen(t, b, broker.Source{Key: "prices"})
		if n := client.PubSubNumSub(t.Context(), "prices").Val()["prices"]; n != 1 {
			t.Fatalf("the server knows %d subscribers", n)
		}
		for _, body := range []string{"plain", "", everyByte} {
			publish(t, client, "prices", body)
		}
		publish(t, client, "others", "not ours")
		ds := l.read(3)
		for i, body := range []string{"plain", "", everyByte} {
			if d := ds[i]; string(d.Body) != body || !d.HasBody || len(d.Headers) > 0 || d.Channel != "" || d.Count != 1 || d.HandedOut.IsZero() {
				t.Errorf("%d: %+v", i, d)
			}
		}
		if ds[0].ID == ds[1].ID || ds[0].MessageID() != ds[0].ID {
			t.Errorf("ids %q, %q", ds[0].ID, ds[1].ID)
		}
		l.none()
	})
}

func TestAPatternSaysWhichChannelItWas(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		l := listen(t, b, broker.Source{Structure: broker.StructurePattern, Key: "events.[ab]*", OutRetry: "events.again"})
		publish(t, client, "events.bravo", "1")
		publish(t, client, "events.charlie", "2")
		publish(t, client, "events.again", "3")
		ds := l.read(2)
		if ds[0].Channel != "events.bravo" || string(ds[1].Body) != "3" {
			t.Errorf("%+v, %+v", ds[0], ds[1])
		}
	})
}

func TestACopyIsPublishedAgainByteForByte(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		l, peer := listen(t, b, broker.Source{Key: "prices"}), listen(t, b, broker.Source{Key: "prices"})
		to, peerTo := l.sub.Capabilities().Addressee, peer.sub.Capabilities().Addressee
		if to == "" || to == peerTo {
			t.Errorf("the copies of two subscriptions are addressed to %q and %q", to, peerTo)
		}
		publish(t, client, "prices", everyByte)
		d := l.read(1)[0]
		got := l.settle(broker.Settlement{Delivery: d, Action: broker.Copy, Edits: broker.Edits{Set: []broker.HeaderLine{
			{Name: broker.HeaderRetryCount, Value: "1"}, {Name: broker.HeaderRetryGroup, Value: to}, {Name: everyByte, Value: everyByte},
		}}})
		again := l.read(1)[0]
		if got != broker.Done || string(again.Body) != everyByte || again.MessageID() != d.ID || again.ID == d.ID {
			t.Errorf("%v; %+v", got, again)
		}
		for name, want := range map[string]string{broker.HeaderRetryCount: "1", broker.HeaderRetryGroup: to, everyByte: everyByte} {
			if value, _ := again.Header(name); value != want {
				t.Errorf("%.20q is %.20q", name, value)
			}
		}
		for _, action := range []broker.Action{broker.Ack, broker.Keep} {
			if got := l.settle(broker.Settlement{Delivery: again, Action: action}); got != broker.Done {
				t.Errorf("%s: %v", action, got)
			}
		}
		l.none()
	})
}

func TestADeadLetterIsHeardOrNot(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		l := listen(t, b, broker.Source{Key: "prices"})
		publish(t, client, "prices", everyByte)
		d := l.read(1)[0]
		bury := func() broker.Result {
			return l.settle(broker.Settlement{Delivery: d, Action: broker.Bury, Target: "dead", Burial: &broker.Burial{
				Reason: broker.ReasonRejected, Source: "prices", Error: everyByte, Attempts: 3,
			}})
		}
		want := broker.Unheard
		if strings.HasPrefix(b.Address(), "cluster") {
			want = broker.Done // the server that was asked does not know who listens to the others
		}
		if got := bury(); got != want {
			t.Errorf("nobody listens: %v", got)
		}
		letters := listen(t, b, broker.Source{Key: "dead"})
		if got := bury(); got != broker.Done {
			t.Errorf("one listens: %v", got)
		}
		dead := letters.read(1)[0]
		if string(dead.Body) != everyByte || dead.MessageID() != d.ID || dead.Burial == nil {
			t.Fatalf("%+v", dead)
		}
		now := client.Time(t.Context()).Val()
		if b := dead.Burial; b.Reason != broker.ReasonRejected || b.Source != "prices" || b.Error != everyByte || b.Attempts != 3 ||
			now.Sub(b.At).Abs() > 5*time.Second {
			t.Errorf("%+v", b)
		}
	})
}

func TestACopyOfAPatternLeavesItsCountersBehindWhereItLeaves(t *testing.T) {
	for _, c := range []struct {
		name, out string
		kept      bool
	}{{"matched", "events.again", true}, {"not matched", "retries", false}} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
				l := listen(t, b, broker.Source{Structure: broker.StructurePattern, Key: "events.*", OutRetry: c.out})
				out := listen(t, b, broker.Source{Key: c.out})
				if got := l.settle(broker.Settlement{
					Delivery: &broker.Delivery{ID: "1", Raw: []byte("x"), Body: []byte("x"), HasBody: true, Channel: "events.a"}, Action: broker.Copy,
					Edits: broker.Edits{Set: []broker.HeaderLine{
						{Name: broker.HeaderRetryCount, Value: "1"},
						{Name: broker.HeaderLosses, Value: "1"},
						{Name: broker.HeaderRetryGroup, Value: "me"},
						{Name: broker.HeaderHistory, Value: "h"},
					}},
				}); got != broker.Done {
					t.Fatal(got)
				}
				d := out.read(1)[0]
				for _, name := range []string{broker.HeaderRetryCount, broker.HeaderLosses, broker.HeaderRetryGroup} {
					if _, has := d.Header(name); has != c.kept {
						t.Errorf("%s: %t", name, has)
					}
				}
				if h, _ := d.Header(broker.HeaderHistory); h != "h" || string(d.Body) != "x" {
					t.Errorf("%+v", d)
				}
				if c.kept {
					l.read(1)
				}
				l.none()
			})
		})
	}
}

func TestAPatternThatReadsItsOwnDeadLettersIsRefused(t *testing.T) {
	each(t, func(t *testing.T, _ *redis.Client, b *redisbroker.Broker) {
		_, err := b.Subscribe(t.Context(), newListener(t).config(b, broker.Source{Structure: broker.StructurePattern, Key: "d*", OutRetry: "again"}))
		if err == nil || !strings.Contains(err.Error(), `pattern "d*"`) || !strings.Contains(err.Error(), `the dead letter "dead"`) {
			t.Error(err)
		}
	})
}

func TestAnEnvelopeThatCannotBeReadHarmsNobody(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		l := listen(t, b, broker.Source{Key: "prices"})
		const mark = "\xd9\xd9\xf7\xda\x4d\x4c\x52\x31"
		publish(t, client, "prices", mark+"\xff\x00")
		publish(t, client, "prices", mark+"\x83\x02\x81\x82\x41a\x41b\x41x") // version 2
		publish(t, client, "prices", "good")
		ds := l.read(3)
		if ds[0].Fault == nil || string(ds[0].Body) != mark+"\xff\x00" {
			t.Errorf("damaged: %+v", ds[0])
		}
		if v, _ := ds[1].Header("a"); !ds[1].Newer || ds[1].Fault != nil || v != "b" {
			t.Errorf("newer: %+v", ds[1])
		}
		if string(ds[2].Body) != "good" {
			t.Errorf("the next: %+v", ds[2])
		}
	})
}

func TestAPrefixIsNoPattern(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, _ *redisbroker.Broker) {
		const prefix = `a*[b]?\:`
		b := redisbroker.FromClient(client, redisbroker.KeyPrefix(prefix))
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		l := listen(t, b, broker.Source{Structure: broker.StructurePattern, Key: "e.*", OutRetry: "e.again"})
		plain := listen(t, b, broker.Source{Key: "e.one"})
		publish(t, client, "axxbx:e.one", "not ours")
		publish(t, client, "e.one", "neither")
		publish(t, client, prefix+"e.one", "ours")
		if d := l.read(1)[0]; string(d.Body) != "ours" || d.Channel != prefix+"e.one" {
			t.Errorf("%+v", d)
		}
		if d := plain.read(1)[0]; string(d.Body) != "ours" {
			t.Errorf("%+v", d)
		}
		l.settle(broker.Settlement{Delivery: &broker.Delivery{ID: "1"}, Action: broker.Copy})
		if d := l.read(1)[0]; d.Channel != prefix+"e.again" {
			t.Errorf("the copy came by %q", d.Channel)
		}
	})
}

func TestASlowHandlerLosesTheOldestAndIsTold(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		const room, more = 10_000, 700
		l := listen(t, b, broker.Source{Key: "prices"})
		for begin := 0; begin < room+more; begin += 100 {
			if _, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				for i := range 100 {
					p.Publish(t.Context(), "prices", fmt.Sprint(begin+i))
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "all have come", func() bool { return l.discarded("dropped") == more })
		ds := l.read(room)
		for i, d := range ds {
			if string(d.Body) != fmt.Sprint(more+i) {
				t.Fatalf("message %d is %s", i, d.Body)
			}
		}
		l.none()
		log := l.log.String()
		if n := strings.Count(log, "level=WARN"); n != 2 || !strings.Contains(log, fmt.Sprintf("dropped=%d", more)) {
			t.Errorf("%d warnings:\n%s", n, log)
		}
	})
}

func TestAStopCountsWhatItLoses(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		l := listen(t, b, broker.Source{Key: "prices", Block: time.Hour})
		for range 5 {
			publish(t, client, "prices", "x")
		}
		probe := listen(t, b, broker.Source{Key: "prices"})
		publish(t, client, "prices", "x")
		probe.read(1)
		ds := l.read(2)
		// What waits in a read ends at once.
		read := make(chan error, 1)
		waiting := listen(t, b, broker.Source{Key: "quiet", Block: time.Hour})
		go func() {
			_, err := waiting.sub.Read(context.Background(), broker.Want{New: 1})
			read <- err
		}()
		waiting.release()
		if err := <-read; !errors.Is(err, broker.ErrClosed) {
			t.Errorf("Read returned %v", err)
		}
		eventually(t, "nobody subscribes any more", func() bool {
			return client.PubSubNumSub(t.Context(), "quiet").Val()["quiet"] == 0
		})

		l.sub.Stop(t.Context())
		if _, err := l.sub.Read(t.Context(), broker.Want{New: 1}); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("Read returned %v", err)
		}
		// A retry that comes after the stop would be for this process alone, which reads no more.
		st := broker.Settlement{Delivery: ds[0], Action: broker.Copy}
		l.sub.Settle(t.Context(), []*broker.Settlement{&st})
		if st.Result != broker.Done || st.Err != nil {
			t.Errorf("%v, %v", st.Result, st.Err)
		}
		l.hand([]broker.Held{{ID: ds[1].ID, Delivery: ds[1], Started: true}})
		if n := l.discarded("stopped"); n != 6 {
			t.Errorf("%d were counted, want 4 unread, 1 retry and 1 unsettled", n)
		}
		if log := l.log.String(); !strings.Contains(log, "lost=6 unread=4 unsettled=1 retries=1") {
			t.Error(log)
		}
	})
}

func TestALostConnectionIsToldAndMended(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		server = server.Own(t)
		client := server.Client()
		b := redisbroker.Standalone(server.URL())
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		for _, source := range []broker.Source{
			{Key: "prices"},
			{Key: "prices", Sharded: true},
			{Structure: broker.StructurePattern, Key: "pri*", OutRetry: "again"},
		} {
			l := listen(t, b, source)
			if n := client.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Val(); n != int64(1) {
				t.Fatalf("killed %v", n)
			}
			l.logged("missed=")
			if source.Sharded {
				if err := client.SPublish(t.Context(), "prices", "after").Err(); err != nil {
					t.Fatal(err)
				}
			} else {
				publish(t, client, "prices", "after")
			}
			if d := l.read(1)[0]; string(d.Body) != "after" {
				t.Errorf("%+v", d)
			}
			log := l.log.String()
			if strings.Count(log, "level=WARN") != 1 || strings.Count(log, "\n") != 2 || !strings.Contains(log, "missed=") {
				t.Error(log)
			}
			l.release()
		}
	})
}

func TestASubscriptionCutOffByTheServerForItsOutputIsTold(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		server = server.Own(t)
		client := server.Client()
		b := redisbroker.Standalone(server.URL())
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		l := listen(t, b, broker.Source{Key: "prices"})
		if err := client.ConfigSet(t.Context(), "client-output-buffer-limit", "pubsub 1000 0 0").Err(); err != nil {
			t.Fatal(err)
		}
		publish(t, client, "prices", strings.Repeat("x", 1<<20))
		l.logged("was lost")
		l.logged("missed=")
	})
}

func TestShardedChannels(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		b := embedded.New()
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		if err := b.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := b.Subscribe(t.Context(), newListener(t).config(b.Broker, broker.Source{Key: "prices", Sharded: true}))
		if err == nil || !strings.Contains(err.Error(), `channel "prices"`) || !strings.Contains(err.Error(), "SSUBSCRIBE") {
			t.Error(err)
		}
	})
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		b := redisbroker.Standalone(server.URL())
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		l := listen(t, b, broker.Source{Key: "shard", Sharded: true})
		publish(t, server.Client(), "shard", "by another way")
		if err := server.Client().SPublish(t.Context(), "shard", "1").Err(); err != nil {
			t.Fatal(err)
		}
		d := l.read(1)[0]
		if string(d.Body) != "1" {
			t.Errorf("%+v", d)
		}
		if got := l.settle(broker.Settlement{Delivery: d, Action: broker.Copy}); got != broker.Done {
			t.Errorf("a copy: %v", got)
		}
		if again := l.read(1)[0]; again.MessageID() != d.ID {
			t.Errorf("%+v", again)
		}
	})
}

// A sharded channel lives on the server of its slot, and moves with it; an ordinary one is on all servers.
func TestChannelsOfACluster(t *testing.T) {
	servers := redistest.ClusterOf(t, 3)
	ctx := t.Context()
	b := redisbroker.Cluster(servers[0].URL())
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	plain := listen(t, b, broker.Source{Key: "plain"})
	pattern := listen(t, b, broker.Source{Structure: broker.StructurePattern, Key: "pl*", OutRetry: "plain"})
	sharded := map[string]*listener{}
	for i := range 9 {
		name := fmt.Sprint("shard", i)
		sharded[name] = listen(t, b, broker.Source{Key: name, Sharded: true})
	}
	try := func(what string) {
		t.Helper()
		for name, l := range sharded {
			publishAll(t, b, out(broker.ShardedChannel(name), what))
			if d := l.read(1)[0]; string(d.Body) != what {
				t.Errorf("%s: %s", name, d.Body)
			}
		}
		publishAll(t, b, out(broker.Channel("plain"), what))
		for _, l := range []*listener{plain, pattern} {
			if d := l.read(1)[0]; string(d.Body) != what {
				t.Errorf("%s", d.Body)
			}
		}
	}
	try("before")

	// The slot of one channel goes to the next server.
	const moving = "shard0"
	slot := servers[0].Client().ClusterKeySlot(ctx, moving).Val()
	owner := func(s *redistest.Server) bool { return s.Client().SPublish(ctx, moving, "probe").Err() == nil }
	from := slices.IndexFunc(servers, owner)
	to := servers[(from+1)%len(servers)]
	id := func(s *redistest.Server) any { return s.Client().Do(ctx, "CLUSTER", "MYID").Val() }
	for _, step := range []struct {
		on    *redistest.Server
		state string
		node  any
	}{
		{to, "IMPORTING", id(servers[from])},
		{servers[from], "MIGRATING", id(to)},
		{to, "NODE", id(to)},
		{servers[from], "NODE", id(to)},
		{servers[(from+2)%len(servers)], "NODE", id(to)},
	} {
		if err := step.on.Client().Do(ctx, "CLUSTER", "SETSLOT", slot, step.state, step.node).Err(); err != nil {
			t.Fatal(err)
		}
	}
	l := sharded[moving]
	l.read(1) // the probe
	l.logged("missed=")
	try("after")
	if log := l.log.String(); !strings.Contains(log, "ended the subscription") || strings.Count(log, "\n") != 2 {
		t.Error(log)
	}
}

func TestAMissingRightOfAChannelIsNamedAtTheStart(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		server = server.Own(t)
		all := append([]string{"&prices", "&events.*", "&again", "&dead"}, documentedForChannels...)
		for _, c := range []struct {
			source        broker.Source
			without, want []string
		}{
			{broker.Source{Key: "prices"}, []string{"&prices", "&events.*", "&again", "&dead"}, []string{"SUBSCRIBE prices", "PUBLISH prices", "PUBLISH dead"}},
			{broker.Source{Key: "prices"}, []string{"&prices"}, []string{"PUBLISH prices"}},
			{broker.Source{Key: "prices"}, []string{"+subscribe"}, []string{"SUBSCRIBE prices"}},
			{broker.Source{Key: "prices"}, []string{"+publish"}, []string{"PUBLISH prices", "PUBLISH dead"}},
			{broker.Source{Key: "prices"}, []string{"&dead"}, []string{"PUBLISH dead"}},
			{broker.Source{Key: "prices"}, []string{"+time"}, []string{"TIME"}},
			{broker.Source{Key: "prices", Sharded: true}, []string{"+ssubscribe"}, []string{"SSUBSCRIBE prices"}},
			{broker.Source{Key: "prices", Sharded: true}, []string{"+spublish"}, []string{"SPUBLISH"}},
			{broker.Source{Structure: broker.StructurePattern, Key: "events.*", OutRetry: "again"}, []string{"+psubscribe"}, []string{"PSUBSCRIBE events.*"}},
			{broker.Source{Structure: broker.StructurePattern, Key: "events.*", OutRetry: "again"}, []string{"&events.*"}, []string{"PSUBSCRIBE events.*"}},
			{broker.Source{Structure: broker.StructurePattern, Key: "events.*", OutRetry: "again"}, []string{"&again"}, []string{"PUBLISH again"}},
			{broker.Source{Key: "prices"}, nil, nil},
			{broker.Source{Key: "prices", Sharded: true}, nil, nil},
			{broker.Source{Structure: broker.StructurePattern, Key: "events.*", OutRetry: "again"}, nil, nil},
		} {
			rules := slices.DeleteFunc(slices.Clone(all), func(r string) bool { return slices.Contains(c.without, r) })
			b := userWith(t, server, rules)
			if err := b.Connect(t.Context()); err != nil {
				t.Fatal(err)
			}
			l := newListener(t)
			began := time.Now()
			sub, err := b.Subscribe(t.Context(), l.config(b, c.source))
			if time.Since(began) > 5*time.Second {
				t.Errorf("without %v: it took %v", c.without, time.Since(began))
			}
			if c.want == nil {
				if err != nil {
					t.Errorf("with everything that is documented: %v", err)
					continue
				}
				l.sub = sub
				l.settle(broker.Settlement{Delivery: &broker.Delivery{ID: "1"}, Action: broker.Copy})
				l.settle(broker.Settlement{Delivery: &broker.Delivery{ID: "1"}, Action: broker.Bury, Target: "dead", Burial: new(broker.Burial)})
				l.release()
				continue
			}
			if err == nil {
				t.Fatalf("without %v it starts", c.without)
			}
			for _, text := range c.want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("without %v: %v", c.without, err)
				}
			}
		}
	})
}

// documentedForChannels are the commands that docs/reliability.md says a channel needs.
var documentedForChannels = []string{
	"+ping", "+hello", "+select", "+evalsha", "+script|load", "+time",
	"+subscribe", "+psubscribe", "+ssubscribe", "+publish", "+spublish",
}

func TestTheGuideListsTheRightsOfAChannel(t *testing.T) {
	guide, err := os.ReadFile("../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(guide), "`resetchannels`")
	_, block, _ = strings.Cut(block, "```text\n")
	block, _, _ = strings.Cut(block, "```")
	listed := slices.DeleteFunc(strings.Fields(block), func(right string) bool { return right[0] == '&' })
	slices.Sort(listed)
	if want := slices.Sorted(slices.Values(documentedForChannels)); !slices.Equal(listed, want) {
		t.Errorf("docs/reliability.md lists\n%v, the tests run with\n%v", listed, want)
	}
}

// userWith returns a broker whose user has these rules and no others.
func userWith(t *testing.T, server *redistest.Server, rules []string) *redisbroker.Broker {
	t.Helper()
	args := []any{"ACL", "SETUSER", "reader", "reset", "on", ">secret"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	if err := server.Client().Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	options.Username, options.Password = "reader", "secret"
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	b := redisbroker.FromClient(client)
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b
}
