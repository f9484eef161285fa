package app

import (
	"context"

	"github.com/millrace-go/millrace/app/internal/telemetry"
	"github.com/millrace-go/millrace/broker"
)

// gauge begins to show the gauges of everything that was opened, broker by broker.
func (r *running) gauge(ctx context.Context) {
	for _, g := range r.groups {
		var mounts []telemetry.Gauged
		for i := range r.opened {
			if o := &r.opened[i]; o.reading.mounts[0].on.broker == g.broker {
				mounts = append(mounts, o.gauged()...)
			}
		}
		if len(mounts) > 0 {
			r.watches = append(r.watches, r.app.telemetry().Watch(ctx, g.broker, r.app.log, mounts))
		}
	}
}

// gauged are the mounts of a reading. Several that share a group show the group's numbers each.
func (o *opened) gauged() []telemetry.Gauged {
	mounts := make([]telemetry.Gauged, len(o.reading.mounts))
	for i, mt := range o.reading.mounts {
		mounts[i] = telemetry.Gauged{
			Subscription: mt.name(),
			Measurand:    broker.Measurand{Source: mt.source, DeadLetter: mt.deadLetter},
			Local: func() telemetry.Local {
				l := o.engine.Numbers(i)
				l.Healthy = len(o.bad()) == 0
				return l
			},
		}
	}
	return mounts
}
