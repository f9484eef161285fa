package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/examples/internal/stage"
	"github.com/millrace-go/millrace/examples/jobs/images"
	"github.com/millrace-go/millrace/examples/jobs/mail"
	"github.com/millrace-go/millrace/outcome"
)

var quiet = app.Logger(slog.New(slog.DiscardHandler))

// office notes what the workers did, under the version that did it.
type office struct {
	mu   sync.Mutex
	done []string
}

func (o *office) sender(version string) *mail.Sender {
	return &mail.Sender{Send: func(ctx context.Context, to, _ string) error {
		o.note(ctx, version, to)
		return nil
	}}
}

func (o *office) lab(version string) *images.Lab {
	return &images.Lab{Shrink: func(ctx context.Context, p images.Picture) error {
		o.note(ctx, version, p.Name)
		return nil
	}}
}

func (o *office) note(ctx context.Context, version, what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := app.MessageFrom(ctx)
	o.done = append(o.done, fmt.Sprintf("%s: %s of %s, attempt %d, losses %d", version, m.Headers.Get(broker.HeaderTask), what, m.Attempt, m.Losses))
}

func (o *office) sorted() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(slices.Values(o.done))
}

func TestAPictureWithoutRoomIsTriedAgain(t *testing.T) {
	lab := &images.Lab{Shrink: func(context.Context, images.Picture) error { return images.ErrNoMemory }}
	got := images.Shrink(t.Context(), app.State[*images.Lab]{Value: lab}, images.Picture{})
	if got != outcome.RetryAfter(time.Second).WithError(images.ErrNoMemory) {
		t.Errorf("got %v", got)
	}
}

// cut:deploy

// Two processes of version 1 are replaced by two of version 2, one after the other, while jobs of all three tasks come in.
func TestARollingDeployLosesNothingAndBuriesNothing(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		ctx, o := h.T().Context(), new(office)
		start := func(a *app.App, m *app.Mounts) (*stage.Running, *app.Mounts) {
			r, err := stage.Start(ctx, a)
			if err != nil {
				h.T().Fatal(err)
			}
			return r, m
		}
		old1, m := start(Version1(h.Broker(), o.sender("v1"), o.lab("v1"), quiet))
		old2, _ := start(Version1(h.Broker(), o.sender("v1"), o.lab("v1"), quiet))
		publish(h, m, "before")
		h.Advance(time.Second)
		want(h, state{deferred: 3})
		if done := o.sorted(); len(done) != 6 {
			h.T().Errorf("version 1 did %q", done)
		}

		new1, m := start(Version2(h.Broker(), o.sender("v2"), o.lab("v2"), quiet))
		stop(h, old1)
		publish(h, m, "between")
		h.Advance(time.Minute)
		new2, _ := start(Version2(h.Broker(), o.sender("v2"), o.lab("v2"), quiet))
		stop(h, old2)
		publish(h, m, "after")
		h.Advance(5 * time.Minute)

		want(h, state{})
		var invoices []string
		for _, line := range o.sorted() {
			if strings.Contains(line, "send_invoice") {
				invoices = append(invoices, line)
			}
		}
		var expected []string
		for _, when := range []string{"after", "before", "between"} {
			for i := range 3 {
				expected = append(expected, fmt.Sprintf("v2: send_invoice of %s %d, attempt 1, losses 0", when, i))
			}
		}
		if !slices.Equal(invoices, expected) {
			h.T().Errorf("invoices: %q", invoices)
		}
		if n := len(o.sorted()); n != 27 {
			h.T().Errorf("%d jobs were done, want each of the 27 once", n)
		}
		stop(h, new1)
		stop(h, new2)
	})
}

// cut:end

// A name that nobody ever knows is a mistake of the publisher's: after an hour it is a dead letter.
func TestATaskThatNobodyKnowsIsBuriedAfterAnHour(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		o := new(office)
		a, m := Version2(h.Broker(), o.sender("v2"), o.lab("v2"), quiet)
		h.Start(a)
		if err := m.Publish(h.T().Context(), broker.Stream("jobs"), mail.Welcome{To: "ada"}, Task("sned_welcome")); err != nil {
			h.T().Fatal(err)
		}
		h.Advance(time.Hour - time.Second)
		want(h, state{deferred: 1})
		h.Advance(5 * time.Minute)
		want(h, state{letters: 1})
		letter := h.Client().XRange(h.T().Context(), "jobs.dlq", "-", "+").Val()[0].Values
		if letter["dlq_reason"] != broker.ReasonUnknownTask || letter["h:task"] != "sned_welcome" || letter["dlq_attempts"] != "0" {
			h.T().Errorf("the dead letter: %v", letter)
		}
		if done := o.sorted(); len(done) != 0 {
			h.T().Errorf("somebody did %q", done)
		}
	})
}

// publish sends three jobs of each task.
func publish(h *apptest.H, m *app.Mounts, when string) {
	h.T().Helper()
	for i := range 3 {
		name := fmt.Sprintf("%s %d", when, i)
		for task, payload := range map[string]any{
			"send_welcome": mail.Welcome{To: name}, "shrink": images.Picture{Name: name}, "send_invoice": mail.Invoice{To: name},
		} {
			if err := m.Publish(h.T().Context(), broker.Stream("jobs"), payload, Task(task)); err != nil {
				h.T().Fatal(err)
			}
		}
	}
}

func stop(h *apptest.H, r *stage.Running) {
	h.T().Helper()
	if err := r.Stop(); err != nil {
		h.T().Error(err)
	}
}

// state is what the server holds of the jobs.
type state struct{ pending, deferred, letters int64 }

func want(h *apptest.H, want state) {
	h.T().Helper()
	ctx, client := h.T().Context(), h.Client()
	got := state{
		client.XPending(ctx, "jobs", "workers").Val().Count, client.ZCard(ctx, "{jobs}:deferred").Val(), client.XLen(ctx, "jobs.dlq").Val(),
	}
	if got != want {
		h.T().Errorf("the server holds %+v, want %+v", got, want)
	}
}

func TestTheDemonstration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		out, err := stage.Play(t.Context(), demo)
		if took := time.Since(start); err != nil || took > 10*time.Second {
			t.Fatalf("%v after %v\n%s", err, took, out)
		}
		for _, line := range []string{"v1  has put off 2 jobs", "v2  mail to ada: you owe €19.99", "6 jobs done, 0 dead letters"} {
			if !strings.Contains(out, line) {
				t.Errorf("no %q in\n%s", line, out)
			}
		}
	})
}
