package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/app/internal/dispatch"
	"github.com/millrace-go/millrace/broker"
)

// reading is what one subscription is opened for: one mount, or the mounts that share a stream and group by task.
type reading struct{ mounts []*mount }

// readings sorts the mounts of one broker, in their order.
func readings(mounts []*mount) []*reading {
	type shared struct{ stream, group string }
	byKey := map[shared]*reading{}
	var all []*reading
	for _, mt := range mounts {
		key := shared{mt.source.Key, mt.source.Group}
		if r := byKey[key]; r != nil && mt.task() != "" {
			r.mounts = append(r.mounts, mt)
			continue
		}
		r := &reading{[]*mount{mt}}
		all = append(all, r)
		if mt.task() != "" {
			byKey[key] = r
		}
	}
	return all
}

// name is the mount's name, or the names of all.
func (r *reading) name() string {
	names := make([]string, len(r.mounts))
	for i, mt := range r.mounts {
		names[i] = mt.name()
	}
	return strings.Join(names, ", ")
}

// open opens the subscription and makes the engine over it.
func (r *reading) open(ctx context.Context, b broker.Broker) (opened, error) {
	first := r.mounts[0]
	log := first.on.app.log.With("mount", r.name())
	config := dispatch.Config{
		Name: r.name(), Source: first.source, MaxParked: first.policy.maxParked, Prefetch: dispatch.Adaptive,
		UnknownDelay: defaultUnknownDelay, UnknownTimeout: defaultUnknownTimeout,
		Holdings: dispatch.NewHoldings(), Vitals: dispatch.NewVitals(first.source.Block), Logger: log,
	}
	packs, deadLetter := false, ""
	var retain broker.Retention
	letters := map[string]broker.Retention{}
	for _, mt := range r.mounts {
		config.Routes = append(config.Routes, mt.route())
		packs = packs || mt.policy.hasMaxDeliveries
		if mt.policy.hasPrefetch {
			config.Prefetch = max(config.Prefetch, mt.policy.prefetch)
		}
		config.MaxParked = max(config.MaxParked, mt.policy.maxParked)
		if mt.policy.unknownDelay > 0 {
			config.UnknownDelay = mt.policy.unknownDelay
		}
		if mt.policy.unknownTimeout > 0 {
			config.UnknownTimeout = mt.policy.unknownTimeout
		}
		if deadLetter == "" {
			deadLetter = mt.deadLetter
		}
		if mt.policy.hasRetain {
			retain = mt.policy.retain.Retention
		}
		if kept := mt.policy.letters.Retention; mt.deadLetter != "" && !kept.Keeps() {
			letters[mt.deadLetter] = kept
		}
	}
	counts := config.Routes[0].Telemetry
	sub, err := b.Subscribe(ctx, broker.Config{
		Name:         r.name(),
		Source:       first.source,
		DeadLetter:   deadLetter,
		Logger:       log,
		Discarded:    counts.Discarded,
		Buried:       counts.Buried,
		Retain:       retain,
		Letters:      letters,
		Trimmed:      counts.Trimmed(append(slices.Collect(maps.Keys(letters)), first.source.Key)...),
		PackFailures: packs,
		Holder:       config.Holdings,
		Pulse:        config.Vitals.Pulse,
	})
	if err != nil {
		return opened{}, fmt.Errorf("app: mount %s: %w", r.name(), err)
	}
	return opened{r, sub, dispatch.New(config, sub), config.Vitals}, nil
}

// route is the mount as the engine needs it.
func (mt *mount) route() dispatch.Route {
	route := dispatch.Route{
		Name:          mt.name(),
		Task:          mt.task(),
		Subscription:  mt.subscription,
		Codec:         mt.policy.codec,
		MaxAttempts:   mt.policy.maxAttempts,
		MaxDeliveries: mt.policy.deliveries(mt.source.Claim > 0),
		DeadLetter:    mt.deadLetter,
		Backoff:       mt.policy.wait,
		Concurrency:   mt.policy.concurrency,
		Logger:        mt.on.app.log.With("mount", mt.name()),
		Telemetry:     mt.on.app.telemetry().Mount(mt.name(), mt.source, dispatch.Outcomes),
	}
	if middleware := mt.policy.middleware; len(middleware) > 0 {
		route.Wrap = func(inner dispatch.Handler) dispatch.Handler {
			h := Handler(inner)
			for i := len(middleware) - 1; i >= 0; i-- {
				h = middleware[i](h)
			}
			return dispatch.Handler(h)
		}
	}
	return route
}
