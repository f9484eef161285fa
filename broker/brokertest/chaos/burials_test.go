//go:build unix

package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// Whoever is killed while it buries, each message has one dead letter: writing it and acknowledging are one step.
func TestKillsDoubleNoDeadLetter(t *testing.T) {
	chaotic(t)
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		const messages = 300
		m := mount{
			Stream: "buried", Group: "g", DeadLetter: "buried.dlq", MaxAttempts: 1, MaxDeliveries: 1000, Block: time.Second, Concurrency: 2,
		}
		s := newScene(t, server.Client(), order{URL: server.URL(), Liveness: ttl, Grace: time.Second, Mounts: []mount{m}})
		jobs := make([]job, messages)
		for i := range jobs {
			jobs[i] = job{Key: fmt.Sprint("buried", i), Steps: []step{{Do: endRetry, Work: 50 * time.Millisecond}}}
		}
		s.publish(m.Stream, jobs...)
		s.keep(3)
		kills := s.harm(300*time.Millisecond, pick(20, 200), (*process).kill)
		t.Logf("%d kills", kills)
		s.stop()
		s.judge(m, jobs)
		letters, err := server.Client().XRange(t.Context(), m.DeadLetter, "-", "+").Result()
		if err != nil {
			t.Fatal(err)
		}
		bySource := map[string][]redis.XMessage{}
		for _, l := range letters {
			id := value(l.Values, broker.FieldSource) + " " + value(l.Values, broker.FieldID)
			bySource[id] = append(bySource[id], l)
		}
		if len(bySource) != messages || len(letters) != messages {
			t.Errorf("%d dead letters of %d entries, want one of each of %d", len(letters), len(bySource), messages)
		}
	})
}
