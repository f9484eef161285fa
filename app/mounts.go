package app

import (
	"context"

	"github.com/millrace-go/millrace/app/internal/dispatch"
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

// sourceOf is the mount's source as the directive names it.
func (mt *mount) sourceOf() broker.Source {
	spec := mt.subscription.Spec()
	return broker.Source{
		Structure: broker.StructureStream,
		Key:       spec.Stream,
		Group:     spec.Group,
		Claim:     spec.Claim,
		Reclaim:   spec.Reclaim,
		Start:     spec.Start,
		DelaySet:  spec.DelaySet,
		DelayTTL:  spec.DelayTTL,
		Block:     spec.Block,
	}
}

// resolve fills in what the broker decides. It does no I/O.
func (mt *mount) resolve() {
	mt.source = mt.on.broker.Resolve(mt.sourceOf())
	if mt.policy.deadLetter != "" {
		mt.deadLetter = mt.on.broker.ResolveKey(mt.policy.deadLetter)
	}
}

func (mt *mount) name() string { return mt.subscription.Spec().Name }

// uses lists the keys of the mount, for the broker to look at.
func (mt *mount) uses() []broker.KeyUse {
	uses := []broker.KeyUse{{Mount: mt.name(), Role: roleSource, Key: mt.source.Key, Structure: mt.source.Structure}}
	if mt.deadLetter != "" {
		uses = append(uses, broker.KeyUse{Mount: mt.name(), Role: roleDeadLetter, Key: mt.deadLetter, Structure: mt.source.Structure})
	}
	if mt.source.DelaySet != "" {
		uses = append(uses, broker.KeyUse{Mount: mt.name(), Role: roleDelaySet, Key: mt.source.DelaySet, Structure: broker.StructureSortedSet})
	}
	return uses
}

// engine makes the mount's engine over its open subscription.
func (mt *mount) engine(sub broker.Subscription, meters *dispatch.Meters, holdings *dispatch.Holdings) *dispatch.Engine {
	config := dispatch.Config{
		Name:          mt.name(),
		Source:        mt.source,
		Subscription:  mt.subscription,
		Codec:         mt.policy.codec,
		MaxAttempts:   mt.policy.maxAttempts,
		MaxDeliveries: mt.policy.deliveries(mt.source.Claim > 0),
		Prefetch:      mt.policy.prefetch,
		Holdings:      holdings,
		DeadLetter:    mt.deadLetter,
		Backoff:       mt.policy.wait,
		Concurrency:   mt.policy.concurrency,
		MaxParked:     mt.policy.maxParked,
		Logger:        mt.on.app.log.With("mount", mt.name()),
		Meters:        meters,
	}
	if middleware := mt.policy.middleware; len(middleware) > 0 {
		config.Wrap = func(inner dispatch.Handler) dispatch.Handler {
			h := Handler(inner)
			for i := len(middleware) - 1; i >= 0; i-- {
				h = middleware[i](h)
			}
			return dispatch.Handler(h)
		}
	}
	return dispatch.New(config, sub)
}
