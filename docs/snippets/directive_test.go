package snippets

import (
	"context"
	"testing"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
)

func TestTheCodecOfABrokerAndOfAMount(t *testing.T) {
	apptest.Paused(t, func(h *apptest.H) {
		a := app.New("parcels", "test", quiet)
		m := mountCBOR(a, h.Broker())
		h.Start(a)
		ctx := h.T().Context()
		if err := m.Publish(ctx, broker.Stream("parcels"), Parcel{Number: "1"}); err != nil {
			h.T().Fatal(err)
		}
		if err := m.Publish(ctx, broker.Stream("parcels v2"), []byte(`{"number":"2"}`)); err != nil {
			h.T().Fatal(err)
		}
		for stream, group := range map[string]string{"parcels": "log", "parcels v2": "audit"} {
			h.Eventually("nothing of "+stream+" is pending", func(ctx context.Context) bool {
				last, err := h.Client().XInfoStream(ctx, stream).Result()
				groups := h.Client().XInfoGroups(ctx, stream).Val()
				return err == nil && len(groups) == 1 && groups[0].Name == group && groups[0].Pending == 0 &&
					groups[0].LastDeliveredID == last.LastGeneratedID
			})
		}
		entry := h.Client().XRange(ctx, "parcels", "-", "+").Val()[0]
		if entry.Values["h:content-type"] != "cbor" {
			h.T().Errorf("published %q", entry.Values)
		}
		if n := h.Client().XLen(ctx, "parcels.dlq").Val(); n != 0 {
			h.T().Errorf("%d dead letters", n)
		}
	})
}
