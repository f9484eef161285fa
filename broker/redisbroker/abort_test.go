package redisbroker

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// holdsNothing is the holder of a subscription that nobody reads.
type holdsNothing struct{}

func (holdsNothing) Held(time.Duration) []broker.Held { return nil }
func (holdsNothing) Lost([]broker.Held)               {}

// Ending a command that goes on for too long closes every connection of the pool, idle ones too. What a stop has to hand
// back is handed back all the same.
func TestAnAbortKeepsNothingFromBeingHandedBack(t *testing.T) {
	server := redistest.Start(t)
	b := Standalone(server.URL())
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	if err := b.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	sub, err := b.Subscribe(t.Context(), broker.Config{
		Name: "t.h", Source: b.Resolve(broker.Source{Structure: broker.StructureStream, Key: "s", Group: "g"}),
		Logger: slog.New(slog.DiscardHandler), Discarded: func(string) {}, Buried: func(string) {}, Holder: holdsNothing{},
	})
	if err != nil {
		t.Fatal(err)
	}
	sub.(*subscription).pool.abort()
	if err := sub.Release(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if n := server.Client().Exists(t.Context(), sub.(*subscription).alive.key).Val(); n != 0 {
		t.Error("the liveness key is left")
	}
}
