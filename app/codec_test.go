package app_test

import (
	"context"
	"encoding"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/embedded"
	streamrt "github.com/millrace-go/millrace/runtime"
)

type parcel struct {
	ID    int       `json:"id"`
	At    time.Time `json:"at"`
	Label []byte    `json:"label"`
}

// The codec that App.Broker is given writes what is published and reads it in every mount, save those that have their own.
func TestWithCodec(t *testing.T) {
	want := parcel{ID: 7, At: time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC), Label: []byte("a\x00")}
	for _, c := range []struct {
		name        string
		defaults    []app.MountOption
		mount       []app.MountOption
		contentType string
		wrote       app.Codec
		malformed   bool
	}{
		{"by default JSON", nil, nil, "json", app.JSON, false},
		{"the broker's", []app.MountOption{app.WithCodec(app.CBOR)}, nil, "cbor", app.CBOR, false},
		{"the mount's before the broker's", []app.MountOption{app.WithCodec(app.CBOR)}, []app.MountOption{app.WithCodec(app.JSON)}, "cbor", app.CBOR, true},
		{"the mount's, which does not publish", nil, []app.MountOption{app.WithCodec(app.CBOR)}, "json", app.JSON, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			apptest.Paused(t, func(h *apptest.H) {
				var got []parcel
				a := app.New("parcels", "test", app.Logger(slog.New(slog.DiscardHandler)))
				m := a.Broker(h.Broker(), c.defaults...)
				m.Mount(streamrt.SubscribeErr(streamrt.Spec{Name: "t", Stream: "in", Group: group}, streamrt.Default,
					func(_ context.Context, p *parcel) error {
						got = append(got, *p)
						return nil
					}), append(c.mount, app.DeadLetter("dlq"))...)
				h.Start(a)
				ctx := h.T().Context()
				if err := m.Publish(ctx, broker.Stream("in"), want); err != nil {
					h.T().Fatal(err)
				}
				h.Advance(time.Second)

				entry := h.Client().XRange(ctx, "in", "-", "+").Val()[0].Values
				body, err := c.wrote.Marshal(want)
				if err != nil || entry["_payload"] != string(body) || entry["h:content-type"] != c.contentType {
					h.T().Errorf("published %q, want %q as %s", entry, body, c.contentType)
				}
				dead := h.Client().XRange(ctx, "dlq", "-", "+").Val()
				switch {
				case c.malformed:
					if len(got) != 0 || len(dead) != 1 || dead[0].Values["dlq_reason"] != broker.ReasonMalformed || dead[0].Values["_payload"] != string(body) {
						h.T().Errorf("handled %v, buried %v", got, dead)
					}
				case len(got) != 1 || got[0].ID != want.ID || !got[0].At.Equal(want.At) || string(got[0].Label) != string(want.Label) || len(dead) != 0:
					h.T().Errorf("handled %+v, buried %v", got, dead)
				}
			})
		})
	}
}

// A codec that the directive names is not changed by the mount.
func TestTheCodecOfTheDirectiveWins(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		var got []parcel
		a := app.New("parcels", "test", app.Logger(slog.New(slog.DiscardHandler)))
		m := a.Broker(h.Broker(), app.WithCodec(app.CBOR))
		m.Mount(streamrt.SubscribeErr(streamrt.Spec{Name: "t", Stream: "in", Group: group}, streamrt.JSON,
			func(_ context.Context, p parcel) error {
				got = append(got, p)
				return nil
			}), app.WithCodec(app.CBOR))
		h.Start(a)
		if err := m.Publish(h.T().Context(), broker.Stream("in"), []byte(`{"id":3}`)); err != nil {
			h.T().Fatal(err)
		}
		h.Advance(time.Second)
		if len(got) != 1 || got[0].ID != 3 {
			h.T().Errorf("handled %+v", got)
		}
	})
}

// selfCoded encodes with the methods of the values, as a codec for protocol buffers does with proto.Marshal.
type selfCoded struct{}

func (selfCoded) Name() string { return "price" }

func (selfCoded) Marshal(v any) ([]byte, error) {
	m, ok := v.(encoding.BinaryMarshaler)
	if !ok {
		return nil, fmt.Errorf("%T has no MarshalBinary", v)
	}
	return m.MarshalBinary()
}

func (selfCoded) Unmarshal(data []byte, v any) error {
	u, ok := v.(encoding.BinaryUnmarshaler)
	if !ok {
		return fmt.Errorf("%T has no UnmarshalBinary", v)
	}
	return u.UnmarshalBinary(data)
}

// Price is a message that encodes itself.
type Price struct{ Cents uint16 }

func (p *Price) MarshalBinary() ([]byte, error) {
	return []byte{byte(p.Cents >> 8), byte(p.Cents)}, nil
}

func (p *Price) UnmarshalBinary(data []byte) error {
	if len(data) != 2 {
		return fmt.Errorf("a price has 2 bytes, not %d", len(data))
	}
	p.Cents = uint16(data[0])<<8 | uint16(data[1])
	return nil
}

// Given to App.Broker, a codec of one's own writes and reads everything on it.
func ExampleWithCodec() {
	ctx, stop := context.WithCancel(context.Background())
	// streamgen writes this for a function with //stream:subscriber stream=prices group=shop
	subscription := streamrt.SubscribeErr(streamrt.Spec{Name: "shop.OnPrice", Stream: "prices", Group: "shop"}, streamrt.Default,
		func(ctx context.Context, p *Price) error {
			fmt.Println(p.Cents, "cents as", app.MessageFrom(ctx).Headers.Get(broker.HeaderContentType))
			stop()
			return nil
		})

	a := app.New("shop", "1.0.0", app.Logger(slog.New(slog.DiscardHandler)))
	m := a.Broker(embedded.New(), app.WithCodec(selfCoded{}))
	m.Mount(subscription)
	a.AfterStartup(func(ctx context.Context) error {
		return m.Publish(ctx, broker.Stream("prices"), &Price{Cents: 1999})
	})
	if err := a.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: 1999 cents as price
}
