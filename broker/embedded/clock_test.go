package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// A process whose clock is a minute fast or slow keeps delays as any other does: when a message is due is written and
// read by the server's clock. It is the server's clock that is wrong here, which is the same seen from the other side.
func TestDelaysAreTheServersWhateverTheProcessThinksTheTimeIs(t *testing.T) {
	for _, c := range []struct {
		name string
		// ahead is how much the server's clock is ahead of the process's.
		ahead time.Duration
	}{
		{"the process is a minute slow", time.Minute},
		{"the process is a minute fast", -time.Minute},
		{"both are right", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, kept := range []struct {
				name string
				spec streamrt.Spec
			}{
				{"in a set", streamrt.Spec{DelaySet: "in.delayed"}},
				{"in memory", streamrt.Spec{}},
				{"by claiming", streamrt.Spec{Claim: 5 * time.Second}},
				{"by claiming, in a set", streamrt.Spec{Claim: 5 * time.Second, DelaySet: "in.delayed"}},
			} {
				t.Run(kept.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { keepDelay(t, c.ahead, kept.spec) })
				})
			}
		})
	}
}

// asked is the delay.
const asked = 30 * time.Second

func keepDelay(t *testing.T, ahead time.Duration, spec streamrt.Spec) {
	spec.Name, spec.Stream, spec.Group = "t.h", "in", "g"
	if spec.Claim > 0 && spec.DelaySet == "" {
		spec.Claim = asked // a claiming subscription without a set keeps each delay for as long
	}
	server := NewServer()
	defer server.Close()
	stop := server.run(ahead)
	defer stop()
	client := server.Client()
	defer client.Close()

	a := app.New("clock", "test", app.Logger(slog.New(slog.DiscardHandler)))
	m := a.Broker(server.Broker())
	var mu sync.Mutex
	var runs []time.Time
	m.Mount(streamrt.Subscribe(spec, streamrt.Raw, func(ctx context.Context, _ []byte) outcome.HandlerOutcome {
		mu.Lock()
		defer mu.Unlock()
		runs = append(runs, time.Now())
		if app.MessageFrom(ctx).Attempt == 1 {
			return outcome.RetryAfter(asked)
		}
		return outcome.Ack()
	}), app.MaxAttempts(5), app.MaxDeliveries(5), app.DeadLetter("dlq"))
	seen := func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return append([]time.Time(nil), runs...)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	if err := m.Publish(t.Context(), broker.Stream("in"), []byte("x")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
	if len(seen()) != 1 {
		t.Fatalf("%d runs after ten seconds, want one", len(seen()))
	}
	if spec.DelaySet != "" {
		members, err := client.ZRangeWithScores(t.Context(), spec.DelaySet, 0, -1).Result()
		if err != nil || len(members) != 1 {
			t.Fatalf("the set holds %d members, %v", len(members), err)
		}
		due := time.UnixMilli(int64(members[0].Score))
		if late := due.Sub(seen()[0].Add(ahead + asked)); late < 0 || late > 250*time.Millisecond {
			t.Errorf("the member is due %s later than asked by the server's clock", late)
		}
	}
	time.Sleep(2 * asked)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	all := seen()
	if len(all) != 2 {
		t.Fatalf("%d runs, want two", len(all))
	}
	most := 1100 * time.Millisecond
	if gap := all[1].Sub(all[0]); gap < asked || gap > asked+most {
		t.Errorf("the message came again after %s, want %s", gap, asked)
	}
	if n := client.XLen(t.Context(), "dlq").Val(); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// run makes the server's clock run, ahead of that of the process, until the function that it returns is called.
func (s *Server) run(ahead time.Duration) (stop func()) {
	set := func() { s.redis.SetTime(time.Now().Add(ahead).UTC()) }
	set()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				set()
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// A dead letter says by the server's clock when it was buried, failed and malformed alike.
func TestDeadLettersHaveTheServersTime(t *testing.T) {
	const ahead = time.Hour
	synctest.Test(t, func(t *testing.T) {
		server := NewServer()
		defer server.Close()
		stop := server.run(ahead)
		defer stop()
		client := server.Client()
		defer client.Close()
		a := app.New("clock", "test", app.Logger(slog.New(slog.DiscardHandler)))
		m := a.Broker(server.Broker())
		m.Mount(streamrt.Subscribe(
			streamrt.Spec{Name: "t.h", Stream: "in", Group: "g", DelaySet: "in.delayed"}, streamrt.JSON,
			func(context.Context, int) outcome.HandlerOutcome { return outcome.Retry() },
		), app.DeadLetter("dlq"))
		began := time.Now().Add(ahead).UnixMilli()
		for _, body := range []string{"1", "not a number"} {
			if err := m.Publish(t.Context(), broker.Stream("in"), body); err != nil {
				t.Fatal(err)
			}
		}
		// What waits in the delay set and cannot be decoded is buried by the mover.
		if err := client.ZAdd(t.Context(), "in.delayed", redis.Z{Score: 1, Member: "rubbish"}).Err(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		time.Sleep(10 * time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		letters, err := client.XRange(t.Context(), "dlq", "-", "+").Result()
		if err != nil || len(letters) != 3 {
			t.Fatalf("%d dead letters, want 3 (%v)", len(letters), err)
		}
		for _, l := range letters {
			var at int64
			if _, err := fmt.Sscan(fmt.Sprint(l.Values[broker.FieldAt]), &at); err != nil || at < began || at > began+11_000 {
				t.Errorf("%s of %v: %v, want the server's time from %d on", l.Values[broker.FieldReason], l.Values["_payload"], l.Values[broker.FieldAt], began)
			}
		}
	})
}
