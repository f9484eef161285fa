package redisbroker_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
)

// longBlock is longer than an entry that is pending again may take to be found.
const longBlock = 6 * time.Second

// rollBack makes an entry that was settled pending again, under this consumer and with this count: the server has lost the
// outcome, as a replica that lagged and became the master has, or a server that was restarted from an older state.
func (f *fixture) rollBack(consumer, id string, count int64) {
	f.t.Helper()
	claim := []any{"XCLAIM", "s", "g", consumer, 0, id, "IDLE", 0, "RETRYCOUNT", count, "FORCE", "JUSTID"}
	if err := f.client.Do(f.t.Context(), claim...).Err(); err != nil {
		f.t.Fatal(err)
	}
	if p := f.pending(); len(p) == 0 {
		f.t.Fatal("nothing is pending again")
	}
}

// An outcome that the server has lost is found by the process that gave it, without a stop and uncharged, although nothing
// has failed there and the read blocks for long.
func TestAnEntryWhoseOutcomeTheServerLostIsHandledAgain(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		for name, source := range map[string]broker.Source{
			"plain":   {Block: longBlock},
			"reclaim": {Block: longBlock, Reclaim: ttl},
		} {
			t.Run(name, func(t *testing.T) {
				client.FlushDB(t.Context())
				f := open(t, client, process(), source)
				me := f.consumer()
				f.start()
				if source.Reclaim > 0 {
					for range 2 {
						f.add("_payload", "b")
					}
					client.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "g", Consumer: "dead", Streams: []string{"s", ">"}})
				} else {
					f.add("_payload", "b")
					f.add("_payload", "b")
				}
				settled, held := f.wait(), f.wait()
				if got := f.settle(broker.Settlement{Delivery: settled, Action: broker.Ack}); got != broker.Done {
					t.Fatal(got)
				}
				began := time.Now()
				f.rollBack(me, settled.ID, settled.Count)
				at, came := f.collect(1)[settled.ID]
				// A TTL, a third of it between two looks, and the keeper's second.
				if took := at.Sub(began); !came || took < ttl || took > 4*ttl {
					t.Errorf("came: %v, after %s, and %s is in hand", came, took, held.ID)
				}
				if p := f.pending(); len(p) != 2 || p[0].RetryCount != settled.Count {
					t.Errorf("pending %v, want a count of %d", p, settled.Count)
				}
				for _, d := range []*broker.Delivery{settled, held} {
					f.settle(broker.Settlement{Delivery: d, Action: broker.Ack})
				}
				if p := f.pending(); len(p) != 0 {
					t.Errorf("pending %v", p)
				}
			})
		}
	})
}

// Claiming needs no look of its own.
func TestAClaimedEntryWhoseOutcomeTheServerLostComesBackAsAnyThatIsIdle(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: 200 * time.Millisecond, Claim: ttl})
		me := f.consumer()
		f.start()
		f.add("_payload", "b")
		settled := f.wait()
		f.settle(broker.Settlement{Delivery: settled, Action: broker.Ack})
		f.rollBack(me, settled.ID, settled.Count)
		if d := f.wait(); d.ID != settled.ID || d.Count != 2 {
			t.Errorf("got %s with count %d", d.ID, d.Count)
		}
	})
}

// What looks idle although it is in hand is not handed out, however much of it there is, and hides nothing behind it.
func TestWhatIsInHandHidesNoStray(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: longBlock})
		me := f.consumer()
		const inHand = 2500
		var ids []string
		for range inHand {
			ids = append(ids, f.add("_payload", "trimmed while in hand, which nothing refreshes"))
		}
		f.collect(inHand)
		f.add("_payload", "settled")
		settled := f.wait()
		client.XDel(t.Context(), "s", ids...)
		f.settle(broker.Settlement{Delivery: settled, Action: broker.Ack})
		f.rollBack(me, settled.ID, settled.Count)
		f.start()
		if got := f.collect(1); got[settled.ID].IsZero() {
			t.Errorf("got %v, want %s", got, settled.ID)
		}
		left := client.XPendingExt(t.Context(), &redis.XPendingExtArgs{Stream: "s", Group: "g", Start: "-", End: "+", Count: 2 * inHand}).Val()
		if len(left) != inHand+1 {
			t.Errorf("%d entries are pending, want %d: a trimmed one in hand is still ours to settle", len(left), inHand+1)
		}
	})
}

// However many there are, each is handed out once.
func TestManyStraysAreFoundOneReadAfterTheOther(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := open(t, client, process(), broker.Source{Block: longBlock})
		me := f.consumer()
		const strays = 1500
		var all []*broker.Delivery
		for range strays {
			f.add("_payload", "settled")
		}
		for len(all) < strays {
			all = append(all, f.read(strays)...)
		}
		for _, d := range all {
			f.settle(broker.Settlement{Delivery: d, Action: broker.Ack})
			f.rollBack(me, d.ID, 1)
		}
		f.start()
		if got := f.collect(strays); len(got) != strays {
			t.Errorf("%d came", len(got))
		}
	})
}
