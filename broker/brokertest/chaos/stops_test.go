//go:build unix

package chaos

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker/redistest"
)

// Apps are stopped in good order again and again while they work. Whatever they had read and not begun is free for
// anyone, and nothing waits for a liveness key to run out: it lasts for half a minute here.
func TestStopsUnderLoadLeaveNothingBehind(t *testing.T) {
	raced(t)
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		const lanes = 2
		stops := brief(30, pick(200, 2000))
		m := mount{Stream: "stops", Group: "g", DeadLetter: "stops.dlq", MaxAttempts: 3, MaxDeliveries: 2, Prefetch: 20}
		s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: 30 * time.Second, Grace: 5 * time.Second, Mounts: []mount{m}})
		// More than can be handled between the stops, so that every one of them comes in the middle of work.
		jobs := ordinary(stops*80, 0)
		for i := range jobs {
			jobs[i].Steps[0].Work = rand.N(20 * time.Millisecond) //nolint:gosec // any will do
		}
		s.publish(m.Stream, jobs...)
		from := time.Now()
		var all sync.WaitGroup
		for lane := range lanes {
			all.Go(func() {
				for n := range stops / lanes {
					s.visit(lane*stops+n+1, time.Duration(20+rand.IntN(60))*time.Millisecond) //nolint:gosec // any will do
				}
			})
		}
		all.Wait()
		handled := len(s.calls())
		t.Logf("%d stops within %s, %d of %d messages handled meanwhile", stops, time.Since(from).Round(time.Millisecond), handled, len(jobs))
		if handled == len(jobs) {
			t.Error("there was nothing left to do: the last stops did not come under load")
		}
		s.checkFree(m)
		from = time.Now()
		s.keep(3)
		s.awaitRest(patience)
		s.stop()
		t.Logf("the rest was handled within %s", time.Since(from).Round(time.Millisecond))
		s.judge(m, jobs)
		for _, c := range s.calls() {
			if c.losses != 0 {
				t.Errorf("a stop counts as a loss: %v", c)
			}
		}
	})
}

// visit runs an app of this process for a while. A number that no other app of the test has tells its calls apart.
func (s *scene) visit(number int, d time.Duration) {
	p, err := newPen(s.order.Journal, 1_000_000+number)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer p.file.Close()
	a := newApp(s.order, p, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// The time counts from when it reads: a stop during the start would be none under load.
	a.AfterStartup(func(context.Context) error {
		time.AfterFunc(d, cancel)
		return nil
	})
	if err := a.Run(ctx); err != nil {
		s.t.Errorf("app %s: %v", strconv.Itoa(number), err)
	}
}

// checkFree looks at the group after the last stop: nobody is left in it, and what is pending is free and uncharged.
func (s *scene) checkFree(m mount) {
	s.t.Helper()
	const freeConsumer = "~free"
	consumers, err := s.client.XInfoConsumers(s.t.Context(), m.Stream, m.Group).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range consumers {
		if c.Name != freeConsumer {
			s.t.Errorf("consumer %s is left, with %d entries", c.Name, c.Pending)
		}
	}
	p, err := pendingEntries(s.t.Context(), s.client, m)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range p {
		if e.Consumer != freeConsumer || e.RetryCount != 0 {
			s.t.Errorf("pending: %+v", e)
		}
	}
	s.t.Logf("%d entries are pending, free for anyone", len(p))
	keys, err := s.client.Keys(s.t.Context(), "*:alive:*").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	if len(keys) > 0 {
		s.t.Errorf("liveness keys are left: %v", keys)
	}
}
