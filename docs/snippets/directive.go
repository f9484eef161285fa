package snippets

import (
	"context"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
)

// Parcel is on its way.
type Parcel struct {
	Number string `json:"number"`
}

// Depot holds parcels.
type Depot struct{ Seen []string }

// cut:shapes

// LogParcel is a function.
//
//stream:subscriber stream=parcels group=log
func LogParcel(ctx context.Context, p Parcel) error {
	return nil
}

// TrackParcel is a function with state: whatever the service gives it where it mounts the subscription.
//
//stream:subscriber stream=parcels group=track
func TrackParcel(ctx context.Context, depot app.State[*Depot], p *Parcel) error {
	depot.Value.Seen = append(depot.Value.Seen, p.Number)
	return nil
}

// Store is a method. Each shape may return an outcome instead of an error.
//
//stream:subscriber stream=parcels group=store
func (d *Depot) Store(ctx context.Context, p Parcel) outcome.HandlerOutcome {
	return outcome.Ack()
}

// cut:end

// mountParcels places the three.
func mountParcels(m *app.Mounts, depot *Depot) {
	// cut:with
	m.Mount(LogParcelSubscription)
	m.Mount(TrackParcelSubscription.With(depot), app.Concurrency(1))
	m.Mount(DepotStoreSubscription.With(depot))
	// cut:end
}

// cut:keys

// AuditParcel has every key that there is.
//
//stream:subscriber stream=parcels group=audit start=$ claim=30s delay-set=parcels.delayed delay-ttl=36h codec=json block=2s timeout=1m30s name=parcels.audit
func AuditParcel(ctx context.Context, p Parcel) error { return nil }

// AuditNewParcel has a blank in its key: that token is quoted whole.
//
//stream:subscriber "stream=parcels v2" group=audit
func AuditNewParcel(ctx context.Context, p Parcel) error { return nil }

// PrintLabel takes the bytes as they are.
//
//stream:subscriber stream=labels group=print codec=raw
func PrintLabel(ctx context.Context, label []byte) error { return nil }

// cut:end

// cut:publish

// Dispatch sends parcels on. It takes an interface, so that its tests need no broker.
type Dispatch struct{ Out app.Publisher }

// Leave announces a parcel. The header travels with the message through every retry and into the dead letter.
//
//stream:subscriber stream=packed group=dispatch
func (d *Dispatch) Leave(ctx context.Context, p Parcel) error {
	return d.Out.Publish(ctx, broker.Stream("parcels"), p, broker.Header("left-at", time.Now().Format(time.RFC3339)))
}

// cut:end
