package redisbroker_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

func TestTheLivenessKeyStandsBeforeTheFirstReadAndIsRepaired(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond})
		key := "{s}:alive:g:" + f.consumer()
		if left := client.PTTL(t.Context(), key).Val(); left <= 0 || left > ttl {
			t.Fatalf("PTTL %v before the first read", left)
		}
		f.start()
		stands := func() bool { left := client.PTTL(t.Context(), key).Val(); return left > 0 && left <= ttl }
		client.Del(t.Context(), key)
		eventually(t, "the deleted key is made again", stands)
		client.Persist(t.Context(), key)
		eventually(t, "the persistent key expires again", stands)
		client.Del(t.Context(), key)
		client.Set(t.Context(), key, "somebody else", 0)
		time.Sleep(ttl)
		if holder := client.Get(t.Context(), key).Val(); holder != "somebody else" {
			t.Errorf("another process's key was overwritten: %q", holder)
		}
	})
}

func TestWhatIsHeldNeverLooksIdleAndKeepsItsCount(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond})
		f.add("_payload", "held")
		trimmed := f.add("_payload", "trimmed")
		stolen := f.add("_payload", "stolen")
		f.read(3)
		client.XDel(t.Context(), "s", trimmed)
		client.Do(t.Context(), "XCLAIM", "s", "g", "thief", 0, stolen, "RETRYCOUNT", 2, "JUSTID")
		f.start()
		for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			p := f.pending()
			if len(p) != 3 {
				t.Fatalf("pending %v: a trimmed entry in hand is still ours to settle", p)
			}
			if p[0].Idle > ttl*2/3 || p[0].RetryCount != 1 {
				t.Fatalf("idle %v, count %d", p[0].Idle, p[0].RetryCount)
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.lost) == 0 || f.lost[0] != stolen {
			t.Errorf("lost %v, want %s", f.lost, stolen)
		}
		for _, id := range f.lost {
			if id != stolen {
				t.Errorf("%s was reported lost", id)
			}
		}
	})
}

func TestAFixedNameIsGuardedAndInherits(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		first := open(t, client, process(redisbroker.Consumer("fixed")), broker.Source{Block: 200 * time.Millisecond})
		stop := first.start()
		id := first.add("_payload", "b")
		first.one()
		second := process(redisbroker.Consumer("fixed"))
		config := broker.Config{
			Name: "t.h", Source: second.Resolve(broker.Source{Structure: broker.StructureStream, Key: "s", Group: "g"}),
			Logger: slog.New(slog.DiscardHandler), Holder: first,
		}
		if _, err := second.Subscribe(t.Context(), config); err == nil || !strings.Contains(err.Error(), `consumer "fixed" is alive elsewhere`) {
			t.Fatalf("the second process: %v", err)
		}
		stop() // the first one is gone without a word
		heir := open(t, client, process(redisbroker.Consumer("fixed")), broker.Source{Block: 200 * time.Millisecond})
		if d := heir.one(); d.ID != id || d.Count != 2 {
			t.Errorf("inherited %s with count %d", d.ID, d.Count)
		}
	})
}
