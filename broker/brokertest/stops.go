package brokertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/outcome"
)

// Stops shows that a deployment is no event in a message's life, that a stop waits for no read, and that a handler which
// ignores it is named (contract §10). It needs nothing but streams.
func Stops(t *testing.T, target Target) { stopsArea.run(t, target) }

var stopsArea = area{name: "Stops", bodies: []body{
	{name: "SixDeploymentsCountForNothing", run: sixDeployments},
	{name: "AStopEndsALongRead", run: stopEndsRead},
	{name: "AHandlerThatIgnoresTheStopIsNamed", run: stubbornHandler},
}}

// sixDeployments: a deployment is no event in a message's life. After six stops during its long handler it is at its
// first attempt and has lost no owner, and each time the next process had it soon.
func sixDeployments(t *testing.T, target Target) {
	target = target.mortal()
	const stops = 6
	type one struct {
		mode
		keys
		r *recorder
	}
	var all []one
	for _, m := range ownRecords {
		c := one{m, uniqueKeys(), &recorder{}}
		c.r.answer = func(ctx context.Context, n int, _ call) outcome.HandlerOutcome {
			if n > stops {
				return outcome.Ack()
			}
			<-ctx.Done()
			return outcome.Of(context.Cause(ctx))
		}
		all = append(all, c)
	}
	deploy := func() *service {
		svc := newService(target, app.Grace(50*time.Millisecond))
		for _, c := range all {
			svc.mount(c.spec(c.keys), c.r, app.MaxAttempts(2), app.MaxDeliveries(3), app.DeadLetter(c.deadLetter))
		}
		svc.start(t)
		return svc
	}
	running := deploy()
	for _, c := range all {
		running.publish(t, c.stream, payload)
	}
	for i := range stops {
		for _, c := range all {
			await(t, fmt.Sprintf("%s: run %d", c.name, i+1), func(context.Context) bool { return c.r.count() == i+1 })
		}
		// The next one is there before the old one goes.
		next := deploy()
		running.stop(t)
		running = next
	}
	for _, c := range all {
		awaitRest(t, target, c.keys)
	}
	running.stop(t)
	for _, c := range all {
		calls := c.r.seen()
		for i, run := range calls {
			if run.message.Attempt != 1 || run.message.Losses != 0 {
				t.Errorf("%s: run %d came with attempt %d and losses %d", c.name, i+1, run.message.Attempt, run.message.Losses)
			}
			if i > 0 && !underRace {
				if late := run.began.Sub(calls[i-1].ended); late > 2500*time.Millisecond {
					t.Errorf("%s: run %d began %s after the stop", c.name, i+1, late)
				}
			}
		}
		if len(calls) != stops+1 {
			t.Errorf("%s: %d runs, want %d", c.name, len(calls), stops+1)
		}
	}
}

// stopEndsRead: a read that would block for a minute does not hold a stop.
func stopEndsRead(t *testing.T, target Target) {
	target = target.mortal()
	for _, m := range ownRecords {
		k := uniqueKeys()
		spec := m.spec(k)
		spec.Block = time.Minute
		svc := newService(target)
		svc.mount(spec, &recorder{answer: acks})
		svc.start(t)
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		svc.stop(t)
		if took := time.Since(began); took > time.Second && !underRace {
			t.Errorf("%s: the stop took %s", m.name, took)
		}
	}
}

// stubbornHandler: handlers that ignore their context do not hold the process, nor do their entries stay with it. They
// are handed back, and Run says which. What else was in hand is handed back as ever.
func stubbornHandler(t *testing.T, target Target) {
	target = target.mortal()
	k, release := uniqueKeys(), make(chan struct{})
	defer close(release)
	const grace = 300 * time.Millisecond
	stubborn := &recorder{answer: func(context.Context, int, call) outcome.HandlerOutcome {
		<-release
		return outcome.Ack()
	}}
	svc := newService(target, app.Grace(grace))
	svc.mount(mode{}.spec(k), stubborn, app.Concurrency(2), app.Prefetch(2))
	svc.start(t)
	for i := range 4 {
		svc.publish(t, k.stream, fmt.Append(nil, i))
	}
	await(t, "both handlers run and two messages wait", func(ctx context.Context) bool {
		p, err := pending(ctx, target, k)
		return err == nil && len(p) == 4 && stubborn.count() == 2
	})
	began := time.Now()
	svc.cancel()
	svc.cancel = nil
	err := <-svc.done
	if took := time.Since(began); took > grace+time.Second && !underRace {
		t.Errorf("the stop took %s", took)
	}
	if err == nil || !strings.Contains(err.Error(), k.stream) || !strings.Contains(err.Error(), stubborn.seen()[0].message.EntryID) {
		t.Errorf("Run returned %v", err)
	}
	peer := &recorder{answer: acks}
	next := newService(target)
	next.mount(mode{}.spec(k), peer)
	next.start(t)
	awaitRest(t, target, k)
	next.stop(t)
	if peer.count() != 4 {
		t.Errorf("the next process was given %d of 4", peer.count())
	}
	for _, c := range peer.seen() {
		if c.message.Attempt != 1 || c.message.Losses != 0 {
			t.Errorf("message %s came with attempt %d and losses %d", c.payload, c.message.Attempt, c.message.Losses)
		}
	}
}
