package app

import (
	"strings"
	"time"
)

// Health is how an app is, as far as it knows without asking the server: see [App.Health].
type Health struct {
	App     string `json:"app"`
	Version string `json:"version"`
	// State is "new" before Run, "starting" until the hooks of AfterStartup are through, "running", "stopping" from when
	// it was told to stop, and "stopped" when Run has returned.
	State string `json:"state"`
	// Ready: the app is running, and all subscriptions are good.
	Ready bool `json:"ready"`
	// Error is what a start waits for, or what Run has returned; "" for nothing.
	Error string `json:"error,omitempty"`
	// Subscriptions are those of all brokers, in the order in which they were mounted.
	Subscriptions []SubscriptionHealth `json:"subscriptions"`
}

// SubscriptionHealth is how one subscription is.
type SubscriptionHealth struct {
	// Name is the subscription's name, as in logs, metrics and dead letters.
	Name string `json:"name"`
	// Source is what it reads, "stream refunds" say, and Group its consumer group, where it has one. Address names the
	// server, without user or password. All of them are "" until the subscription is open.
	Source  string `json:"source,omitempty"`
	Group   string `json:"group,omitempty"`
	Address string `json:"address,omitempty"`
	// Good: it is open, and nothing is bad. While the app stops nothing is held to be bad.
	Good bool `json:"good"`
	// Bad are the checks that have not succeeded for too long, the longest first.
	Bad []BadCheck `json:"bad,omitempty"`
	// Paused says why it reads nothing although there is something to read, "" where that is not so: as many messages
	// wait as [MaxParked] allows, say. It goes on by itself, and is good meanwhile.
	Paused string `json:"paused,omitempty"`
}

// BadCheck is something that a subscription does over and over and that has not succeeded for too long.
type BadCheck struct {
	// Check is "read" (waiting for messages), "sweep" (recovering what dead processes left, and moving due delays),
	// "heartbeat" (showing the other processes that this one is alive) or "settle" (writing outcomes).
	Check string `json:"check"`
	// Since is when it last succeeded. For "settle", which has nothing to do for most of the time, it is when the oldest
	// trouble began that still lasts.
	Since time.Time `json:"since"`
	// Error is what the last try ended in.
	Error string `json:"error"`
}

// states of an app, in their order.
const (
	stateNew      = "new"
	stateStarting = "starting"
	stateRunning  = "running"
	stateStopping = "stopping"
	stateStopped  = "stopped"
)

// life is what is known of an app from outside of Run. It is guarded by App.mu.
type life struct {
	state string
	// trouble is what the start waits for, or what Run has returned.
	trouble error
	opened  []opened
}

// enter notes a state of the app.
func (a *App) enter(state string, trouble error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.life.state, a.life.trouble = state, trouble
}

// waits notes what the start waits for, nil for nothing any more.
func (a *App) waits(trouble error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.life.state == stateStarting {
		a.life.trouble = trouble
	}
}

// Health tells how the app is. A subscription is bad when one of its checks has not succeeded for twice its block and 5 s
// (15 s by default), counted from when it was due, and it is good again as soon as that check succeeds. Health asks the
// server nothing: it compares when each of the subscription's own loops was last answered. It may be called at any time,
// also before Run.
func (a *App) Health() Health {
	a.mu.Lock()
	life := a.life
	var names []string
	for _, m := range a.brokers {
		for _, mt := range m.mounts {
			if !mt.subscription.IsZero() {
				names = append(names, mt.name())
			}
		}
	}
	a.mu.Unlock()
	h := Health{App: a.name, Version: a.version, State: life.state, Ready: life.state == stateRunning, Subscriptions: []SubscriptionHealth{}}
	if life.trouble != nil {
		h.Error = life.trouble.Error()
	}
	if len(life.opened) == 0 {
		for _, name := range names {
			h.Subscriptions = append(h.Subscriptions, SubscriptionHealth{Name: name})
		}
		return h
	}
	for _, o := range life.opened {
		var bad []BadCheck
		if life.state == stateRunning {
			bad = o.bad()
		}
		h.Ready = h.Ready && len(bad) == 0
		for _, mt := range o.reading.mounts {
			h.Subscriptions = append(h.Subscriptions, SubscriptionHealth{
				Name: mt.name(), Source: mt.source.Structure.String() + " " + mt.source.Key, Group: mt.source.Group,
				Address: mt.on.broker.Address(), Good: life.state != stateStopped && len(bad) == 0, Bad: bad, Paused: o.engine.Paused(),
			})
		}
	}
	return h
}

// bad are the checks of the subscription that have not succeeded for too long.
func (o *opened) bad() []BadCheck {
	var all []BadCheck
	for _, c := range o.vitals.Overdue() {
		text := "the server has not answered"
		if c.Err != nil {
			text = c.Err.Error()
		}
		all = append(all, BadCheck{Check: string(c.Check), Since: c.Since.Round(0).UTC(), Error: text})
	}
	return all
}

// texts are the checks and their errors for a line of the log.
func texts(bad []BadCheck) (checks, errs string) {
	var names, messages []string
	for _, b := range bad {
		names, messages = append(names, b.Check), append(messages, b.Error)
	}
	return strings.Join(names, ", "), strings.Join(messages, "; ")
}
