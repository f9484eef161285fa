package redisbroker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// A server that becomes a replica ends blocked reads. The group is not lost by that, and nothing is put back: an entry
// that was settled meanwhile stays settled.
func TestAServerThatBecomesAReplicaHasLostNoGroup(t *testing.T) {
	server := redistest.Own(t)
	client := server.Client()
	b := redisbroker.Standalone(server.URL(), redisbroker.Liveness(ttl))
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	f := open(t, client, b, broker.Source{Block: 2 * time.Second})
	f.add("_payload", "settled")
	d := f.one()
	f.hold([]*broker.Delivery{d}) // for good, as far as the subscription is told
	ended := make(chan error, 1)
	go func() {
		_, err := f.sub.Read(t.Context(), broker.Want{New: 1, Back: 1})
		ended <- err
	}()
	eventually(t, "the read blocks", func() bool {
		return strings.Contains(client.Info(t.Context(), "clients").Val(), "\r\nblocked_clients:1\r\n")
	})
	if err := client.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Fatal("the read went on")
	}
	if err := client.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	// Settled, and not yet known to be: this is the moment of the answer.
	if err := client.XAck(t.Context(), "s", "g", d.ID).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.sub.Read(t.Context(), broker.Want{New: 1, Back: 1}); err != nil {
		t.Fatal(err)
	}
	if p := f.pending(); len(p) != 0 {
		t.Errorf("put back although it was settled: %+v", p)
	}
}
