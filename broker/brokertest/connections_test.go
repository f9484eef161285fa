package brokertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
	"github.com/millrace-go/millrace/outcome"
)

// Twenty subscriptions whose reads block do not keep each other from settling and from staying alive, although the
// client that they were given has five connections only: blocking reads have connections of their own.
func TestASmallPoolIsEnough(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		const subscriptions, rounds = 20, 40
		options, err := redis.ParseURL(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		options.PoolSize = 5
		options.PoolTimeout = time.Second
		client := redis.NewClient(options)
		defer client.Close()
		target := Target{Name: server.Name(), Broker: func(o ...redisbroker.Option) broker.Broker {
			return redisbroker.FromClient(client, append(o, redisbroker.Liveness(livenessTTL))...)
		}, Client: server.Client()}

		svc := newService(target)
		r := &recorder{answer: acks}
		var all []keys
		for range subscriptions {
			k := uniqueKeys()
			spec := mode{}.spec(k)
			spec.Block = 5 * time.Second
			svc.mount(spec, r)
			all = append(all, k)
		}
		svc.start(t)
		var settled []time.Duration
		for i := range rounds {
			k := all[i%subscriptions]
			svc.publish(t, k.stream, fmt.Append(nil, i))
			began := time.Now()
			await(t, "the message is settled", func(ctx context.Context) bool {
				st, err := look(ctx, target.Client, k.stream, k.group, k.delaySet)
				return err == nil && st.atRest()
			})
			settled = append(settled, time.Since(began))
			if left := target.Client.PTTL(t.Context(), consumersAlive(t, target, k)[0]).Val(); left < livenessTTL/2 && !underRace {
				t.Errorf("the liveness key of %s has %s left", k.stream, left)
			}
			time.Sleep(50 * time.Millisecond)
		}
		svc.stop(t)
		slices.Sort(settled)
		if worst := settled[len(settled)-1]; worst > time.Second && !underRace {
			t.Errorf("a message took %s until it was settled", worst)
		}
		if r.count() != rounds {
			t.Errorf("%d calls, want %d", r.count(), rounds)
		}
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Errorf("the client that was given is closed: %v", err)
		}
	})
}

// A connection that is cut while its read waits may take entries with it: the server gave them out and nobody saw them.
// They are found, handled once and not charged.
func TestEntriesThatACutConnectionTookAreFound(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		t.Parallel()
		s := siteOf(server)
		for _, m := range modes {
			const messages = 5
			k, r := uniqueKeys(), &recorder{answer: failsUntil(2, outcome.Retry())}
			spec := m.spec(k)
			if m.claims {
				spec.Claim = 3 * claimTime // what is found comes before what is claimed
			}
			svc := newService(s.Target)
			svc.mount(spec, r)
			svc.start(t)
			name := consumersAlive(t, s.Target, k)[0][len(aliveKey(k, "")):]
			time.Sleep(200 * time.Millisecond) // the process's own read blocks
			// In one step, so that the read that blocks is given nothing: they are handed to this consumer by another
			// connection, which is how a lost reply looks from here.
			_, err := server.Client().TxPipelined(t.Context(), func(p redis.Pipeliner) error {
				for i := range messages {
					p.XAdd(t.Context(), &redis.XAddArgs{Stream: k.stream, Values: []any{fieldPayload, i}})
				}
				p.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: k.group, Consumer: name, Streams: []string{k.stream, ">"}, Block: -1})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			cutConnections(t, s.Target)
			awaitRest(t, s.Target, k)
			svc.stop(t)
			for id, calls := range r.byMessage() {
				if got := attemptsOf(calls); !slices.Equal(got, []int{1, 2}) || calls[0].message.Losses != 0 {
					t.Errorf("%s: message %s came with the attempts %v and losses %d", m.name, id, got, calls[0].message.Losses)
				}
			}
			if n := len(r.byMessage()); n != messages {
				t.Errorf("%s: %d of %d messages were handled", m.name, n, messages)
			}
		}
	})
}
