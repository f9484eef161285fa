//go:build unix

package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// A message that takes its process down stops doing so after MaxDeliveries deaths. What the process had in hand with it
// is charged with its deaths and not buried with it.
func TestAMessageThatKillsItsProcessIsBuriedAlone(t *testing.T) {
	chaotic(t)
	for _, c := range []struct {
		name                      string
		neighbours                int
		work                      time.Duration
		workers, prefetch, killer int
		// concurrency is 10 where it is 0.
		concurrency int
	}{
		{name: "among 999 fast ones that are read ahead", neighbours: 999, workers: 1, prefetch: 100, killer: 500},
		{name: "among 50 slow ones", neighbours: 50, work: 50 * time.Millisecond, workers: 2, killer: 5},
		{name: "in front of 9 that come one by one", neighbours: 9, workers: 1, concurrency: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			m := mount{
				Stream: "deaths", Group: "g", DeadLetter: "deaths.dlq", MaxAttempts: 3, MaxDeliveries: 3, Prefetch: c.prefetch,
				Concurrency: c.concurrency, Block: time.Second,
			}
			s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: ttl, Grace: time.Second, Mounts: []mount{m}})
			jobs := ordinary(c.neighbours, c.work)
			all := append(append([]job{}, jobs[:c.killer]...), job{Key: "killer", Steps: []step{{Do: endExit}}})
			s.publish(m.Stream, append(all, jobs[c.killer:]...)...)
			s.keep(c.workers)
			await(t, patience, "the killer is buried", func() bool { return server.Client().XLen(t.Context(), m.DeadLetter).Val() > 0 })
			s.awaitRest(patience)
			s.stop()
			if n := s.crashes(); n != 3 {
				t.Errorf("%d processes died", n)
			}
			l, err := readLedger(t.Context(), s.client, m)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%+v", l.letters["killer"]); len(l.letters["killer"]) != 1 ||
				l.letters["killer"][0].reason != broker.ReasonMaxDeliveries || l.letters["killer"][0].losses != "3" {
				t.Errorf("the dead letters of the killer: %s", got)
			}
			if n := len(s.callsOfKey("killer")); n != 3 {
				t.Errorf("the killer was called %d times", n)
			}
			delete(l.letters, "killer")
			s.judge(m, jobs)
		})
	}
}
