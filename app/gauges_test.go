package app_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redistest"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// gauges are the gauges of one subscription, without those of its health and its size.
func (m *measured) gauges(subscription string) map[string]float64 {
	m.t.Helper()
	all := map[string]float64{}
	for series, value := range m.series() {
		name, attributes := splitSeries(series)
		short, ours := strings.CutPrefix(name, "millrace.")
		if ours && attributes["subscription"] == subscription && isGauge[short] {
			all[short] = value
		}
	}
	return all
}

var isGauge = map[string]bool{
	"in_flight": true, "parked": true, "parked.limit": true, "lag": true, "pending": true, "length": true, "delayed": true,
	"overdue": true, "dead_letter.length": true,
}

func (m *measured) wantGauges(subscription string, want map[string]float64) {
	m.t.Helper()
	if got := m.gauges(subscription); !maps.Equal(got, want) {
		m.t.Errorf("%s: %v\nwant %v", subscription, got, want)
	}
}

func TestGaugesAreWhatTheServerHolds(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		m := newMeasured(h.T())
		s := newService(h, h.Broker(), m.option())
		end := make(chan struct{})
		answer := func(ctx context.Context, body string) outcome.HandlerOutcome {
			switch body {
			case "later":
				return outcome.RetryAfter(time.Hour)
			case "bury":
				return outcome.DeadLetter(errors.New("x"))
			}
			<-end
			return outcome.Ack()
		}
		s.mount(streamrt.Spec{Name: "durable", DelaySet: "z"}, answer, app.MaxAttempts(5), app.DeadLetter("dlq"), app.Concurrency(2), app.Prefetch(0))
		s.mount(streamrt.Spec{Name: "memory", Group: "m"}, answer, app.Concurrency(3), app.MaxParked(50), app.Prefetch(0))
		s.start()
		m.wantGauges("durable", map[string]float64{
			"in_flight": 0, "parked": 0, "lag": 0, "pending": 0, "length": 0, "delayed": 0, "overdue": 0, "dead_letter.length": 0,
		})
		m.want("millrace.concurrency", []string{"subscription"}, map[string]float64{"durable": 2, "memory": 3})
		m.want("millrace.healthy", []string{"subscription"}, map[string]float64{"durable": 1, "memory": 1})
		s.publish("later", "bury", "1", "2", "3", "4")
		s.Advance(time.Second)
		// Another consumer of the set is slow: one member is due since five seconds.
		h.Client().ZAdd(h.T().Context(), "z", redis.Z{Score: float64(time.Now().Add(-5 * time.Second).UnixMilli()), Member: "due"})
		m.wantGauges("durable", map[string]float64{
			"in_flight": 2, "parked": 0, "lag": 2, "pending": 2, "length": 6,
			"delayed": 2, "overdue": 5, "dead_letter.length": 1,
		})
		if n := h.Client().ZCard(h.T().Context(), "z").Val(); n != 2 {
			s.t.Errorf("ZCARD %d", n)
		}
		// It has no dead letter, so that what it rejects is acknowledged.
		m.wantGauges("memory", map[string]float64{
			"in_flight": 3, "parked": 1, "parked.limit": 50, "lag": 1, "pending": 4, "length": 6,
		})
		close(end)
		s.Advance(0)
		m.wantGauges("memory", map[string]float64{"in_flight": 0, "parked": 1, "parked.limit": 50, "lag": 0, "pending": 1, "length": 6})
		s.Stop()
		m.wantGauges("memory", map[string]float64{})
	})
}

func TestParkedMessagesAreCountedToTheEnd(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		m := newMeasured(h.T())
		s := newService(h, h.Broker(), m.option())
		foreign := func(ctx context.Context, _ string) outcome.HandlerOutcome {
			if app.MessageFrom(ctx).Attempt < 3 {
				return outcome.RetryAfter(time.Minute)
			}
			return outcome.Ack()
		}
		s.mount(streamrt.Spec{Name: "foreign", Foreign: true}, foreign)
		s.mount(streamrt.Spec{Name: "copies", Stream: "other", Group: "m"}, foreign)
		s.start()
		s.publish("1", "2")
		if err := s.m.Publish(s.t.Context(), broker.Stream("other"), []byte("3")); err != nil {
			s.t.Fatal(err)
		}
		for _, want := range []map[string]float64{{"foreign": 2, "copies": 1}, {"foreign": 2, "copies": 1}, {"foreign": 0, "copies": 0}} {
			s.Advance(time.Second)
			m.want("millrace.parked", []string{"subscription"}, want)
			s.Advance(time.Minute)
		}
	})
}

// Mounts that share a group by task show the group's numbers each, and their own of what they do.
func TestMountsOfOneGroupShowItsNumbersEach(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		m := newMeasured(h.T())
		s := newService(h, h.Broker(), m.option())
		end := make(chan struct{})
		wait := func(context.Context, string) outcome.HandlerOutcome { <-end; return outcome.Ack() }
		s.mount(streamrt.Spec{Name: "a", Task: "a"}, wait, app.Concurrency(5))
		s.mount(streamrt.Spec{Name: "b", Task: "b"}, wait, app.Concurrency(5))
		s.start()
		for i, task := range []string{"a", "a", "b", "unknown"} {
			err := s.m.Publish(s.t.Context(), broker.Stream("in"), []byte(fmt.Sprint(i)), broker.Header(broker.HeaderTask, task))
			if err != nil {
				s.t.Fatal(err)
			}
		}
		s.Advance(0)
		m.want("millrace.in_flight", []string{"subscription"}, map[string]float64{"a": 2, "b": 1})
		m.want("millrace.pending", []string{"subscription"}, map[string]float64{"a": 3, "b": 3})
		m.want("millrace.delayed", []string{"subscription"}, map[string]float64{"a": 1, "b": 1})
		m.want("millrace.lag", []string{"messaging.destination.name", "messaging.consumer.group.name"}, map[string]float64{"in g": 0})
		close(end)
	})
}

// slow is a broker whose numbers take their time.
type slow struct {
	broker.Broker
	takes   atomic.Int64
	asked   atomic.Int64
	refuses atomic.Bool
}

func (s *slow) Measure(ctx context.Context, sources []broker.Measurand) ([]broker.Measures, error) {
	s.asked.Add(1)
	timer := time.NewTimer(time.Duration(s.takes.Load()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	measures, err := s.Broker.Measure(ctx, sources)
	if s.refuses.Load() {
		err = errors.Join(err, errors.New("XLEN dlq: NOPERM"))
	}
	return measures, err
}

func TestACollectionDoesNotWaitForAServerThatIsAway(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		m := newMeasured(h.T())
		b := &slow{Broker: h.Broker()}
		s := newService(h, b, m.option())
		s.mount(streamrt.Spec{Name: "s"}, func(context.Context, string) outcome.HandlerOutcome { return outcome.Ack() })
		s.start()
		collect := func(took time.Duration, known bool) {
			h.T().Helper()
			began := time.Now()
			gauges := m.gauges("s")
			if d := time.Since(began); d != took {
				h.T().Errorf("it took %s, want %s", d, took)
			}
			if _, ok := gauges["lag"]; ok != known {
				h.T().Errorf("%v", gauges)
			}
			if _, ok := gauges["in_flight"]; !ok {
				h.T().Error("what the process knows itself is missing, too")
			}
		}
		b.takes.Store(int64(100 * time.Millisecond))
		collect(100*time.Millisecond, true)
		b.takes.Store(int64(time.Hour))
		collect(250*time.Millisecond, false)
		collect(50*time.Millisecond, false)
		if n := b.asked.Load(); n != 2 {
			h.T().Errorf("it was asked %d times, want twice: the second question has no answer yet", n)
		}
		time.Sleep(10 * time.Second)
		collect(50*time.Millisecond, false)
		b.takes.Store(0)
		time.Sleep(10 * time.Second)
		collect(0, true)
	})
}

func TestCollectionsAtTheSameTimeAskOnce(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		one, two := newMeasured(h.T()), newMeasured(h.T())
		provider := sdk.NewMeterProvider(sdk.WithReader(one.reader), sdk.WithReader(two.reader))
		b := &slow{Broker: h.Broker()}
		s := newService(h, b, app.MeterProvider(provider))
		s.mount(streamrt.Spec{Name: "s", Group: "g"}, func(context.Context, string) outcome.HandlerOutcome { return outcome.Ack() })
		s.mount(streamrt.Spec{Name: "t", Group: "h"}, func(context.Context, string) outcome.HandlerOutcome { return outcome.Ack() })
		s.start()
		if n := b.asked.Load(); n != 0 {
			h.T().Errorf("the server was asked %d times, and nobody collects", n)
		}
		b.takes.Store(int64(100 * time.Millisecond))
		done := make(chan int)
		for _, m := range []*measured{one, two} {
			go func() { done <- len(m.gauges("s")) + len(m.gauges("t")) }()
		}
		if a, b := <-done, <-done; a == 0 || a != b {
			h.T().Errorf("one saw %d gauges, the other %d", a, b)
		}
		if n := b.asked.Load(); n != 2 {
			h.T().Errorf("four collections of two readers side by side asked %d times", n)
		}
	})
}

func TestRefusedNumbersAreLoggedOnce(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		m := newMeasured(h.T())
		b := &slow{Broker: h.Broker()}
		b.refuses.Store(true)
		s := newService(h, b, m.option())
		s.mount(streamrt.Spec{Name: "s"}, func(context.Context, string) outcome.HandlerOutcome { return outcome.Ack() })
		s.start()
		for range 5 {
			m.gauges("s")
		}
		b.refuses.Store(false)
		m.gauges("s")
		s.Advance(0)
		for _, line := range []string{"refuses numbers", "gives all numbers"} {
			if n := strings.Count(s.log.String(), line); n != 1 {
				h.T().Errorf("%q stands %d times in the log", line, n)
			}
		}
	})
}

// A reader of the whole test binary collects on the real clock, and must not touch what belongs to a paused one.
func TestWhatIsPausedIsNotMeasuredFromOutside(t *testing.T) {
	m := newMeasured(t)
	ask, answer := make(chan struct{}), make(chan map[string]float64)
	go func() {
		<-ask
		answer <- m.gauges("s")
	}()
	apptest.Paused(t, func(h *apptest.H) {
		s := newService(h, h.Broker(), m.option())
		s.mount(streamrt.Spec{Name: "s"}, func(context.Context, string) outcome.HandlerOutcome { return outcome.Ack() })
		s.start()
		if got := m.gauges("s"); len(got) == 0 {
			h.T().Error("nothing is measured inside")
		}
		close(ask)
		if got := <-answer; len(got) != 0 {
			h.T().Errorf("outside: %v", got)
		}
	})
}

// XINFO GROUPS has no lag after a deletion ahead of the group, and 0 would say that all is done.
func TestAnUnknownLagHasNoValueOnRealServers(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		apptest.Live(t, server.URL(), func(h *apptest.H) {
			ctx, m := h.T().Context(), newMeasured(h.T())
			s := newService(h, h.Broker(), m.option())
			end := make(chan struct{})
			s.mount(streamrt.Spec{Name: "s"}, func(context.Context, string) outcome.HandlerOutcome { <-end; return outcome.Ack() },
				app.Concurrency(2), app.Prefetch(0), app.DeadLetter("dlq"))
			s.start()
			s.publish("1", "2", "3", "4")
			h.Eventually("two are in hand", func(context.Context) bool { return m.gauges("s")["pending"] == 2 })
			if lag := m.gauges("s")["lag"]; lag != 2 {
				h.T().Errorf("the lag is %v", lag)
			}
			h.Client().XDel(ctx, "in", s.entries("in")[2].ID)
			got := m.gauges("s")
			if lag, known := got["lag"]; known && lag != 1 {
				h.T().Errorf("the lag is %v, want 1 or none", lag)
			}
			if got["pending"] != 2 || got["length"] != 3 || got["in_flight"] != 2 || got["dead_letter.length"] != 0 {
				h.T().Errorf("%v", got)
			}
			close(end)
			h.Eventually("the group has caught up", func(context.Context) bool {
				got := m.gauges("s")
				lag, known := got["lag"]
				return known && lag == 0 && got["pending"] == 0
			})
		})
	})
}

// A server that stands still answers nothing, and then everything again.
func TestGaugesOfARealServerThatStandsStill(t *testing.T) {
	server := redistest.Start(t).Own(t) // CLIENT PAUSE holds everybody up
	apptest.Live(t, server.URL(), func(h *apptest.H) {
		m := newMeasured(h.T())
		s := newService(h, h.Broker(), m.option())
		s.mount(streamrt.Spec{Name: "s"}, func(context.Context, string) outcome.HandlerOutcome { return outcome.Ack() })
		s.start()
		h.Eventually("the lag is known", func(context.Context) bool { _, known := m.gauges("s")["lag"]; return known })
		if err := h.Client().Do(h.T().Context(), "CLIENT", "PAUSE", 1500, "ALL").Err(); err != nil {
			h.T().Fatal(err)
		}
		began := time.Now()
		got := m.gauges("s")
		if took := time.Since(began); took > time.Second {
			h.T().Errorf("the collection took %s", took)
		}
		if _, known := got["lag"]; known || len(got) == 0 {
			h.T().Errorf("%v", got)
		}
		h.Eventually("the lag is known again", func(context.Context) bool { _, known := m.gauges("s")["lag"]; return known })
	})
}
