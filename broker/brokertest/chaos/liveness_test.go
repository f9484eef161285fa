//go:build unix

package chaos

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker/redistest"
)

// A worker is alive to its peers before it reads for the first time, and stays so whatever becomes of its key and its
// connections while a handler takes its time: nothing is taken from it. The key goes with the process.
func TestALivingWorkerNeverLooksDead(t *testing.T) {
	chaotic(t)
	eachRedis(t, func(t *testing.T, shared *redistest.Server) {
		const long = 3 * time.Second
		server := shared.Own(t) // what MONITOR shows and CLIENT KILL ends is the whole server's
		m := mount{Stream: "alive", Group: "g", DeadLetter: "alive.dlq", MaxAttempts: 3, Block: time.Second}
		s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: long, Grace: 5 * time.Second, Mounts: []mount{m}})
		held := job{Key: "held", Steps: []step{{Do: endAck, Gate: s.gate("held")}}}
		s.publish(m.Stream, held)
		seen := watchCommands(t, server)
		w := s.start()
		s.awaitCall(patience, held.Key, 1)
		checkFirstCommands(t, seen(), m)
		keys, err := s.client.Keys(t.Context(), fmt.Sprintf("{%s}:alive:%s:*", m.Stream, m.Group)).Result()
		if err != nil || len(keys) != 1 {
			t.Fatalf("liveness keys %v, %v", keys, err)
		}
		key := keys[0]
		peer := s.start()
		await(t, patience, "the peer reads", func() bool { return s.ready(peer) })
		time.Sleep(long) // a worker judges nobody before
		for _, trouble := range []struct {
			name string
			make func()
		}{
			{"deleted", func() { s.client.Del(t.Context(), key) }},
			{"made persistent", func() { s.client.Persist(t.Context(), key) }},
			{"cut off", func() { cutOff(t, s.client) }},
		} {
			trouble.make()
			from := time.Now()
			repaired := time.Duration(0)
			for time.Since(from) < long+time.Second {
				left, err := s.client.PTTL(t.Context(), key).Result()
				if err != nil {
					t.Fatal(err)
				}
				if stands := left > 0 && left <= long; stands && repaired == 0 {
					repaired = time.Since(from)
				} else if !stands {
					repaired = 0
				}
				checkHeld(t, s, m)
				time.Sleep(20 * time.Millisecond)
			}
			t.Logf("%s: repaired after %s", trouble.name, repaired.Round(time.Millisecond))
			if repaired == 0 || repaired > long/3+time.Second {
				t.Errorf("%s: the key was repaired after %s, want within a beat and a second", trouble.name, repaired)
			}
		}
		s.open("held")
		s.awaitRest(patience)
		w.terminate()
		if err := w.wait(patience); err != nil {
			t.Error(err)
		}
		if n := s.client.Exists(t.Context(), key).Val(); n != 0 {
			t.Error("the key stands after its process has ended")
		}
		s.stop()
		if calls := s.callsOfKey(held.Key); len(calls) != 1 {
			t.Errorf("calls %v, want one", calls)
		}
	})
}

// checkHeld looks whether the one entry is still with its first owner.
func checkHeld(t testing.TB, s *scene, m mount) {
	t.Helper()
	entries, err := pendingEntries(t.Context(), s.client, m)
	if err != nil || len(entries) != 1 || entries[0].RetryCount != 1 || len(s.callsOfKey("held")) != 1 {
		t.Fatalf("pending %+v, %v; calls %v; want the entry with its owner", entries, err, s.callsOfKey("held"))
	}
}

// checkFirstCommands looks which was first: that the worker wrote its key, or that it could be given an entry. Before both
// it tries whether it may read, in a way that brings nothing.
func checkFirstCommands(t testing.TB, commands []string, m mount) {
	t.Helper()
	written, read := -1, -1
	for i, c := range commands {
		switch low := strings.ToLower(c); {
		case written < 0 && strings.Contains(low, `"set"`) && strings.Contains(c, "{"+m.Stream+"}:alive:"):
			written = i
		case strings.Contains(c, `"18446744073709551615-18446744073709551614"`), strings.Contains(c, `"0-0"`):
		case read < 0 && (strings.Contains(low, `"xreadgroup"`) || strings.Contains(low, `"xautoclaim"`) || strings.Contains(low, `"xclaim"`)):
			read = i
		}
	}
	if written < 0 || read < 0 || read < written {
		t.Errorf("the liveness key was written by command %d and the first read is command %d of:\n%s",
			written, read, strings.Join(commands[:min(len(commands), 60)], "\n"))
	}
}

// watchCommands collects what MONITOR shows from now on.
func watchCommands(t testing.TB, server *redistest.Server) func() []string {
	t.Helper()
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", options.Addr)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil || !lines.Scan() {
		t.Fatalf("MONITOR: %v, %v", err, lines.Err())
	}
	var mu sync.Mutex
	var commands []string
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines.Scan() {
			mu.Lock()
			commands = append(commands, lines.Text())
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = conn.Close() // the server may have done it
		reading.Wait()
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), commands...)
	}
}
