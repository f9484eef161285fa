package brokertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
)

// Troubles shows that an outcome which the server does not take waits, without another call of the handler, and holds
// nothing else up (contract §7). One body needs a server of its own and [ConfigSet].
func Troubles(t *testing.T, target Target) { troublesArea.run(t, target) }

var troublesArea = area{name: "Troubles", bodies: []body{
	{name: "AFullServerLosesNoOutcome", run: fullServer, own: true, needs: []Feature{ConfigSet}},
	{name: "ATargetOfTheWrongTypeLosesNoOutcome", run: wrongType},
}}

// fullServer: a server that is full takes no copy, delay or dead letter. The outcomes wait, their handlers are not
// called again, and other messages go on.
func fullServer(t *testing.T, target Target) {
	target = target.Own(t).mortal()
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
	svc := newService(target)
	for _, m := range modes {
		c := svc.subject("", m, &recorder{answer: answer})
		c.mount(app.Concurrency(3), app.MaxAttempts(3), app.DeadLetter(c.deadLetter))
	}
	svc.start(t)
	for _, c := range svc.subjects {
		for _, body := range sortedKeys(answers) {
			svc.publish(t, c.stream, []byte(body))
		}
		for i := range 50 {
			svc.publish(t, c.stream, fmt.Append(nil, i))
		}
		await(t, c.name+": the handlers run", func(context.Context) bool { return c.count() == len(answers) })
	}
	setMemory(t, target.Client, "1")
	close(full)
	for _, c := range svc.subjects {
		await(t, c.name+": the other messages are handled", func(context.Context) bool { return c.count() >= 50+len(answers) })
	}
	time.Sleep(2 * livenessTTL)
	for _, c := range svc.subjects {
		for _, body := range sortedKeys(answers) {
			// Keeping an entry pending needs no memory, so that claiming goes on.
			if n := len(c.of(body)); n != 1 && !c.claims {
				t.Errorf("%s: %q was handled %d times while its outcome could not be written", c.name, body, n)
			}
		}
	}
	setMemory(t, target.Client, "0")
	svc.rest(t)
	for _, c := range svc.subjects {
		for body, n := range c.bodies() {
			want := 1
			if body == "retry" || body == "delay" {
				want = 2
			}
			if n != want {
				t.Errorf("%s: %q was handled %d times, want %d", c.name, body, n, want)
			}
		}
		if n := len(c.letters(t)); n != 1 {
			t.Errorf("%s: %d dead letters", c.name, n)
		}
	}
}

func setMemory(t testing.TB, client redis.UniversalClient, bytes string) {
	t.Helper()
	if err := client.ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
		t.Fatal(err)
	}
}

// wrongType: a dead letter that is something else by now takes nothing; the message waits for it, and other messages go
// on.
func wrongType(t *testing.T, target Target) {
	target = target.mortal()
	for _, m := range ownRecords {
		k, r := uniqueKeys(), &recorder{}
		r.answer = func(_ context.Context, _ int, c call) outcome.HandlerOutcome {
			if c.payload == "bury" {
				return outcome.DeadLetter(errors.New("no"))
			}
			return outcome.Ack()
		}
		svc := newService(target)
		svc.mount(m.spec(k), r, app.Concurrency(2), app.DeadLetter(k.deadLetter))
		svc.start(t)
		target.Client.Set(t.Context(), k.deadLetter, "in the way", 0)
		svc.publish(t, k.stream, []byte("bury"))
		for i := range 20 {
			svc.publish(t, k.stream, fmt.Append(nil, i))
		}
		await(t, m.name+": the other messages are settled", func(ctx context.Context) bool {
			p, err := pending(ctx, target, k)
			return err == nil && len(p) == 1 && r.count() == 21
		})
		time.Sleep(2 * livenessTTL)
		target.Client.Del(t.Context(), k.deadLetter)
		awaitRest(t, target, k)
		svc.stop(t)
		if r.count() != 21 || len(mustEntries(t, target, k.deadLetter)) != 1 {
			t.Errorf("%s: %d calls and %d dead letters", m.name, r.count(), len(mustEntries(t, target, k.deadLetter)))
		}
	}
}
