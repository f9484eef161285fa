//go:build unix

package chaos

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker/redistest"
)

// mixedMounts keep delays in every way: in memory, in a set on the server, and by claiming. The cap on losses is out of
// reach: what is killed here is not what kills.
func mixedMounts() []mount {
	m := mount{
		Group: "g", MaxAttempts: 3, MaxDeliveries: 1000, Backoff: 50 * time.Millisecond, Concurrency: 10, Block: time.Second,
	}
	mounts := make([]mount, 3)
	for i, name := range []string{"memory", "set", "claim"} {
		mounts[i] = m
		mounts[i].Stream, mounts[i].DeadLetter = name, name+".dlq"
	}
	mounts[1].DelaySet = "set.delayed"
	mounts[2].Claim = ttl
	return mounts
}

// mixedJobs are n messages of which a fifth asks for another attempt, at once or after 0.2 to 3 s, and a twentieth fails
// to the cap. A handler takes up to longest.
func mixedJobs(prefix string, n int, longest time.Duration) []job {
	jobs := make([]job, n)
	for i := range jobs {
		work := func() time.Duration { return rand.N(longest) } //nolint:gosec // any will do
		j := job{Key: prefix + strconv.Itoa(i), Steps: []step{{Do: endAck, Work: work()}}}
		again := step{Do: endRetry, Work: work()}
		switch i % 20 {
		case 0, 1:
			j.Steps = []step{again, j.Steps[0]}
		case 2, 3:
			again.Do, again.After = endRetryAfter, 200*time.Millisecond+rand.N(2800*time.Millisecond) //nolint:gosec // any will do
			j.Steps = []step{again, j.Steps[0]}
		case 4:
			j.Steps = []step{{Do: endFail, Work: work()}}
		}
		jobs[i] = j
	}
	return jobs
}

// spread gives each of the mixed mounts its share of n messages: claiming has a tenth.
func (s *scene) spread(n int, longest time.Duration) [][]job {
	jobs := make([][]job, len(s.order.Mounts))
	for i, share := range []int{9, 9, 2} {
		m := s.order.Mounts[i]
		jobs[i] = mixedJobs(m.Stream+"-", n*share/20, longest)
		s.publish(m.Stream, jobs[i]...)
	}
	return jobs
}

// harm does something to a random worker every period, as often as most says or until everything is settled, which it
// waits for in any case. It returns how often it did.
func (s *scene) harm(period time.Duration, most int, what func(*process)) (times int) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for ; times < most; times++ {
		<-ticker.C
		if s.atRest() {
			break
		}
		if p := s.any(); p != nil {
			what(p)
		}
	}
	s.awaitRest(2 * patience)
	return times
}

// Three workers are killed again and again while they work.
func TestKillsLoseAndDoubleNothing(t *testing.T) {
	raced(t)
	eachRedis(t, func(t *testing.T, server *redistest.Server) {
		s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: ttl, Grace: time.Second, Mounts: mixedMounts()})
		jobs := s.spread(brief(3_000, pick(20_000, 100_000)), 10*time.Millisecond)
		s.keep(3)
		from := time.Now()
		kills := s.harm(500*time.Millisecond, brief(8, pick(40, 400)), (*process).kill)
		t.Logf("%d kills within %s", kills, time.Since(from).Round(time.Millisecond))
		s.stop()
		for i, m := range s.order.Mounts {
			s.judge(m, jobs[i])
		}
	})
}

// Three workers stand still again and again for longer than their liveness key does. What they had in hand is a peer's by
// the time that they wake up, and they do nothing to it but acknowledge: whatever else stands on the server was written
// by the owner of the time.
func TestAFrozenWorkerSettlesNothingThatIsNotItsOwn(t *testing.T) {
	raced(t)
	server := redistest.Start(t)
	s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: ttl, Grace: time.Second, Mounts: mixedMounts()})
	jobs := s.spread(brief(2_000, pick(10_000, 50_000)), 50*time.Millisecond)
	s.keep(3)
	from := time.Now()
	freezes := s.harm(1500*time.Millisecond, brief(2, pick(5, 40)), func(p *process) { p.freeze(2 * ttl) })
	t.Logf("%d freezes within %s", freezes, time.Since(from).Round(time.Millisecond))
	s.stop()
	for i, m := range s.order.Mounts {
		s.judge(m, jobs[i])
	}
}
