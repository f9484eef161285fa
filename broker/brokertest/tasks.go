package brokertest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
)

// Tasks shows that handlers of different tasks share one stream and group, and that a task which a process does not know
// waits for one that does, uncounted and off the way (contract §8). Two bodies take a server of their own and
// [CommandStats].
func Tasks(t *testing.T, target Target) { tasksArea.run(t, target) }

var tasksArea = area{name: "Tasks", bodies: []body{
	{name: "ADeployLosesAndBuriesNothing", run: rollingDeploy, own: true, needs: []Feature{CommandStats}},
	{name: "UnknownTasksAreOutOfTheWay", run: unknownFlood, own: true, needs: []Feature{CommandStats}},
	{name: "AnUnknownTaskIsBuriedWhenItsTimeIsOver", run: unknownIsBuried, paused: true},
	{name: "AnUnknownTaskKeepsItsCounters", run: unknownKeepsCounters, paused: true},
}}

// crew is one process that knows some tasks.
type crew struct {
	*service
	r *recorder
}

// hire starts a process that knows the tasks. r notes what it does.
func hire(t testing.TB, target Target, k keys, m mode, r *recorder, tasks []string, options ...app.MountOption) crew {
	t.Helper()
	s := newService(target)
	for _, task := range tasks {
		spec := m.spec(k)
		spec.Task, spec.Name = task, k.stream+"."+task
		s.mount(spec, r, options...)
	}
	s.start(t)
	return crew{s, r}
}

// deferred is where the mode keeps what nobody knows.
func (m mode) deferred(k keys) string {
	if m.set {
		return k.delaySet
	}
	return "{" + k.stream + "}:deferred"
}

// newPublisher is a process that only publishes.
func newPublisher(t testing.TB, target Target) *service {
	s := newService(target)
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func publishTasks(t testing.TB, s *service, k keys, n int, task func(i int) string) {
	t.Helper()
	batch := make([]app.Outgoing, n)
	for i := range batch {
		name := task(i)
		batch[i] = app.Outgoing{
			To: broker.Stream(k.stream), Value: fmt.Append(nil, name, "-", i),
			Options: []broker.PublishOption{broker.Header(broker.HeaderTask, name)},
		}
	}
	if err := s.PublishBatch(t.Context(), batch...); err != nil {
		t.Fatal(err)
	}
}

// rollingDeploy: workers that know two tasks are replaced one by one by workers that know a third, while messages of all
// three come in. Each is handled once, by a worker that knows it, and the unknown ones keep nobody busy.
func rollingDeploy(t *testing.T, target Target) {
	const messages, workers = 1000, 3
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			own := target.Own(t)
			k, r := uniqueKeys(), &recorder{answer: acks}
			options := []app.MountOption{app.MaxAttempts(3), app.DeadLetter(k.deadLetter), app.UnknownTaskDelay(time.Second)}
			v1, v2 := []string{"a", "b"}, []string{"a", "b", "c"}
			var old []crew
			for range workers {
				old = append(old, hire(t, own, k, m, r, v1, options...))
			}
			task := func(i int) string { return v2[i%len(v2)] }
			publisher := newPublisher(t, own)
			before := calls(t, own)
			publishTasks(t, publisher, k, messages/2, task)
			for i := range old {
				hire(t, own, k, m, r, v2, options...)
				old[i].stop(t)
				publishTasks(t, publisher, k, messages/2/workers, func(n int) string { return task(n + i) })
			}
			published := messages/2 + workers*(messages/2/workers)
			await(t, "all messages are handled", func(ctx context.Context) bool { return len(r.byMessage()) == published })
			awaitRest(t, own, keys{stream: k.stream, group: k.group, delaySet: m.deferred(k)})
			if n := r.count(); n != published {
				t.Errorf("%d messages in %d calls", published, n)
			}
			if n := own.Client.XLen(t.Context(), k.deadLetter).Val(); n != 0 {
				t.Errorf("%d messages were buried", n)
			}
			// An unknown message costs a copy into the set and one back, each time round.
			if n := calls(t, own) - before; n > 60*float64(published) {
				t.Errorf("%.0f commands for %d messages: the unknown ones are looked at again and again", n, published)
			}
		})
	}
}

// calls is how many commands the server has run, those of scripts included.
func calls(t testing.TB, target Target) float64 {
	total := 0.0
	for _, n := range commandCalls(t, target.Client) {
		total += n
	}
	return total
}

// unknownFlood: ten thousand messages of an unknown task are put away at once, cost nothing until they are due, and the
// known ones among them are handled as if they were not there.
func unknownFlood(t *testing.T, target Target) {
	const unknown, known = 10_000, 100
	own := target.Own(t)
	k, r := uniqueKeys(), &recorder{answer: acks}
	publisher := newPublisher(t, own)
	publishTasks(t, publisher, k, unknown+known, func(i int) string {
		if i%((unknown+known)/known) == 0 {
			return "known"
		}
		return "unknown"
	})
	began := time.Now()
	hire(t, own, k, mode{}, r, []string{"known"}, app.DeadLetter(k.deadLetter), app.UnknownTaskDelay(time.Hour), app.UnknownTaskTimeout(24*time.Hour))
	set := mode{}.deferred(k)
	await(t, "the unknown ones are put away", func(ctx context.Context) bool {
		return own.Client.ZCard(ctx, set).Val() >= unknown-1 && r.count() >= known
	})
	took := time.Since(began)
	if p := own.Client.XPending(t.Context(), k.stream, k.group).Val(); p.Count != 0 {
		t.Errorf("%d entries are pending", p.Count)
	}
	before := calls(t, own)
	publishTasks(t, publisher, k, known, func(int) string { return "known" })
	await(t, "later messages are handled", func(context.Context) bool { return r.count() >= 2*known })
	if n := calls(t, own) - before; n > 3*known+200 {
		t.Errorf("%.0f commands for %d known messages beside %d put off", n, known, unknown)
	}
	t.Logf("%d unknown and %d known messages in %s", unknown, known, took)
}

// unknownIsBuried: the time counts from the first deferral, by the server's clock, and whoever reads the message after it
// buries it.
func unknownIsBuried(t *testing.T, target Target) {
	for _, m := range modes {
		k, r := uniqueKeys(), &recorder{answer: acks}
		const timeout = 3 * time.Second
		s := hire(t, target, k, m, r, []string{"known"}, app.MaxAttempts(1), app.DeadLetter(k.deadLetter),
			app.UnknownTaskDelay(500*time.Millisecond), app.UnknownTaskTimeout(timeout))
		began, err := serverTime(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		publishTasks(t, s.service, k, 1, func(int) string { return "unknown" })
		await(t, m.name+": the message is buried", func(ctx context.Context) bool {
			return target.Client.XLen(ctx, k.deadLetter).Val() > 0
		})
		letter := mustEntries(t, target, k.deadLetter)[0]
		at, _ := strconv.ParseInt(letter.last("dlq_at"), 10, 64)
		since, _ := strconv.ParseInt(letter.header(broker.HeaderUnknownSince), 10, 64)
		if letter.last("dlq_reason") != "unknown_task" || letter.last("dlq_attempts") != "0" || letter.hasHeader(broker.HeaderRetryCount) {
			t.Errorf("%s: the dead letter: %v", m.name, letter.fields)
		}
		if since < began || at-since < timeout.Milliseconds() {
			t.Errorf("%s: unknown since %d, buried at %d, published after %d", m.name, since, at, began)
		}
		awaitRest(t, target, keys{stream: k.stream, group: k.group, delaySet: m.deferred(k)})
		s.stop(t)
		if r.count() != 0 {
			t.Errorf("%s: %d runs", m.name, r.count())
		}
	}
}

// unknownKeepsCounters: what a message has behind it is what it has behind it when somebody knows it.
func unknownKeepsCounters(t *testing.T, target Target) {
	for _, m := range modes {
		k, r := uniqueKeys(), &recorder{answer: acks}
		target := target.mortal()
		newGroup(t, target, k)
		id := add(t, target, k.stream, "x", headerPrefix+broker.HeaderTask, "late", headerPrefix+broker.HeaderRetryCount, "2",
			headerPrefix+broker.HeaderLosses, "1", "theirs", "kept")
		first := hire(t, target, k, m, r, []string{"known"}, app.UnknownTaskDelay(time.Second))
		await(t, m.name+": the message is put off", func(ctx context.Context) bool {
			return target.Client.ZCard(ctx, m.deferred(k)).Val() == 1
		})
		members := target.Client.ZRangeWithScores(t.Context(), m.deferred(k), 0, -1).Val()
		if now, _ := serverTime(t.Context(), target); float64(now) > members[0].Score+1000 || !strings.Contains(fmt.Sprint(members[0].Member), "theirs") {
			t.Errorf("%s: put off until %.0f at %d", m.name, members[0].Score, now)
		}
		first.stop(t)
		second := hire(t, target, k, m, r, []string{"known", "late"}, app.UnknownTaskDelay(time.Second))
		await(t, m.name+": the message is handled", func(context.Context) bool { return r.count() == 1 })
		second.stop(t)
		c := r.seen()[0].message
		if c.Attempt != 3 || c.Losses != 1 || c.ID != id || c.Headers.Get(broker.HeaderUnknownSince) == "" {
			t.Errorf("%s: attempt %d, losses %d, message %s of %s, headers %v", m.name, c.Attempt, c.Losses, c.ID, id, c.Headers)
		}
	}
}
