//go:build unix

package chaos

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker/redistest"
)

// frugal is how many commands a second a worker may send that cannot do its work.
const frugal = 20

// A stream or a group that is gone is made again without haste: it costs the server little, even where something else
// stands in its place. What comes after is handled, and what was acknowledged before is not run again.
func TestALostStreamCostsLittle(t *testing.T) {
	chaotic(t)
	for _, c := range []struct {
		name string
		lose func(t testing.TB, s *scene, m mount)
		// mend makes work possible again; nil where it is.
		mend func(t testing.TB, s *scene, m mount)
	}{
		{name: "deleted", lose: func(t testing.TB, s *scene, m mount) { must(t, s.client.Del(t.Context(), m.Stream)) }},
		{name: "replaced in one step", lose: func(t testing.TB, s *scene, m mount) {
			_, err := s.client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
				p.Del(t.Context(), m.Stream)
				p.XAdd(t.Context(), entryOf(m.Stream, job{Key: "replaced1", Steps: []step{{Do: endAck}}}))
				p.XAdd(t.Context(), entryOf(m.Stream, job{Key: "replaced2", Steps: []step{{Do: endAck}}}))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			s.awaitCall(5*time.Second, "replaced1", 1)
			s.awaitCall(5*time.Second, "replaced2", 1)
		}},
		{name: "without its group", lose: func(t testing.TB, s *scene, m mount) {
			must(t, s.client.XGroupDestroy(t.Context(), m.Stream, m.Group))
		}},
		{
			name: "a string in its place",
			lose: func(t testing.TB, s *scene, m mount) { must(t, s.client.Set(t.Context(), m.Stream, "no stream", 0)) },
			mend: func(t testing.TB, s *scene, m mount) { must(t, s.client.Del(t.Context(), m.Stream)) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			eachRedis(t, func(t *testing.T, shared *redistest.Server) {
				server := shared.Own(t) // the counts are the whole server's
				m := mount{Stream: "lost", Group: "g", DelaySet: "lost.delayed", DeadLetter: "lost.dlq", MaxAttempts: 3, Block: time.Second}
				s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: 3 * time.Second, Grace: time.Second, Mounts: []mount{m}})
				w := s.start()
				before := ordinary(5, 0)
				s.publish(m.Stream, before...)
				await(t, patience, "the worker reads", func() bool { return s.ready(w) && len(s.calls()) == len(before) })
				s.awaitRest(patience)
				c.lose(t, s, m)
				away := pick(3*time.Second, 10*time.Second)
				counts := commandCounts(t, server.Client())
				time.Sleep(away)
				rate := (commandCounts(t, server.Client()) - counts) / away.Seconds()
				t.Logf("%.1f commands a second", rate)
				if rate >= frugal {
					t.Errorf("%.1f commands a second, want less than %d", rate, frugal)
				}
				if c.mend != nil {
					c.mend(t, s, m)
				}
				after := []job{{Key: "after1", Steps: []step{{Do: endAck}}}, {Key: "after2", Steps: []step{{Do: endRetry}, {Do: endAck}}}, {Key: "after3", Steps: []step{{Do: endAck}}}}
				s.publish(m.Stream, after...)
				from := time.Now()
				s.awaitCall(patience, "after1", 1)
				s.awaitCall(patience, "after2", 2)
				s.awaitCall(patience, "after3", 1)
				// Where something else stood, the worker may be in the middle of its longest pause.
				if took := time.Since(from); took > 5*time.Second && c.mend == nil || took > 10*time.Second {
					t.Errorf("handled %s after they were published", took)
				}
				s.awaitRest(patience)
				s.stop()
				for _, j := range append(before, after...) {
					if n := len(s.callsOfKey(j.Key)); n != len(j.Steps) {
						t.Errorf("%s was called %d times, want %d", j.Key, n, len(j.Steps))
					}
				}
			})
		})
	}
}

// must ends the test where the command failed.
func must(t testing.TB, c redis.Cmder) {
	t.Helper()
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
}

// commandCounts is how many commands the server has run, those within scripts included, and how many it has refused, all
// but the test's own.
func commandCounts(t testing.TB, client redis.UniversalClient) float64 {
	t.Helper()
	text, err := client.Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for line := range strings.Lines(text) {
		name, values, found := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":")
		if !found || name == "info" || name == "acl|setuser" {
			continue
		}
		for field := range strings.SplitSeq(values, ",") {
			what, number, _ := strings.Cut(field, "=")
			// A refused command is no call.
			if what != "calls" && what != "rejected_calls" {
				continue
			}
			n, err := strconv.ParseFloat(number, 64)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			total += n
		}
	}
	return total
}
