package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/deadletter"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// seed writes n dead letters of a stream as burying would.
func (s *site) seed(t testing.TB, source, dead string, n int) {
	t.Helper()
	for begin := 0; begin < n; begin += 1000 {
		must(s.client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for i := begin; i < min(n, begin+1000); i++ {
				p.XAdd(t.Context(), &redis.XAddArgs{Stream: dead, Values: []string{
					"_payload", fmt.Sprint("body", i), "h:message-id", fmt.Sprint("m", i), "h:retry-count", "3",
					"dlq_reason", []string{"max_attempts", "rejected"}[i%2], "dlq_detail", strings.Repeat("x", 100), "dlq_source", source,
					"dlq_deliveries", "3", "dlq_id", fmt.Sprint("1-", i), "dlq_group", "g", "dlq_handler", fmt.Sprint("h", i%3),
					"dlq_attempts", "3", "dlq_losses", "0", "dlq_error", "x", "dlq_at", "1777907439167",
				}})
			}
			return nil
		}))
	}
}

func TestAWrongOrMissingKeyIsNamed(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		q := s.letters(t, "none", redisbroker.KeyPrefix("p:"))
		if _, err := q.Stats(t.Context(), deadletter.Filter{}); !errors.Is(err, deadletter.ErrNoKey) || !strings.Contains(err.Error(), `"p:none"`) {
			t.Errorf("%v", err)
		}
		s.client.Set(t.Context(), "text", "x", 0)
		if _, err := s.letters(t, "text").Replay(t.Context(), deadletter.Filter{}); err == nil || !strings.Contains(err.Error(), `"text"`) || !strings.Contains(err.Error(), "is a string") {
			t.Errorf("%v", err)
		}
	})
}

// Entries that are no dead letters are listed as such, and neither replayed nor deleted unasked.
func TestForeignEntriesAreLeftAlone(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		s.seed(t, "s", "s.dlq", 2)
		id := s.add(t, "s.dlq", "a", "b")
		q := s.letters(t, "s.dlq")
		if f := records(t, q, deadletter.Filter{Foreign: true}); len(f) != 1 || f[0].ID != id {
			t.Errorf("%+v", f)
		}
		replay(t, q, deadletter.Filter{}, deadletter.Report{Examined: 3, Matched: 3, Done: 2, Foreign: 1})
		r := replay(t, q, deadletter.Filter{IDs: []string{id}}, deadletter.Report{Examined: 1, Matched: 1, Refused: 1})
		if !errors.Is(r.Refusals[0].Err, deadletter.ErrForeign) {
			t.Errorf("%v", r.Refusals)
		}
		sameNumbers(t, must(q.Purge(t.Context(), deadletter.Filter{})), deadletter.Report{Examined: 1, Matched: 1, Foreign: 1})
		sameNumbers(t, must(q.Purge(t.Context(), deadletter.Filter{Foreign: true})), all(1))
	})
}

func TestFiltersStatsAndResuming(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		s.seed(t, "s", "s.dlq", 600)
		q := s.letters(t, "s.dlq")
		for _, c := range []struct {
			filter deadletter.Filter
			want   int
		}{
			{deadletter.Filter{}, 600},
			{deadletter.Filter{Reason: broker.ReasonRejected}, 300},
			{deadletter.Filter{Handler: "h1", Group: "g", Source: "s"}, 200},
			{deadletter.Filter{Text: "body599"}, 1},
			{deadletter.Filter{OlderThan: time.Hour}, 600},
			{deadletter.Filter{NewerThan: time.Hour}, 0},
			{deadletter.Filter{Match: func(r *deadletter.Record) bool { return r.MessageID == "m7" }}, 1},
		} {
			if n := len(records(t, q, c.filter)); n != c.want {
				t.Errorf("%+v lets %d through", c.filter, n)
			}
		}
		st := must(q.Stats(t.Context(), deadletter.Filter{}))
		if st.Total != 600 || st.Reasons["rejected"] != 300 || st.Handlers["h0"] != 200 || st.Ages[len(st.Ages)-1].Count != 600 {
			t.Errorf("%+v", st)
		}
		first := replay(t, q, deadletter.Filter{Reason: "rejected"}, deadletter.Report{Examined: 200, Matched: 100, Done: 100}, deadletter.Max(100))
		replay(t, q, deadletter.Filter{Reason: "rejected"}, deadletter.Report{Examined: 400, Matched: 200, Done: 200}, deadletter.Resume(first.Cursor))
		if left := s.length(t, stream, "s.dlq"); left != 300 {
			t.Errorf("%d are left", left)
		}
	})
}

func TestWhatIsExportedIsImportedByteForByte(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		both(t, s, func(t *testing.T, kind structure) {
			s.bury(t, kind, "s", "s.dlq", "plain", "\x00\xff<&>\u2028", "")
			q := s.letters(t, "s.dlq")
			var out bytes.Buffer
			if n, err := q.Export(t.Context(), &out, deadletter.Filter{}); n != 3 || err != nil {
				t.Fatal(n, err)
			}
			before := records(t, q, deadletter.Filter{})
			must(q.Purge(t.Context(), deadletter.Filter{}))
			s.client.Del(t.Context(), "s.dlq")
			text := out.String()
			if n, err := q.Import(t.Context(), &out); n != 3 || err != nil {
				t.Fatal(n, err)
			}
			for i, r := range records(t, q, deadletter.Filter{}) {
				if fmt.Sprint(r.Fields) != fmt.Sprint(before[i].Fields) || !bytes.Equal(r.Raw, before[i].Raw) {
					t.Errorf("%d: %q, was %q", i, r.Fields, before[i].Fields)
				}
			}
			first, _, _ := strings.Cut(text, "\n")
			for _, bad := range []string{`{"fields":[["a"]]}`, `{`, `{"fields":[["a",{"base64":"?"}]]}`, `{}`, `{"structure":"hash","fields":[["a","b"]]}`} {
				n, err := q.Import(t.Context(), strings.NewReader(first+"\n\n"+bad+"\n"+first))
				if n != 1 || err == nil || !strings.Contains(err.Error(), "line 3:") {
					t.Errorf("%s: %d, %v", bad, n, err)
				}
			}
		})
	})
}

// Two replays at once, keys in one slot and in two.
func TestTwoReplaysAtOnceDoubleNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, s *site) {
		both(t, s, func(t *testing.T, kind structure) {
			var names []string
			for i := range 300 {
				names = append(names, fmt.Sprint("m", i))
			}
			s.bury(t, kind, "source", "dead", names...)
			first, second := s.letters(t, "dead"), s.letters(t, "dead")
			var done sync.WaitGroup
			var reports [2]deadletter.Report
			for i, q := range []*deadletter.Queue{first, second} {
				done.Go(func() { reports[i] = must(q.Replay(t.Context(), deadletter.Filter{})) })
			}
			done.Wait()
			if n := reports[0].Done + reports[1].Done; n != 300 || s.length(t, kind, "dead") != 0 {
				t.Errorf("%+v", reports)
			}
			target, want := int64(300), s.length(t, kind, "source")
			if kind == stream { // which keeps what was handled
				target = 600
			}
			if want != target {
				t.Errorf("the source has %d, want %d", want, target)
			}
		})
	})
}

// Rate, speed and memory, at the full size with MILLRACE_SOAK=1.
func TestManyRecords(t *testing.T) {
	s := redistest.Start(t).Own(t)
	at := &site{client: s.Client(), connect: func(o ...redisbroker.Option) broker.Broker { return redisbroker.Standalone(s.URL(), o...) }}
	n := 10_000
	if os.Getenv("MILLRACE_SOAK") != "" {
		n = 100_000
	}
	at.seed(t, "s", "s.dlq", n)
	s.Client().ConfigSet(t.Context(), "slowlog-log-slower-than", "20000")
	s.Client().ConfigSet(t.Context(), "slowlog-max-len", "1000")
	s.Client().SlowLogReset(t.Context())
	q := at.letters(t, "s.dlq")
	runtime.GC()
	var peak uint64
	look := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapInuse)
	}
	seen := 0
	for _, err := range q.All(t.Context(), deadletter.Filter{Handler: "h1"}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; seen%500 == 0 {
			look()
		}
	}
	must(q.Stats(t.Context(), deadletter.Filter{}))
	look()
	if seen != n/3 || peak > 64<<20 {
		t.Errorf("%d seen, %d bytes of memory", seen, peak)
	}
	began := time.Now()
	replay(t, q, deadletter.Filter{}, deadletter.Report{Examined: 1000, Matched: 1000, Done: 1000}, deadletter.Rate(500), deadletter.Max(1000))
	if took := time.Since(began); took < 1900*time.Millisecond || took > 2100*time.Millisecond {
		t.Errorf("1000 at 500 a second took %s", took)
	}
	began = time.Now()
	replay(t, q, deadletter.Filter{}, all(n-1000))
	took := time.Since(began)
	t.Logf("%d replayed in %s, peak %d MiB", n-1000, took, peak>>20)
	if took > 20*time.Second {
		t.Errorf("%d replayed in %s", n-1000, took)
	}
	// One that is slow by itself is slow each time; a few are the machine's doing.
	slow := slices.DeleteFunc(must(s.Client().SlowLogGet(t.Context(), 1000).Result()), func(l redis.SlowLog) bool {
		return !slices.Contains([]string{"evalsha", "eval"}, strings.ToLower(l.Args[0]))
	})
	if len(slow) > 5 {
		t.Errorf("%d scripts took longer than 20 ms, the last one %s", len(slow), slow[0].Duration)
	}
}

// envReplay makes the test program a process that replays.
const envReplay = "MILLRACE_DEADLETTER_REPLAY"

func replayIfAsked() {
	url, asked := os.LookupEnv(envReplay)
	if !asked {
		return
	}
	b := redisbroker.Standalone(url)
	if address, ok := strings.CutPrefix(url, "cluster "); ok {
		b = redisbroker.Cluster(address)
	}
	if _, err := deadletter.Open(b, "s.dlq").Replay(context.Background(), deadletter.Filter{}, deadletter.Rate(2000)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A replay is killed ten times and then run by two processes at once.
func TestAKilledReplayLosesAndDoublesNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		at := &site{client: s.Client(), connect: func(o ...redisbroker.Option) broker.Broker { return redisbroker.Standalone(s.URL(), o...) }}
		both(t, at, func(t *testing.T, kind structure) { killed(t, at, kind, s.URL(), 10) })
	})
	// Each kill costs the turn that the process had, in which it writes to one slot and then deletes from another.
	t.Run("cluster", func(t *testing.T) {
		s := redistest.Cluster(t)
		killed(t, &site{client: s.Client()}, stream, "cluster "+s.URL(), 2)
	})
}

func killed(t *testing.T, at *site, kind structure, url string, kills int) {
	if kind == stream {
		at.seed(t, "s", "s.dlq", 1000)
	} else {
		bodies := make([]string, 1000)
		for i := range bodies {
			bodies[i] = fmt.Sprint("body ", i)
		}
		at.bury(t, kind, "s", "s.dlq", bodies...)
	}
	start := func() *exec.Cmd {
		c := exec.Command(must(os.Executable()))
		c.Env, c.Stderr = append(os.Environ(), envReplay+"="+url), os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for i := range kills {
		c, goal := start(), int64(1000-(i+1)*80)
		eventually(t, "some are replayed", func() bool { return at.length(t, kind, "s.dlq") <= goal })
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	a, b := start(), start()
	if err := errors.Join(a.Wait(), b.Wait()); err != nil {
		t.Fatal(err)
	}
	ids := map[any]int{} // of a list the items, which hold theirs
	if kind == stream {
		for _, e := range must(at.client.XRange(t.Context(), "s", "-", "+").Result()) {
			ids[e.Values["h:message-id"]]++
		}
	} else {
		for _, item := range must(at.client.LRange(t.Context(), "s", 0, -1).Result()) {
			ids[item]++
		}
	}
	if n, left := at.length(t, kind, "s"), at.length(t, kind, "s.dlq"); len(ids) != 1000 || n != 1000 || left != 0 {
		t.Errorf("%d messages, %d entries, %d left", len(ids), n, left)
	}
}
