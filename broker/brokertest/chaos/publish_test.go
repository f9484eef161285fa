//go:build unix

package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// Publishing is never tried again: a message whose reply is lost stands there once, and its publisher has an error.
func TestALostReplyOfAPublishIsAnErrorAndNoSecondMessage(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		p := newProxy(t, server.URL())
		b := redisbroker.Standalone(p.url(server.URL()))
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		ctx, client := t.Context(), server.Client()
		const set = "published.delayed"
		count := func() (all [3]int64) {
			return [3]int64{client.XLen(ctx, "published").Val(), client.LLen(ctx, "published.list").Val(), client.ZCard(ctx, set).Val()}
		}
		for i, c := range []struct {
			name    string
			to      broker.Destination
			options []broker.PublishOption
			grows   int // which of the counts
		}{
			{"stream", broker.Stream("published"), nil, 0},
			{"list", broker.List("published.list"), nil, 1},
			{"delay set", broker.Stream("published"), []broker.PublishOption{broker.After(set, time.Hour)}, 2},
			{"delay set of a list", broker.List("published.list"), []broker.PublishOption{broker.After(set, time.Hour)}, 2},
		} {
			// In a batch, too, what was sent and not answered has an error.
			for _, batch := range []int{1, 50} {
				// The script of the delay set is there, so that the request that is cut off is the one that writes.
				if err := b.Publish(ctx, []broker.Outgoing{broker.NewOutgoing(c.to, []byte("first"), c.options...)})[0]; err != nil {
					t.Fatal(err)
				}
				before := count()
				marker := fmt.Sprintf("marker-%d-%d", i, batch)
				messages := make([]broker.Outgoing, batch)
				for j := range messages {
					messages[j] = broker.NewOutgoing(c.to, []byte(marker), c.options...)
				}
				sprung := p.cut(marker, 0)
				for j, err := range b.Publish(ctx, messages) {
					if err == nil {
						t.Errorf("%s: message %d of %d whose reply was lost has no error", c.name, j, batch)
					}
				}
				select {
				case <-sprung:
				case <-time.After(patience):
					t.Fatal("no reply was cut off")
				}
				after := count()
				if grown := after[c.grows] - before[c.grows]; grown > int64(batch) || batch == 1 && grown != 1 {
					t.Errorf("%s: %d messages stand there of %d", c.name, grown, batch)
				}
				if err := b.Publish(ctx, []broker.Outgoing{broker.NewOutgoing(c.to, []byte("next"), c.options...)})[0]; err != nil {
					t.Errorf("%s: the next one: %v", c.name, err)
				}
			}
		}
	})
}

// quiet has nothing in hand.
type quiet struct{}

func (quiet) Held(time.Duration) []broker.Held { return nil }
func (quiet) Lost([]broker.Held)               {}

// A copy on a channel whose reply is lost was published, and is not published again.
func TestALostReplyOfAChannelsCopyDoublesNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		p := newProxy(t, server.URL())
		b := redisbroker.Standalone(p.url(server.URL()))
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		ctx := t.Context()
		if err := b.Connect(ctx); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		sub, err := b.Subscribe(ctx, broker.Config{
			Name: "t", Source: b.Resolve(broker.Source{Structure: broker.StructureChannel, Key: "copied"}),
			Logger: slog.New(slog.NewTextHandler(&log, nil)), Holder: quiet{}, Discarded: func(string) {}, Buried: func(string) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		const marker = "the-copy"
		sprung := p.cut(marker, 0)
		st := broker.Settlement{Action: broker.Copy, Delivery: &broker.Delivery{ID: "1", Raw: []byte(marker)}}
		sub.Settle(ctx, []*broker.Settlement{&st})
		select {
		case <-sprung:
		case <-time.After(patience):
			t.Fatal("no reply was cut off")
		}
		if st.Err != nil || st.Result != broker.Done {
			t.Errorf("%v, %v", st.Result, st.Err)
		}
		if err := server.Client().Do(ctx, "PUBLISH", "copied", "the end").Err(); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		var bodies []string
		for len(bodies) == 0 || bodies[len(bodies)-1] != "the end" {
			ds, err := sub.Read(ctx, broker.Want{New: 10})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range ds {
				bodies = append(bodies, string(d.Body))
			}
		}
		if len(bodies) != 2 || bodies[0] != marker {
			t.Errorf("read were %q", bodies)
		}
		sub.Stop(ctx)
		if err := sub.Release(ctx, nil); err != nil {
			t.Error(err)
		}
		if !bytes.Contains(log.Bytes(), []byte("nothing is published twice")) {
			t.Errorf("the log says nothing: %s", &log)
		}
	})
}
