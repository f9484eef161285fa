package app_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// taskLog notes which handler got which message.
type taskLog struct {
	mu    sync.Mutex
	calls map[string][]string // task → bodies
	most  map[string]int      // task → most handlers at a time
	now   map[string]int
}

func newTaskLog() *taskLog {
	return &taskLog{calls: map[string][]string{}, most: map[string]int{}, now: map[string]int{}}
}

func (l *taskLog) begin(task, body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[task] = append(l.calls[task], body)
	l.now[task]++
	l.most[task] = max(l.most[task], l.now[task])
}

func (l *taskLog) end(task string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now[task]--
}

func (l *taskLog) count(task string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls[task])
}

// task is a subscription to one task of the stream jobs and the group workers.
func (l *taskLog) task(name string, takes time.Duration) streamrt.Subscription {
	spec := streamrt.Spec{Name: "t." + name, Stream: "jobs", Group: "workers", Task: name}
	return streamrt.Subscribe(spec, streamrt.Raw, func(_ context.Context, body []byte) outcome.HandlerOutcome {
		l.begin(name, string(body))
		defer l.end(name)
		time.Sleep(takes)
		return outcome.Ack()
	})
}

func publishTask(t *testing.T, m *app.Mounts, task, body string) {
	t.Helper()
	if err := m.Publish(context.Background(), broker.Stream("jobs"), []byte(body), broker.Header(broker.HeaderTask, task)); err != nil {
		t.Fatal(err)
	}
}

func TestTasksAreRoutedByName(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		log := newTaskLog()
		a := app.New("t", "1")
		m := a.Broker(h.Broker())
		m.Mount(log.task("a", 0))
		m.Mount(log.task("b", 0))
		h.Start(a)
		for i := range 20 {
			publishTask(h.T(), m, string(rune('a'+i%2)), strconv.Itoa(i))
		}
		h.Eventually("all are handled", func(context.Context) bool { return log.count("a") == 10 && log.count("b") == 10 })
		for i, body := range log.calls["a"] {
			if n, _ := strconv.Atoi(body); n%2 != 0 {
				h.T().Errorf("call %d of a got %s", i, body)
			}
		}
		consumers, err := h.Client().XInfoConsumers(context.Background(), "jobs", "workers").Result()
		if err != nil || len(consumers) != 1 {
			h.T().Errorf("the mounts of one group read as %d consumers (%v), want one", len(consumers), err)
		}
	})
}

func TestATaskKeepsToItsConcurrency(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		log := newTaskLog()
		a := app.New("t", "1")
		m := a.Broker(h.Broker())
		m.Mount(log.task("slow", 10*time.Second), app.Concurrency(2))
		m.Mount(log.task("quick", 0), app.Concurrency(1))
		h.Start(a)
		for i := range 6 {
			publishTask(h.T(), m, "slow", strconv.Itoa(i))
		}
		for i := range 20 {
			publishTask(h.T(), m, "quick", strconv.Itoa(i))
		}
		h.Advance(time.Second)
		if n := log.count("quick"); n != 20 {
			h.T().Errorf("%d of 20 quick tasks were handled while the slow ones ran", n)
		}
		h.Advance(40 * time.Second)
		if log.count("slow") != 6 || log.most["slow"] != 2 || log.most["quick"] != 1 {
			h.T().Errorf("%d slow ones, at a time %v", log.count("slow"), log.most)
		}
		pending, err := h.Client().XPending(context.Background(), "jobs", "workers").Result()
		if err != nil || pending.Count != 0 {
			h.T().Errorf("pending: %v, %v", pending, err)
		}
	})
}

func TestAnUnknownTaskIsPutOffUntilSomebodyKnowsIt(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		ctx, log := context.Background(), newTaskLog()
		a := app.New("t", "1")
		m := a.Broker(h.Broker())
		m.Mount(log.task("a", 0), app.DeadLetter("jobs.dlq"), app.UnknownTaskTimeout(time.Hour))
		m.Mount(log.task("b", 0))
		h.Start(a)
		publishTask(h.T(), m, "c", "new")
		if err := m.Publish(ctx, broker.Stream("jobs"), []byte("nameless")); err != nil {
			h.T().Fatal(err)
		}
		publishTask(h.T(), m, "a", "old")
		h.Advance(29 * time.Second)
		if n := h.Client().ZCard(ctx, "{jobs}:deferred").Val(); n != 2 || log.count("a") != 1 {
			h.T().Fatalf("%d messages are put off and %d handled, want 2 and 1", n, log.count("a"))
		}
		if p := h.Client().XPending(ctx, "jobs", "workers").Val(); p.Count != 0 {
			h.T().Errorf("%d entries are pending", p.Count)
		}
		h.Advance(30 * time.Minute)
		if n := h.Client().XLen(ctx, "jobs.dlq").Val(); n != 0 {
			h.T().Errorf("%d messages were buried before the time was over", n)
		}
		// A process that knows the task comes up beside the old one.
		newer := app.New("t", "2")
		nm := newer.Broker(h.Broker())
		for _, task := range []string{"a", "b", "c"} {
			nm.Mount(log.task(task, 0), app.DeadLetter("jobs.dlq"), app.UnknownTaskTimeout(time.Hour))
		}
		h.Start(newer)
		h.Advance(29 * time.Minute)
		if log.count("c") != 1 {
			h.T().Errorf("the new process got the message %d times", log.count("c"))
		}
		h.Advance(10 * time.Minute)
		letters := h.Client().XRange(ctx, "jobs.dlq", "-", "+").Val()
		if len(letters) != 1 {
			h.T().Fatalf("%d dead letters, want the nameless one", len(letters))
		}
		v := letters[0].Values
		if v["dlq_reason"] != "unknown_task" || v["_payload"] != "nameless" || v["dlq_attempts"] != "0" || v["h:retry-count"] != nil {
			h.T().Errorf("the dead letter: %v", v)
		}
	})
}

func TestATaskWithOneHandlerKeepsTheOrder(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		log := newTaskLog()
		a := app.New("t", "1")
		m := a.Broker(h.Broker())
		m.Mount(log.task("a", 10*time.Millisecond), app.Concurrency(1))
		m.Mount(log.task("b", 0))
		h.Start(a)
		for i := range 200 {
			publishTask(h.T(), m, "a", strconv.Itoa(i))
		}
		h.Advance(10 * time.Second)
		for i, body := range log.calls["a"] {
			if body != strconv.Itoa(i) {
				h.T().Fatalf("run %d was message %s", i, body)
			}
		}
		if log.count("a") != 200 {
			h.T().Errorf("%d of 200 were run", log.count("a"))
		}
	})
}

// A task that is slow has the others wait neither for what is new nor for what comes back.
func TestASlowTaskDoesNotHoldUpTheOthers(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		ctx, log := context.Background(), newTaskLog()
		a := app.New("t", "1")
		m := a.Broker(h.Broker())
		claims := func(s streamrt.Subscription) streamrt.Spec {
			spec := s.Spec()
			spec.Claim = time.Second
			return spec
		}
		m.Mount(streamrt.Subscribe(claims(log.task("slow", 0)), streamrt.Raw, func(ctx context.Context, _ []byte) outcome.HandlerOutcome {
			log.begin("slow", "")
			defer log.end("slow")
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
			return outcome.Of(ctx.Err())
		}), app.Concurrency(1))
		m.Mount(streamrt.Subscribe(claims(log.task("b", 0)), streamrt.Raw, func(ctx context.Context, body []byte) outcome.HandlerOutcome {
			log.begin("b", string(body))
			defer log.end("b")
			if app.MessageFrom(ctx).Attempt == 1 {
				return outcome.Retry()
			}
			return outcome.Ack()
		}))
		h.Start(a)
		for range 300 {
			publishTask(h.T(), m, "slow", "x")
		}
		h.Advance(time.Second)
		publishTask(h.T(), m, "b", "y")
		h.Advance(5 * time.Second)
		if log.count("b") != 2 {
			h.T().Errorf("a message of the other task was run %d times within five seconds, want 2", log.count("b"))
		}
		if n := h.Client().XPending(ctx, "jobs", "workers").Val().Count; n != 300 || log.count("slow") != 1 {
			h.T().Errorf("%d entries pending, %d slow ones were run", n, log.count("slow"))
		}
	})
}

// What an owner has been charged with before is charged with no other one while it waits for a slot of its task.
func TestWaitingForASlotOfTheTaskIsNoLoss(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		ctx, log := context.Background(), newTaskLog()
		a := app.New("t", "1")
		m := a.Broker(h.Broker())
		m.Mount(log.task("a", time.Minute), app.Concurrency(1), app.MaxDeliveries(3), app.DeadLetter("jobs.dlq"))
		m.Mount(log.task("b", 0), app.MaxDeliveries(3), app.DeadLetter("jobs.dlq"))
		if err := h.Client().XGroupCreateMkStream(ctx, "jobs", "workers", "0").Err(); err != nil {
			h.T().Fatal(err)
		}
		// A process has died with two messages in hand, of which at most one was running.
		publishTask(h.T(), m, "a", "first")
		publishTask(h.T(), m, "a", "second")
		left := h.Client().XReadGroup(ctx, &redis.XReadGroupArgs{Group: "workers", Consumer: "dead", Streams: []string{"jobs", ">"}, Count: 2}).Val()[0].Messages
		for _, e := range left {
			if err := h.Client().Do(ctx, "XCLAIM", "jobs", "workers", "dead", 0, e.ID, "IDLE", 3600_000, "RETRYCOUNT", 2, "JUSTID").Err(); err != nil {
				h.T().Fatal(err)
			}
		}
		publishTask(h.T(), m, "a", "new")
		h.Start(a)
		h.Advance(50 * time.Second)
		counts := map[string]int64{}
		for _, p := range h.Client().XPendingExt(ctx, &redis.XPendingExtArgs{Stream: "jobs", Group: "workers", Start: "-", End: "+", Count: 10}).Val() {
			counts[p.ID] = p.RetryCount
		}
		if log.count("a") != 1 || counts[left[0].ID] != 2 || counts[left[1].ID] != 2 {
			h.T().Errorf("%d runs; delivery counts %v, want 2 for those that were left and wait", log.count("a"), counts)
		}
		h.Advance(5 * time.Minute)
		if log.count("a") != 3 || h.Client().XLen(ctx, "jobs.dlq").Val() != 0 {
			h.T().Errorf("runs %v, %d dead letters", log.calls["a"], h.Client().XLen(ctx, "jobs.dlq").Val())
		}
		if n := h.Client().XPending(ctx, "jobs", "workers").Val().Count; n != 0 {
			h.T().Errorf("%d entries are pending", n)
		}
	})
}
