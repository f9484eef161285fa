package brokertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker/redistest"
	"github.com/millrace-go/millrace/outcome"
)

// A server that is full takes no copy, delay or dead letter. The outcomes wait, their handlers are not called again, and
// other messages go on.
func TestAFullServerLosesNoOutcome(t *testing.T) {
	redistest.Each(t, func(t *testing.T, shared *redistest.Server) {
		t.Parallel()
		server := shared.Own(t)
		s := siteOf(server)
		answers := map[string]outcome.HandlerOutcome{
			"retry": outcome.Retry(), "delay": outcome.RetryAfter(50 * time.Millisecond), "bury": outcome.DeadLetter(errors.New("no")),
		}
		full := make(chan struct{})
		answer := func(_ context.Context, n int, c call) outcome.HandlerOutcome {
			if o, ok := answers[c.payload]; ok && n == 1 {
				<-full
				return o
			}
			return outcome.Ack()
		}
		type one struct {
			mode
			keys
			r *recorder
		}
		svc := newService(s.Target)
		var all []one
		for _, m := range modes {
			c := one{m, uniqueKeys(), &recorder{answer: answer}}
			svc.mount(m.spec(c.keys), c.r, app.Concurrency(3), app.MaxAttempts(3), app.DeadLetter(c.deadLetter))
			all = append(all, c)
		}
		svc.start(t)
		for _, c := range all {
			for _, body := range sortedKeys(answers) {
				svc.publish(t, c.stream, []byte(body))
			}
			for i := range 50 {
				svc.publish(t, c.stream, fmt.Append(nil, i))
			}
			await(t, c.name+": the handlers run", func(context.Context) bool { return c.r.count() == len(answers) })
		}
		setMemory(t, server.Client(), "1")
		close(full)
		for _, c := range all {
			await(t, c.name+": the other messages are handled", func(context.Context) bool { return c.r.count() >= 50+len(answers) })
		}
		time.Sleep(2 * livenessTTL)
		for _, c := range all {
			for _, body := range sortedKeys(answers) {
				// Keeping an entry pending needs no memory, so that claiming goes on.
				if n := len(c.r.of(body)); n != 1 && !c.claims {
					t.Errorf("%s: %q was handled %d times while its outcome could not be written", c.name, body, n)
				}
			}
		}
		setMemory(t, server.Client(), "0")
		for _, c := range all {
			awaitRest(t, s.Target, c.keys)
		}
		svc.stop(t)
		for _, c := range all {
			for body, n := range c.r.bodies() {
				want := 1
				if body == "retry" || body == "delay" {
					want = 2
				}
				if n != want {
					t.Errorf("%s: %q was handled %d times, want %d", c.name, body, n, want)
				}
			}
			if n := len(mustEntries(t, s.Target, c.deadLetter)); n != 1 {
				t.Errorf("%s: %d dead letters", c.name, n)
			}
		}
	})
}

func setMemory(t testing.TB, client *redis.Client, bytes string) {
	t.Helper()
	if err := client.ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
		t.Fatal(err)
	}
}

// A dead letter that is something else by now takes nothing; the message waits for it, and other messages go on.
func TestATargetOfTheWrongTypeLosesNoOutcome(t *testing.T) {
	eachSite(t, func(t *testing.T, s site) {
		for _, m := range ownRecords {
			k, r := uniqueKeys(), &recorder{}
			r.answer = func(_ context.Context, _ int, c call) outcome.HandlerOutcome {
				if c.payload == "bury" {
					return outcome.DeadLetter(errors.New("no"))
				}
				return outcome.Ack()
			}
			svc := newService(s.Target)
			svc.mount(m.spec(k), r, app.Concurrency(2), app.DeadLetter(k.deadLetter))
			svc.start(t)
			s.Client.Set(t.Context(), k.deadLetter, "in the way", 0)
			svc.publish(t, k.stream, []byte("bury"))
			for i := range 20 {
				svc.publish(t, k.stream, fmt.Append(nil, i))
			}
			await(t, m.name+": the other messages are settled", func(ctx context.Context) bool {
				p, err := pending(ctx, s.Target, k)
				return err == nil && len(p) == 1 && r.count() == 21
			})
			time.Sleep(2 * livenessTTL)
			s.Client.Del(t.Context(), k.deadLetter)
			awaitRest(t, s.Target, k)
			svc.stop(t)
			if r.count() != 21 || len(mustEntries(t, s.Target, k.deadLetter)) != 1 {
				t.Errorf("%s: %d calls and %d dead letters", m.name, r.count(), len(mustEntries(t, s.Target, k.deadLetter)))
			}
		}
	})
}
