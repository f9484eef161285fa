//go:build unix

package chaos

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// A request whose reply is lost was carried out, and is sent again by us: it has no second effect, and the handler is not
// called for it.
func TestALostReplyDoublesNothing(t *testing.T) {
	raced(t)
	const key = "the-only-message"
	retry := []step{{Do: endRetry}, {Do: endAck}}
	delay := []step{{Do: endRetryAfter, After: 300 * time.Millisecond}, {Do: endAck}}
	const signature = "by call 1/1"
	for _, c := range []struct {
		name string
		// text tells the request whose reply is lost, after skip others with the same text.
		text string
		skip int
		set  bool
		// claim is the claim time of the subscription.
		claim time.Duration
		steps []step
		// calls, copies and letters are what there is in the end, the message as it was published included; delayed are those
		// that still wait.
		calls, copies, letters, delayed int
	}{
		{name: "read", text: "XREADGROUP", steps: []step{{Do: endAck}}, calls: 1, copies: 1},
		{name: "ack", text: "XACK", steps: []step{{Do: endAck}}, calls: 1, copies: 1},
		{name: "retry", text: signature, steps: retry, calls: 2, copies: 2},
		{name: "delay into the set", text: signature, set: true, steps: delay, calls: 2, copies: 2},
		{name: "long delay into the set", text: signature, set: true, steps: []step{{Do: endRetryAfter, After: time.Hour}}, calls: 1, copies: 1, delayed: 1},
		{name: "move out of the set", text: signature, skip: 1, set: true, steps: delay, calls: 2, copies: 2},
		// 1,000 is the delivery count of an entry that failed once and waits in memory.
		{name: "delay in memory", text: "\r\n1000\r\n", steps: delay, calls: 2, copies: 2},
		{name: "copy after a delay in memory", text: signature, steps: delay, calls: 2, copies: 2},
		{name: "burial", text: signature, steps: []step{{Do: endFail}}, calls: 2, copies: 2, letters: 1, skip: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			m := mount{Stream: "replies", Group: "g", DeadLetter: "replies.dlq", MaxAttempts: 2, Backoff: 50 * time.Millisecond, Block: time.Minute}
			if c.set {
				m.DelaySet = "replies.delayed"
			}
			p := newProxy(t, server.URL())
			s := newScene(t, server.Client(), order{
				URL: p.url(server.URL()), Liveness: ttl, Grace: time.Second, Mounts: []mount{m},
			})
			s.keep(1)
			w := s.alive()[0]
			await(t, patience, "the worker reads", func() bool { return s.ready(w) })
			sprung := p.cut(c.text, c.skip)
			if c.text == "XREADGROUP" {
				// The read that runs was begun before the trap was set; it ends with this.
				s.publish(m.Stream, job{Key: "before", Steps: []step{{Do: endAck}}})
				s.awaitCall(patience, "before", 1)
			}
			s.publish(m.Stream, job{Key: key, Steps: c.steps})
			select {
			case <-sprung:
			case <-time.After(patience):
				t.Fatal("no reply was cut off")
			}
			s.awaitCall(patience, key, c.calls)
			await(t, patience, "nothing is left to do", func() bool {
				l, err := readLedger(t.Context(), s.client, m)
				return err == nil && l.pending == 0 && l.delayed == int64(c.delayed)
			})
			s.stop()
			calls := s.callsOfKey(key)
			if len(calls) != c.calls {
				t.Errorf("%d calls, want %d: %v", len(calls), c.calls, calls)
			}
			for i, call := range calls {
				if call.attempt != i+1 || call.losses != 0 {
					t.Errorf("call %d: %v", i+1, call)
				}
			}
			l, err := readLedger(t.Context(), s.client, m)
			if err != nil {
				t.Fatal(err)
			}
			entries := 0
			for _, authors := range l.copies[key] {
				entries += len(authors)
			}
			if entries != c.copies || len(l.letters[key]) != c.letters || l.delayed != int64(c.delayed) || l.pending != 0 {
				t.Errorf("%d entries, %d dead letters, %d delayed, %d pending; want %d, %d, %d, 0",
					entries, len(l.letters[key]), l.delayed, l.pending, c.copies, c.letters, c.delayed)
			}
			if n := len(s.all()); n != 1 {
				t.Errorf("the worker ended and was started again, %d times", n-1)
			}
		})
	}
}

// What is published is sent once: after a lost reply there is an error, and one entry at most.
func TestALostReplyOfAPublishIsAnError(t *testing.T) {
	chaotic(t)
	server := redistest.Start(t)
	p := newProxy(t, server.URL())
	publisher := app.New("chaos", "test").Broker(redisbroker.Standalone(p.url(server.URL())))
	t.Cleanup(func() {
		if err := publisher.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for i := range 10 {
		stream := fmt.Sprint("published-", i)
		sprung := p.cut("XADD", 0)
		err := publisher.Publish(t.Context(), broker.Stream(stream), "a message")
		<-sprung
		if n := server.Client().XLen(t.Context(), stream).Val(); err == nil || n != 1 {
			t.Errorf("the error is %v and there are %d entries, want an error and one entry", err, n)
		}
	}
}
