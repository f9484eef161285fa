package brokertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
)

// Nothing is taken from a living process, however long its handler runs: one call a message, and the delivery count
// stays as it is. Both with a claim time and a liveness far shorter than the handler.
func TestALongHandlerKeepsItsMessage(t *testing.T) {
	eachSite(t, func(t *testing.T, s site) {
		const long, messages = 6 * time.Second, 8
		type one struct {
			mode
			keys
			r *recorder
		}
		first, second := newService(s.Target), newService(s.Target)
		var all []one
		for _, m := range ownRecords {
			c := one{m, uniqueKeys(), &recorder{}}
			c.r.answer = func(ctx context.Context, _ int, _ call) outcome.HandlerOutcome {
				select {
				case <-time.After(long):
					return outcome.Ack()
				case <-ctx.Done():
					return outcome.Of(context.Cause(ctx))
				}
			}
			for _, svc := range []*service{first, second} {
				svc.mount(m.spec(c.keys), c.r, app.Concurrency(4), app.MaxAttempts(5), app.DeadLetter(c.deadLetter))
			}
			all = append(all, c)
		}
		first.start(t)
		second.start(t)
		for _, c := range all {
			for i := range messages {
				first.publish(t, c.stream, fmt.Append(nil, i))
			}
		}
		for end := time.Now().Add(long - time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			for _, c := range all {
				p, err := pending(t.Context(), s.Target, c.keys)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range p {
					if e.RetryCount != 1 {
						t.Fatalf("%s: entry %s has the delivery count %d", c.name, e.ID, e.RetryCount)
					}
				}
			}
		}
		for _, c := range all {
			awaitRest(t, s.Target, c.keys)
		}
		first.stop(t)
		second.stop(t)
		for _, c := range all {
			if c.r.count() != messages || len(c.r.byMessage()) != messages {
				t.Errorf("%s: %d calls of %d messages, want %d", c.name, c.r.count(), len(c.r.byMessage()), messages)
			}
		}
	})
}

// A handler whose entry was taken from it learns of it by its context, and what it answers has no effect.
func TestALostLeaseEndsTheHandler(t *testing.T) {
	eachSite(t, func(t *testing.T, s site) {
		meterReader()
		answers := map[string]outcome.HandlerOutcome{
			"retry": outcome.Retry(), "delay": outcome.RetryAfter(time.Millisecond), "bury": outcome.DeadLetter(errors.New("no")),
		}
		type one struct {
			mode
			keys
			r     *recorder
			cause chan error
		}
		svc := newService(s.Target)
		var all []one
		for _, m := range modes {
			for _, how := range sortedKeys(answers) {
				c := one{m, uniqueKeys(), &recorder{}, make(chan error, 1)}
				c.name += " " + how
				c.r.answer = func(ctx context.Context, _ int, _ call) outcome.HandlerOutcome {
					<-ctx.Done()
					c.cause <- context.Cause(ctx)
					return answers[how]
				}
				spec := m.spec(c.keys)
				if m.claims {
					spec.Claim = time.Minute // nobody takes it back meanwhile
				}
				svc.mount(spec, c.r, app.MaxAttempts(5), app.DeadLetter(c.deadLetter))
				all = append(all, c)
			}
		}
		svc.start(t)
		for _, c := range all {
			svc.publish(t, c.stream, payload)
		}
		for _, c := range all {
			await(t, c.name+": the handler runs", func(context.Context) bool { return c.r.count() == 1 })
			p, err := pending(t.Context(), s.Target, c.keys)
			if err != nil || len(p) != 1 {
				t.Fatalf("%s: pending %v, %v", c.name, p, err)
			}
			s.Client.Set(t.Context(), aliveKey(c.keys, "thief"), "token", time.Minute)
			seizeFor(t, s.Target, c.keys, p[0].ID, "thief", 2, 0)
		}
		for _, c := range all {
			select {
			case cause := <-c.cause:
				if !errors.Is(cause, app.ErrLeaseLost) {
					t.Errorf("%s: the handler's context ended with %v", c.name, cause)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: the handler was not told", c.name)
			}
		}
		svc.stop(t)
		meters := readMeters(t)
		for _, c := range all {
			p, err := pending(t.Context(), s.Target, c.keys)
			if err != nil || len(p) != 1 || p[0].Consumer != "thief" || p[0].RetryCount != 2 {
				t.Errorf("%s: pending %v, %v; want the thief's entry untouched", c.name, p, err)
			}
			if n := meters[c.stream]["discarded lost"]; n != 1 {
				t.Errorf("%s: counted %v", c.name, meters[c.stream])
			}
			if a, b := len(mustEntries(t, s.Target, c.stream)), len(mustEntries(t, s.Target, c.deadLetter)); a != 1 || b != 0 || s.Client.ZCard(t.Context(), c.delaySet).Val() != 0 {
				t.Errorf("%s: %d entries, %d dead letters", c.name, a, b)
			}
		}
	})
}

// A living process stays alive for its peers when its liveness key is deleted or made persistent, when its connections
// are cut, and while it takes its time to stop; the key goes with it.
func TestNothingMakesALivingProcessLookDead(t *testing.T) {
	eachSite(t, func(t *testing.T, s site) {
		k, r := uniqueKeys(), &recorder{}
		release := make(chan struct{})
		r.answer = func(context.Context, int, call) outcome.HandlerOutcome {
			<-release
			return outcome.Ack()
		}
		first, second := newService(s.Target, app.Grace(20*time.Second)), newService(s.Target)
		first.mount(mode{}.spec(k), r)
		first.start(t)
		holder := consumersAlive(t, s.Target, k)[0]
		first.publish(t, k.stream, payload)
		await(t, "the handler runs", func(context.Context) bool { return r.count() == 1 })
		second.mount(mode{}.spec(k), r)
		second.start(t)
		stands := func(ctx context.Context) bool {
			left := s.Client.PTTL(ctx, holder).Val()
			return left > 0 && left <= livenessTTL
		}
		trouble := map[string]func(){
			"deleted":    func() { s.Client.Del(t.Context(), holder) },
			"persistent": func() { s.Client.Persist(t.Context(), holder) },
		}
		if !slices.Contains(s.Lacks, ClientKill) {
			trouble["cut off"] = func() { cutConnections(t, s.Target) }
		}
		for _, what := range sortedKeys(trouble) {
			trouble[what]()
			began := time.Now()
			await(t, "the key stands after it was "+what, stands)
			if late := time.Since(began); late > livenessTTL/3+time.Second && !underRace {
				t.Errorf("%s: the key was repaired after %s", what, late)
			}
			time.Sleep(livenessTTL)
		}
		done := make(chan struct{})
		go func() { defer close(done); first.stop(t) }()
		// Longer than the liveness: the process is stopping, and its handler still has its time.
		time.Sleep(3 * livenessTTL)
		if n := r.count(); n != 1 {
			t.Errorf("the message was given to %d handlers", n)
		}
		close(release)
		<-done
		if n := s.Client.Exists(t.Context(), holder).Val(); n != 0 {
			t.Error("the key stands after the stop")
		}
		awaitRest(t, s.Target, k)
		second.stop(t)
		if calls := r.seen(); len(calls) != 1 {
			t.Errorf("%d calls", len(calls))
		}
	})
}

// consumersAlive are the liveness keys of the group.
func consumersAlive(t testing.TB, target Target, k keys) []string {
	t.Helper()
	names, err := target.Client.Keys(t.Context(), aliveKey(k, "*")).Result()
	if err != nil || len(names) == 0 {
		t.Fatalf("liveness keys %v, %v", names, err)
	}
	return names
}

// cutConnections ends every connection to the target's database but the one that asks for it.
func cutConnections(t testing.TB, target Target) {
	t.Helper()
	client, ok := target.Client.(*redis.Client)
	if !ok {
		t.Fatalf("the target's client is a %T", target.Client)
	}
	conn := client.Conn()
	defer conn.Close()
	own, err := conn.ClientID(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	list, err := conn.ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for id := range connectionsOf(list, client.Options().DB) {
		if id != fmt.Sprint(own) {
			conn.Do(t.Context(), "CLIENT", "KILL", "ID", id)
		}
	}
}
