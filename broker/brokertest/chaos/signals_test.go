//go:build unix

package chaos

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker/redistest"
)

// A handler that ignores its context holds the process for the grace time and not after a second signal. The process
// says which entry it gave up, and the entry is free for anyone as if nobody had ever had it.
func TestASecondSignalEndsTheProcessNow(t *testing.T) {
	raced(t)
	for _, c := range []struct {
		name          string
		first, second syscall.Signal
	}{
		{"SIGTERM twice", syscall.SIGTERM, syscall.SIGTERM},
		{"SIGTERM, then SIGINT", syscall.SIGTERM, syscall.SIGINT},
		{"SIGINT, then SIGTERM", syscall.SIGINT, syscall.SIGTERM},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			m := mount{Stream: "signals", Group: "g", DeadLetter: "signals.dlq", MaxAttempts: 2, Block: time.Minute}
			// Nobody would be taken for dead within the time of the test.
			s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: 2 * time.Minute, Grace: time.Minute, Mounts: []mount{m}})
			held := job{Key: "held", Steps: []step{{Do: endAck, Gate: s.gate("held"), Stubborn: true}}}
			w := s.start()
			s.publish(m.Stream, held)
			call := s.awaitCall(patience, held.Key, 1)
			await(t, patience, "the worker reads", func() bool { return s.ready(w) })
			w.signal(c.first)
			await(t, patience, "the worker is stopping", func() bool { return strings.Contains(logOf(t, w), "msg=stopping") })
			// Nothing is to happen now, which no condition tells.
			time.Sleep(500 * time.Millisecond)
			entries, err := pendingEntries(t.Context(), s.client, m)
			if err != nil || w.hasEnded() || len(entries) != 1 || entries[0].Consumer == freeConsumer || entries[0].RetryCount != 1 {
				t.Fatalf("within the grace time: ended %v, pending %+v, %v", w.hasEnded(), entries, err)
			}
			from := time.Now()
			w.signal(c.second)
			select {
			case <-w.done:
			case <-time.After(patience):
				t.Fatal("the process did not end")
			}
			took := time.Since(from)
			t.Logf("ended within %s of the second signal", took.Round(time.Millisecond))
			if took > 3*time.Second {
				t.Errorf("ended after %s", took)
			}
			if code := w.cmd.ProcessState.ExitCode(); code != 1 {
				t.Errorf("it ended with %v, want exit code 1", w.cmd.ProcessState)
			}
			if text := logOf(t, w); !strings.Contains(text, "mount "+m.Stream) || !strings.Contains(text, call.entry) {
				t.Errorf("the log does not name the mount and the entry %s:\n%s", call.entry, text)
			}
			s.checkFree(m)
			s.open("held")
			s.keep(1)
			s.awaitRest(patience)
			s.stop()
			again := s.callsOfKey(held.Key)
			if len(again) != 2 || again[1].attempt != 1 || again[1].losses != 0 {
				t.Errorf("calls %v, want one more at attempt 1 without losses", again)
			}
		})
	}
}

// logOf is what a worker has said so far.
func logOf(t testing.TB, p *process) string {
	t.Helper()
	text, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
