package embedded_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker/embedded"
)

// A read that blocks ends with its connection, however long it would have blocked: what comes later is not given to a
// process that is gone.
func TestABlockedReadWhoseConnectionIsClosedTakesNothing(t *testing.T) {
	t.Context().Done() // made outside of the bubble, where it ends
	synctest.Test(t, func(t *testing.T) {
		server := embedded.NewServer()
		defer server.Close()
		client := server.Client()
		defer client.Close()
		ctx := t.Context()
		if err := client.XGroupCreateMkStream(ctx, "s", "g", "0").Err(); err != nil {
			t.Fatal(err)
		}
		for range 3000 { // the moment that matters is short
			gone := server.Client()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				gone.XReadGroup(context.Background(), &redis.XReadGroupArgs{Group: "g", Consumer: "gone", Streams: []string{"s", ">"}, Block: time.Minute})
			}()
			synctest.Wait()
			if err := gone.Close(); err != nil {
				t.Fatal(err)
			}
			// At once: the server needs no time to find out.
			client.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: []string{"k", "v"}})
			<-ended
			synctest.Wait()
			if p := client.XPending(ctx, "s", "g").Val(); p.Count != 0 {
				t.Fatalf("pending %+v", p)
			}
			client.XTrimMaxLen(ctx, "s", 0)
		}
	})
}
