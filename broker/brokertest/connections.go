package brokertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/outcome"
)

// Connections shows that a subscription needs few connections and survives the loss of any (contract §7, §9). All but one
// body need [ClientKill], and they cut every connection to the database of the target, whoever has it.
func Connections(t *testing.T, target Target) { connectionsArea.run(t, target) }

var connectionsArea = area{name: "Connections", bodies: []body{
	{name: "ASmallPoolIsEnough", run: smallPool},
	{name: "EntriesThatACutConnectionTookAreFound", run: cutConnection, alone: true, needs: []Feature{ClientKill}},
	{name: "AProcessThatIsCutOffDoesNotLookDead", run: cutOff, alone: true, needs: []Feature{ClientKill}},
}}

// smallPool: twenty subscriptions whose reads block do not keep each other from settling and from staying alive,
// although the client that they were given has five connections only. Blocking reads have connections of their own.
func smallPool(t *testing.T, target Target) {
	const subscriptions, rounds = 20, 40
	given, ok := target.Client.(*redis.Client)
	if !ok {
		t.Skipf("the Client of %s is a %T: redisbroker.FromClient takes a *redis.Client", target.Name, target.Client)
	}
	options := *given.Options()
	options.PoolSize = 5
	options.PoolTimeout = time.Second
	client := redis.NewClient(&options)
	defer client.Close() //nolint:errcheck // only its options are taken
	target.Broker = func(o ...redisbroker.Option) broker.Broker { return redisbroker.FromClient(client, o...) }
	target = target.mortal()

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
}

// cutConnection: a connection that is cut while its read waits may take entries with it. The server gave them out and
// nobody saw them. They are found, handled once and not charged.
func cutConnection(t *testing.T, target Target) {
	target = target.mortal()
	for _, m := range modes {
		const messages = 5
		k, r := uniqueKeys(), &recorder{answer: failsUntil(2, outcome.Retry())}
		spec := m.spec(k)
		if m.claims {
			spec.Claim = 3 * claimTime // what is found comes before what is claimed
		}
		svc := newService(target)
		svc.mount(spec, r)
		svc.start(t)
		name := consumersAlive(t, target, k)[0][len(aliveKey(k, "")):]
		time.Sleep(200 * time.Millisecond) // the process's own read blocks
		// In one step, so that the read that blocks is given nothing: they are handed to this consumer by another
		// connection, which is how a lost reply looks from here.
		_, err := target.Client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			for i := range messages {
				p.XAdd(t.Context(), &redis.XAddArgs{Stream: k.stream, Values: []any{fieldPayload, i}})
			}
			p.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: k.group, Consumer: name, Streams: []string{k.stream, ">"}, Block: -1})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		cutConnections(t, target)
		awaitRest(t, target, k)
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
}

// cutOff: nor does a process look dead whose connections are all cut.
func cutOff(t *testing.T, target Target) {
	staysAlive(t, target, map[string]func(key string){
		"cut off": func(string) { cutConnections(t, target) },
	})
}

// cutConnections ends every connection to the target's database but the one that asks for it.
func cutConnections(t testing.TB, target Target) {
	t.Helper()
	client, ok := target.Client.(*redis.Client)
	if !ok {
		t.Fatalf("connections are cut through a *redis.Client, and the Client of %s is a %T: put ClientKill into Target.Lacks",
			target.Name, target.Client)
	}
	conn := client.Conn()
	defer conn.Close() //nolint:errcheck // the answers are in hand
	own, err := conn.ClientID(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	list, err := conn.ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for id := range connectionsOf(list, client.Options().DB) {
		if id != fmt.Sprint(own) {
			conn.Do(t.Context(), "CLIENT", "KILL", "ID", id)
		}
	}
}

// connectionsOf are the ids of the connections in an answer of CLIENT LIST that use the database.
func connectionsOf(list string, db int) map[string]bool {
	ids := map[string]bool{}
	for line := range strings.Lines(list) {
		id, database := "", ""
		for field := range strings.FieldsSeq(line) {
			name, value, _ := strings.Cut(field, "=")
			switch name {
			case "id":
				id = value
			case "db":
				database = value
			}
		}
		if database == fmt.Sprint(db) {
			ids[id] = true
		}
	}
	return ids
}
