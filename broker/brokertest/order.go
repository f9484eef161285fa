package brokertest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
)

// Order shows that one handler at a time is given the stream's order, restarts included, and that messages which fail
// again and again keep nothing up (contract §7, §10). It needs nothing but streams.
func Order(t *testing.T, target Target) { orderArea.run(t, target) }

var orderArea = area{name: "Order", bodies: []body{
	{name: "OneHandlerKeepsTheOrder", run: orderKept},
	{name: "PoisonHoldsNothingUp", run: poisonHoldsNothingUp},
}}

// orderKept: with one handler at a time the calls are in the stream's order, also across restarts. What a stopping
// process had in hand comes before what is new.
func orderKept(t *testing.T, target Target) {
	target = target.mortal()
	const messages, restarts = 1000, 5
	k, r := uniqueKeys(), &recorder{answer: acks}
	deploy := func() *service {
		svc := newService(target)
		svc.mount(mode{}.spec(k), r, app.Concurrency(1))
		svc.start(t)
		return svc
	}
	svc := deploy()
	for i := range messages {
		svc.publish(t, k.stream, fmt.Append(nil, i))
		if i%(messages/(restarts+1)) == messages/(restarts+1)-1 {
			svc.stop(t)
			svc = deploy()
		}
	}
	awaitRest(t, target, k)
	svc.stop(t)
	calls := r.seen()
	if len(calls) != messages {
		t.Errorf("%d calls, want %d", len(calls), messages)
	}
	for i, c := range calls {
		if c.payload != fmt.Sprint(i) {
			t.Fatalf("call %d was message %s", i, c.payload)
		}
	}
}

// poisonHoldsNothingUp: messages that fail again and again keep nothing up.
func poisonHoldsNothingUp(t *testing.T, target Target) {
	target = target.mortal()
	const poison, good = 20, 200
	for _, m := range modes {
		k, r := uniqueKeys(), &recorder{}
		var stop atomic.Bool
		r.answer = func(_ context.Context, _ int, c call) outcome.HandlerOutcome {
			if c.payload == "poison" && !stop.Load() {
				return outcome.Retry()
			}
			return outcome.Ack()
		}
		svc := newService(target)
		svc.mount(m.spec(k), r, app.Concurrency(2), app.Backoff(app.Exponential{Initial: 50 * time.Millisecond, Max: 50 * time.Millisecond}))
		svc.start(t)
		for range poison {
			svc.publish(t, k.stream, []byte("poison"))
		}
		await(t, m.name+": poison is retried", func(context.Context) bool { return r.count() > poison })
		began := time.Now()
		for i := range good {
			svc.publish(t, k.stream, fmt.Append(nil, i))
		}
		await(t, m.name+": every good message is handled", func(context.Context) bool {
			return len(r.bodies()) == good+1
		})
		if took := time.Since(began); took > 10*time.Second && !underRace {
			t.Errorf("%s: the good messages took %s", m.name, took)
		}
		stop.Store(true)
		awaitRest(t, target, k)
		svc.stop(t)
	}
}
