//go:build unix

package chaos

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker/redistest"
)

// permitted are the rules that the guide gives for the stream s, the delay set z and the dead letter dlq.
func permitted(t testing.TB) []string {
	t.Helper()
	guide, err := os.ReadFile("../../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(guide), "```text\n")
	block, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatal("docs/reliability.md has no block with the permissions")
	}
	return strings.Fields(block)
}

// permit gives the user exactly these rules, and cuts it off, so that it meets them.
func permit(t testing.TB, server *redistest.Server, rules ...string) {
	t.Helper()
	all := append([]string{"reset", "on", ">right"}, rules...)
	if err := server.Client().ACLSetUser(t.Context(), userName, all...).Err(); err != nil {
		t.Fatal(err)
	}
}

// lacking are permissions that a worker cannot do without.
var lacking = []struct {
	name string
	// without is a rule of the guide that is left out, with one that is given in its place.
	without, instead string
	// named is what the worker has to say at its start, and said what it says where it loses the permission later.
	named, said string
}{
	{name: "claiming", without: "+xclaim", named: "xclaim"}, // nobody needs it later until a peer dies
	{name: "scripts", without: "+evalsha", named: "evalsha", said: "evalsha"},
	{name: "the dead letter", without: "~dlq", named: "dlq", said: "bury to \\\"dlq\\\""},
	{name: "writing to the stream", without: "~s", instead: "%R~s", named: "stream \\\"s\\\"", said: "of stream"},
}

func without(rules []string, left, instead string) []string {
	var rest []string
	for _, r := range rules {
		switch {
		case r != left:
			rest = append(rest, r)
		case instead != "":
			rest = append(rest, instead)
		}
	}
	return rest
}

var permittedMount = mount{
	Stream: "s", Group: "g", DelaySet: "z", DeadLetter: "dlq", MaxAttempts: 2, Backoff: 50 * time.Millisecond, Block: time.Second,
}

// A worker whose user may not do what it needs does not sit there in silence: it ends, and names what is missing.
func TestAMissingPermissionEndsTheStart(t *testing.T) {
	chaotic(t)
	eachServer(t, func(t *testing.T, shared *redistest.Server) {
		server := shared.Own(t) // users are the whole server's
		rules := permitted(t)
		for _, c := range lacking {
			permit(t, server, without(rules, c.without, c.instead)...)
			s := newScene(t, server.Client(), order{
				URL: withUser(t, server.URL(), "right"), Liveness: ttl, Grace: time.Second, Mounts: []mount{permittedMount},
			})
			w := s.start()
			select {
			case <-w.done:
			case <-time.After(5 * time.Second):
				t.Fatalf("without %s: still running after 5s:\n%s", c.name, logOf(t, w))
			}
			text := logOf(t, w)
			if w.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(strings.ToLower(text), c.named) || !strings.Contains(text, "NOPERM") {
				t.Errorf("without %s: ended with %v and said\n%s", c.name, w.cmd.ProcessState, text)
			}
		}
	})
}

// With what the guide lists, and nothing else, everything works: outcomes of all kinds, delays, dead letters, a crash and
// stops. And a worker that loses a permission while it runs says so, without haste, and goes on once it has it again:
// nothing is lost, and no handler is called again for it.
func TestALostPermissionLosesNothing(t *testing.T) {
	chaotic(t)
	eachRedis(t, func(t *testing.T, shared *redistest.Server) {
		server := shared.Own(t)
		rules := permitted(t)
		permit(t, server, rules...)
		m := permittedMount
		s := newScene(t, server.Client(), order{
			URL: withUser(t, server.URL(), "right"), Liveness: 3 * time.Second, Grace: time.Second, Mounts: []mount{m},
		})
		s.keep(2)
		kinds := func(round, gate string) []job {
			return []job{
				{Key: "ack" + round, Steps: []step{{Do: endAck, Gate: gate}}},
				{Key: "retry" + round, Steps: []step{{Do: endRetry, Gate: gate}, {Do: endAck}}},
				{Key: "later" + round, Steps: []step{{Do: endRetryAfter, After: 100 * time.Millisecond, Gate: gate}, {Do: endAck}}},
				{Key: "fail" + round, Steps: []step{{Do: endRetry}, {Do: endFail, Gate: gate}}}, // buried at its second attempt
			}
		}
		jobs := kinds("-at-first", "")
		s.publish(m.Stream, jobs...)
		s.awaitRest(patience)
		crash := job{Key: "crash", Steps: []step{{Do: endAck, Gate: s.gate("crash")}}}
		jobs = append(jobs, crash)
		s.publish(m.Stream, crash)
		s.byNumber(s.awaitCall(patience, crash.Key, 1).worker).kill()
		s.awaitCall(patience, crash.Key, 2)
		s.open("crash")
		s.awaitRest(patience)
		for i, c := range lacking {
			name := string(rune('a' + i))
			more := kinds("-"+name, s.gate(name))
			jobs = append(jobs, more...)
			s.publish(m.Stream, more...)
			await(t, patience, "all handlers run", func() bool { return len(s.callsOfKey("fail-"+name)) == 2 && len(s.callsOfKey("later-"+name)) == 1 })
			said := s.sizes(t)
			permit(t, server, without(rules, c.without, c.instead)...)
			s.open(name)
			if c.said != "" {
				await(t, 5*time.Second, "without "+c.name+": a worker says what it lacks", func() bool {
					text := strings.ToLower(s.saidSince(t, said))
					return strings.Contains(text, "noperm") && strings.Contains(text, c.said)
				})
			}
			const away = 3 * time.Second
			time.Sleep(time.Second) // what could be done is done
			counts := commandCounts(t, server.Client())
			time.Sleep(away)
			// The two of them.
			rate := (commandCounts(t, server.Client()) - counts) / away.Seconds() / 2
			t.Logf("without %s: %.1f commands a second from each", c.name, rate)
			if rate >= frugal {
				t.Errorf("without %s: %.1f commands a second from each worker, want less than %d", c.name, rate, frugal)
			}
			permit(t, server, rules...)
			s.awaitRest(patience)
		}
		s.stop()
		s.judge(m, jobs)
		if n := len(s.all()); n != 3 {
			t.Errorf("%d processes were started, want two and one in place of the killed one", n)
		}
	})
}

// sizes is how much each worker has said so far.
func (s *scene) sizes(t testing.TB) map[*process]int {
	t.Helper()
	sizes := map[*process]int{}
	for _, p := range s.all() {
		sizes[p] = len(logOf(t, p))
	}
	return sizes
}

// saidSince is what the workers have said since.
func (s *scene) saidSince(t testing.TB, sizes map[*process]int) string {
	t.Helper()
	var said strings.Builder
	for _, p := range s.all() {
		said.WriteString(logOf(t, p)[sizes[p]:])
	}
	return said.String()
}
