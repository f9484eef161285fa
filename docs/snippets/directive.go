package snippets

import (
	"context"
	"fmt"
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

// AuditParcel has most of the keys that a stream has.
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

// cut:structures

// Frame takes pictures from a list. What it has in hand survives a crash, and a delay survives a restart.
//
//stream:subscriber list=pictures reliable delay-set=pictures.delayed
func Frame(ctx context.Context, picture Picture) error { return nil }

// ShowPrice hears a channel: what is published while nobody listens is gone.
//
//stream:subscriber channel=prices
func ShowPrice(ctx context.Context, p Price) error { return nil }

// CountEvent hears every channel whose name matches.
//
//stream:subscriber pattern=events.*
func CountEvent(ctx context.Context, event map[string]any) error { return nil }

// SendMail takes the messages of one task; the other tasks of the stream and group have functions of their own.
//
//stream:subscriber stream=jobs group=workers task=send_mail
func SendMail(ctx context.Context, m Mail) error { return nil }

// cut:end

// cut:fields

// Click is an entry of a stream that another program writes: XADD clicks * url /a user 17 seen_at 1700000000123
type Click struct {
	URL    string    `stream:"url"`
	User   int64     `stream:"user"`
	SeenAt time.Time `stream:"seen_at,unixms"`
	// Referrer is nil where the entry has no such field, in whatever case it is written.
	Referrer *string
}

// BillClick leaves the stream as it is.
//
//stream:subscriber stream=clicks group=billing codec=fields
func BillClick(ctx context.Context, c Click) error { return nil }

// CopyClick takes any entry. Its fields come with the message, in their order.
//
//stream:subscriber stream=clicks group=archive foreign codec=raw
func CopyClick(ctx context.Context, body []byte) error {
	for _, f := range app.MessageFrom(ctx).Fields {
		fmt.Println(f.Name, f.Value)
	}
	return nil
}

// cut:end

// Picture is what Frame takes.
type Picture struct{ Path string }

// Price is what ShowPrice hears.
type Price struct{ Cents int }

// Mail is what SendMail sends.
type Mail struct{ To string }

// mountCBOR chooses the codec of a broker and of one mount.
func mountCBOR(a *app.App, b broker.Broker) *app.Mounts {
	// cut:codec
	m := a.Broker(b, app.WithCodec(app.CBOR))                    // publishes CBOR, and reads it in every mount
	m.Mount(AuditNewParcelSubscription, app.WithCodec(app.JSON)) // save this one
	// cut:end
	m.Mount(LogParcelSubscription, app.DeadLetter("parcels.dlq"))
	return m
}

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
