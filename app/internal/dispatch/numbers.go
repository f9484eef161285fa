package dispatch

import "github.com/millrace-go/millrace/app/internal/telemetry"

// Numbers returns what the gauges show of the i-th route, all but its health.
func (e *Engine) Numbers(i int) telemetry.Local {
	rt := e.routes[i]
	l := telemetry.Local{Concurrency: int64(rt.Concurrency), Parked: rt.parked.Load()}
	if e.room.parks {
		l.MaxParked = e.room.maxParked
	}
	for i := range e.slots {
		if e.slots[i].runs(rt) {
			l.InFlight++
		}
	}
	return l
}
