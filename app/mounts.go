package app

import (
	"context"

	"github.com/millrace-go/millrace/broker"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// Mounts is one broker of an app with the subscriptions that read from it. Its methods are safe for concurrent use.
type Mounts struct {
	app      *App
	broker   broker.Broker
	defaults []MountOption
	codec    Codec    // encodes what is published
	mounts   []*mount // guarded by app.mu
}

// mount is one subscription in its place.
type mount struct {
	on           *Mounts
	subscription streamrt.Subscription
	policy       policy
	// source is resolved, deadLetter a full key. Both are set when the app starts.
	source     broker.Source
	deadLetter string
}

// Mount adds a subscription. What is wrong with it or its options is reported by Run, together with everything else.
// Mount panics once Run has been called.
func (m *Mounts) Mount(subscription streamrt.Subscription, options ...MountOption) {
	m.app.mu.Lock()
	defer m.app.mu.Unlock()
	if m.app.began {
		panic("app: Mount was called after Run")
	}
	m.mounts = append(m.mounts, &mount{
		on: m, subscription: subscription, policy: newPolicy(m.defaults, options),
	})
}

// Close ends the connections. A program that only publishes calls it when it is done; Run does it by itself.
func (m *Mounts) Close(ctx context.Context) error {
	if m.broker == nil {
		return nil
	}
	return m.broker.Close(ctx)
}

func (mt *mount) name() string { return mt.subscription.Spec().Name }

func (mt *mount) task() string { return mt.subscription.Spec().Task }
