package redisbroker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// reliable is a list that keeps what is in hand.
var reliable = broker.Source{Reliable: true, Block: time.Second}

// reads reads until the test's context ends, and sends what comes.
func (f *fixture) reads(ctx context.Context, want broker.Want) <-chan *broker.Delivery {
	came := make(chan *broker.Delivery, 1000)
	go func() {
		for ctx.Err() == nil {
			ds, err := f.sub.Read(ctx, want)
			f.hold(ds)
			for _, d := range ds {
				came <- d
			}
			if errors.Is(err, broker.ErrClosed) {
				return
			}
			if err != nil {
				time.Sleep(10 * time.Millisecond)
			}
		}
	}()
	return came
}

// beats runs the tasks until the returned function ends them.
func (f *fixture) beats() (end func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	tasks := f.sub.Tasks()
	for _, task := range tasks {
		go func() {
			task.Run(ctx)
			done <- struct{}{}
		}()
	}
	end = func() {
		if cancel == nil {
			return
		}
		cancel()
		cancel = nil
		for range tasks {
			<-done
		}
	}
	f.t.Cleanup(end)
	return end
}

func TestEverySettlementOfAnItemIsOneFencedStep(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := openList(t, client, b, reliable)
		for _, st := range []broker.Settlement{
			{Action: broker.Ack},
			{Action: broker.Copy},
			{Action: broker.Delay, Delay: time.Hour},
			{Action: broker.Bury, Target: "dlq", Burial: &broker.Burial{Reason: "rejected"}},
			{Action: broker.Defer, Delay: time.Hour, Limit: 2 * time.Hour},
		} {
			f.del("l", "dlq", "{l}:deferred")
			f.push("1")
			st.Delivery = f.gather(1)[0]
			if got := f.settle(st); got != broker.Done {
				t.Errorf("%s: %v", st.Action, got)
			}
			if got := f.settle(st); got != broker.Gone {
				t.Errorf("%s again: %v", st.Action, got)
			}
			wrote := map[string]int64{}
			for key, n := range map[string]int64{
				"l": client.LLen(t.Context(), "l").Val(), "dlq": client.LLen(t.Context(), "dlq").Val(),
				"{l}:deferred": client.ZCard(t.Context(), "{l}:deferred").Val(),
			} {
				if n > 0 {
					wrote[key] = n
				}
			}
			want := map[broker.Action]string{
				broker.Ack: "map[]", broker.Copy: "map[l:1]", broker.Delay: "map[{l}:deferred:1]",
				broker.Bury: "map[dlq:1]", broker.Defer: "map[{l}:deferred:1]",
			}[st.Action]
			if fmt.Sprint(wrote) != want || f.inFlight() != 0 {
				t.Errorf("%s wrote %v, %d in flight", st.Action, wrote, f.inFlight())
			}
		}
	})
}

func TestAnItemThatWasPutBackIsLostToItsOldOwner(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := openList(t, client, b, reliable)
		for _, st := range []broker.Settlement{
			{Action: broker.Ack},
			{Action: broker.Copy},
			{Action: broker.Delay, Delay: time.Hour},
			{Action: broker.Bury, Target: "dlq", Burial: &broker.Burial{Reason: "rejected"}},
			{Action: broker.Defer, Delay: time.Hour, Limit: 2 * time.Hour},
		} {
			f.push("1")
			st.Delivery = f.gather(1)[0]
			f.del(f.keys("{l}:inflight:*")...)
			if got := f.settle(st); got != broker.Lost {
				t.Errorf("%s: %v", st.Action, got)
			}
		}
		if n := f.exist("l", "dlq", "{l}:deferred"); n != 0 {
			t.Errorf("%d keys were written", n)
		}
	})
}

func TestAWriteThatFailsLeavesTheItemInFlight(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := openList(t, client, b, reliable)
		client.Set(t.Context(), "dlq", "a string", 0)
		client.Set(t.Context(), "{l}:deferred", "a string", 0)
		f.push("1", "2", "3")
		ds := f.gather(3)
		batch := []*broker.Settlement{
			{Delivery: ds[0], Action: broker.Bury, Target: "dlq", Burial: &broker.Burial{}},
			{Delivery: ds[1], Action: broker.Delay, Delay: time.Hour},
			{Delivery: ds[2], Action: broker.Copy},
		}
		f.sub.Settle(t.Context(), batch)
		for _, st := range batch[:2] {
			if st.Err == nil || !strings.Contains(st.Err.Error(), "WRONGTYPE") {
				t.Errorf("%s: %v %v", st.Action, st.Result, st.Err)
			}
		}
		if batch[2].Err != nil || f.inFlight() != 2 {
			t.Errorf("the failure spoiled its neighbour: %v; %d in flight", batch[2].Err, f.inFlight())
		}
		f.del("dlq", "{l}:deferred")
		f.sub.Settle(t.Context(), batch[:2])
		if batch[0].Result != broker.Done || batch[1].Result != broker.Done || f.inFlight() != 0 {
			t.Errorf("again: %v %v, %d in flight", batch[0], batch[1], f.inFlight())
		}
	})
}

// The script is carried out and its answer is lost. What is sent again must not remove the equal item beside it.
func TestASettlementThatIsSentAgainSparesAnEqualItem(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client()
		p := newCutter(t, client.Options())
		b := redisbroker.Standalone(p.url())
		t.Cleanup(func() { _ = b.Close(context.Background()) })
		f := openList(t, client, b, reliable)
		for _, st := range []broker.Settlement{
			{Action: broker.Ack},
			{Action: broker.Copy},
			{Action: broker.Delay, Delay: time.Hour},
			{Action: broker.Bury, Target: "dlq", Burial: &broker.Burial{Reason: "rejected"}},
		} {
			f.del("l", "dlq", "{l}:deferred")
			f.push("twin", "twin")
			ds := f.gather(2)
			st.Delivery = ds[0]
			p.cutReplyTo("evalsha")
			f.sub.Settle(t.Context(), []*broker.Settlement{&st})
			if st.Err == nil || !st.Repeated || f.inFlight() != 1 {
				t.Fatalf("%s: %v, repeated %v, %d in flight", st.Action, st.Err, st.Repeated, f.inFlight())
			}
			// Others are settled in between.
			f.push("other")
			if got := f.settle(broker.Settlement{Delivery: f.wait(), Action: broker.Ack}); got != broker.Done && st.Action != broker.Copy {
				t.Errorf("another one: %v", got)
			}
			f.sub.Settle(t.Context(), []*broker.Settlement{&st})
			if st.Err != nil || st.Result != broker.Gone {
				t.Errorf("%s again: %v %v", st.Action, st.Result, st.Err)
			}
			left := f.inFlight()
			if got := f.settle(broker.Settlement{Delivery: ds[1], Action: broker.Ack}); got != broker.Done || f.inFlight() != left-1 {
				t.Errorf("%s: its twin ended as %v, %d in flight", st.Action, got, f.inFlight())
			}
			if n := client.LLen(t.Context(), "dlq").Val() + client.ZCard(t.Context(), "{l}:deferred").Val(); n > 1 {
				t.Errorf("%s wrote %d times", st.Action, n)
			}
			for f.client.LLen(t.Context(), "l").Val() > 0 {
				f.settle(broker.Settlement{Delivery: f.wait(), Action: broker.Ack})
			}
		}
	})
}

// A command that was on its way for long is carried out after it was sent again, and finds an equal item.
func TestASettlementThatComesLateSparesAnEqualItem(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := openList(t, client, b, reliable)
		f.push("twin", "twin")
		ds := f.gather(2)
		if got := f.settle(broker.Settlement{Delivery: ds[0], Action: broker.Ack}); got != broker.Done {
			t.Fatal(got)
		}
		flight := f.keys("{l}:inflight:*")
		if len(flight) != 1 {
			t.Fatalf("in flight: %v", flight)
		}
		numbers := f.keys("{l}:settled:*")
		if len(numbers) != 1 || client.PTTL(t.Context(), numbers[0]).Val() <= 0 {
			t.Fatalf("numbers: %v", numbers)
		}
		// The same number again, from a connection of long ago, before and after a later settlement moved the floor.
		late := func() string {
			reply, err := client.Do(t.Context(), "EVALSHA", redisbroker.ListAckSHA, 2, flight[0], numbers[0], 0, 1000, 1, "twin").Slice()
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(reply)
		}
		if got := late(); got != "[gone]" {
			t.Errorf("answered %s", got)
		}
		for range 3 {
			f.push("other")
			f.settle(broker.Settlement{Delivery: f.gather(1)[0], Action: broker.Ack})
		}
		if got := late(); got != "[gone]" || f.inFlight() != 1 {
			t.Errorf("answered %s, %d in flight", got, f.inFlight())
		}
		if n := client.ZCard(t.Context(), numbers[0]).Val(); n > 3 {
			t.Errorf("%d numbers are remembered", n)
		}
	})
}

func TestADelayedItemComesBackWhenItIsDue(t *testing.T) {
	for _, set := range []string{"", "z"} {
		t.Run("delay-set "+set, func(t *testing.T) {
			each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
				source := reliable
				key := "{l}:deferred"
				if source.DelaySet = set; set != "" {
					key, source.DelayTTL = set, time.Hour
				}
				f := openList(t, client, b, source)
				if c := f.sub.Capabilities(); !c.DelaySet || !c.Acks || !c.PacksFailures {
					t.Errorf("capabilities %+v", c)
				}
				f.push("twin", "twin")
				ds := f.gather(2)
				before := client.Time(t.Context()).Val()
				for _, d := range ds {
					f.settle(broker.Settlement{Delivery: d, Action: broker.Delay, Delay: 300 * time.Millisecond, Edits: broker.Edits{
						Set: []broker.HeaderLine{{Name: "retry-count", Value: "1"}},
					}})
				}
				after := client.Time(t.Context()).Val()
				waiting := client.ZRangeWithScores(t.Context(), key, 0, -1).Val()
				if len(waiting) != 2 || f.inFlight() != 0 {
					t.Fatalf("waiting: %v, %d in flight", waiting, f.inFlight())
				}
				for _, z := range waiting {
					if due := time.UnixMilli(int64(z.Score)); due.Before(before.Add(299*time.Millisecond)) || due.After(after.Add(302*time.Millisecond)) {
						t.Errorf("due %s after the settlement", due.Sub(before))
					}
				}
				if ttl := client.PTTL(t.Context(), key).Val(); (set != "") != (ttl > time.Hour) {
					t.Errorf("the set lives for %s", ttl)
				}
				f.beats()
				for _, d := range f.gather(2) {
					if count, _ := d.Header("retry-count"); string(d.Body) != "twin" || count != "1" {
						t.Errorf("came back as %+v", d)
					}
				}
				if now := client.Time(t.Context()).Val(); now.Before(before.Add(300 * time.Millisecond)) {
					t.Errorf("came back after %s", now.Sub(before))
				}
			})
		})
	}
}

func TestAListsMemberThatNobodyCanDecodeIsBuried(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := openList(t, client, b, reliable)
		client.ZAdd(t.Context(), "{l}:deferred", redis.Z{Score: 1, Member: "foreign"})
		f.moved()
		letters := f.items("dlq")
		if len(letters) != 1 || !strings.Contains(letters[0], "foreign") || !strings.Contains(letters[0], "malformed") || f.count["malformed"] != 1 {
			t.Errorf("dead letters %q, counted %v", letters, f.count)
		}
	})
}

// What a later version of the library wrote is put off and comes back, byte for byte but for its headers.
func TestAMessageOfALaterVersionIsPutOffUntilItIsOverdue(t *testing.T) {
	paused(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		f := openList(t, client, process(), reliable)
		f.beats()
		f.push("\xd9\xd9\xf7\xda\x4d\x4c\x52\x31\x84\x02\x80\xa1\x01\x02\x63new")
		var waits []time.Duration
		for {
			d := f.wait()
			if !d.Newer || d.Fault != nil {
				t.Fatalf("read %+v", d)
			}
			began := time.Now()
			got := f.settle(broker.Settlement{Delivery: d, Action: broker.Defer, Delay: 30 * time.Second, Limit: 20 * time.Minute})
			if got == broker.Overdue {
				if got := f.settle(broker.Settlement{Delivery: d, Action: broker.Bury, Target: "dlq", Burial: &broker.Burial{Reason: "unknown_task"}}); got != broker.Done {
					t.Fatal(got)
				}
				break
			}
			for client.ZCard(t.Context(), "{l}:deferred").Val() > 0 {
				time.Sleep(time.Second)
			}
			waits = append(waits, time.Since(began))
		}
		if len(waits) < 6 || waits[0] < 30*time.Second || waits[0] > 32*time.Second || waits[len(waits)-1] > 5*time.Minute+2*time.Second {
			t.Errorf("waited %v", waits)
		}
		letters := f.items("dlq")
		if len(letters) != 1 || !strings.HasSuffix(letters[0], "\xa1\x01\x02\x63new") || strings.Count(letters[0], "unknown-since") != 1 {
			t.Errorf("the dead letter is %q", letters)
		}
	})
}

// Items whose owner dies are handled again, in the order in which they were taken, before newer ones, with one loss each.
func TestItemsOfADeadOwnerGoBackInOrder(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		dead := openList(t, client, process(), reliable)
		dead.push("1", "2", "3")
		dead.settle(broker.Settlement{Delivery: dead.gather(1)[0], Action: broker.Copy}) // "1" goes behind, and has an id
		dead.push("new")
		ds := dead.gather(3) // 2, 3, 1
		dead.push("newer")

		alive := openList(t, client, process(), reliable)
		alive.beats()
		got := alive.waitFor(5)
		if want := []string{"new", "newer", "2", "3", "1"}; !slices.Equal(bodies(got), want) {
			t.Fatalf("read %v, want %v", bodies(got), want)
		}
		for _, d := range got[2:] {
			if losses, _ := d.Header("losses"); losses != "1" {
				t.Errorf("%s has %q losses", d.Body, losses)
			}
			if id, _ := d.Header("message-id"); id == "" {
				t.Errorf("%s has no id", d.Body)
			}
		}
		for _, d := range ds {
			if got := dead.settle(broker.Settlement{Delivery: d, Action: broker.Copy}); got != broker.Lost {
				t.Errorf("the old owner's settlement: %v", got)
			}
		}
		for _, d := range got {
			alive.settle(broker.Settlement{Delivery: d, Action: broker.Ack})
		}
		alive.eventually("the dead owner leaves the registry", func() bool {
			return client.SCard(t.Context(), "{l}:owners").Val() == 1 && len(alive.keys("{l}:inflight:*")) == 0
		})
		if n := client.LLen(t.Context(), "l").Val(); n != 0 {
			t.Errorf("%d items are left", n)
		}
	})
}

// waitFor reads until n items have come. What it holds, it keeps.
func (f *fixture) waitFor(n int) []*broker.Delivery {
	f.t.Helper()
	var all []*broker.Delivery
	for deadline := time.Now().Add(20 * ttl); len(all) < n; {
		all = append(all, f.read(n-len(all))...)
		if time.Now().After(deadline) {
			f.t.Fatalf("only %v came", bodies(all))
		}
	}
	return all
}

func (f *fixture) eventually(what string, ok func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(20 * ttl); !ok(); {
		if time.Now().After(deadline) {
			f.t.Fatalf("not so: %s; keys %v", what, f.keys("*"))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A process that starts while another one has items in hand leaves them alone, however long.
func TestItemsOfALivingOwnerAreLeftAlone(t *testing.T) {
	paused(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		slow := openList(t, client, process(), reliable)
		slow.beats()
		slow.push("1", "2")
		ds := slow.gather(2)
		other := openList(t, client, process(), reliable)
		other.beats()
		came := other.reads(t.Context(), broker.Want{New: 10, Back: 10})
		time.Sleep(time.Minute)
		if len(came) > 0 || slow.inFlight() != 2 || len(slow.lost) > 0 {
			t.Errorf("%d were taken, %d are in flight, lost %v", len(came), slow.inFlight(), slow.lost)
		}
		for _, d := range ds {
			if got := slow.settle(broker.Settlement{Delivery: d, Action: broker.Ack}); got != broker.Done {
				t.Errorf("%s: %v", d.Body, got)
			}
		}
		other.sub.Stop(t.Context())
	})
}

// Nobody is judged in one look, nor by a process that has only just begun to show that it is alive.
func TestADeadOwnerIsFoundInTwoLooks(t *testing.T) {
	paused(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		const long = 30 * time.Second
		slow := openList(t, client, process(redisbroker.Liveness(long)), reliable)
		end := slow.beats()
		key := slow.keys("{l}:alive::*")
		slow.push("1")
		slow.gather(1)
		judge := openList(t, client, process(redisbroker.Liveness(long)), reliable)
		judge.beats()
		time.Sleep(2*long + time.Second) // between two beats
		// The key is gone for a moment: somebody deleted it, or the server came back without it.
		slow.del(key...)
		time.Sleep(long)
		if slow.inFlight() != 1 || len(slow.lost) > 0 {
			t.Fatalf("%d in flight, lost %v", slow.inFlight(), slow.lost)
		}
		end()
		stopped := time.Now()
		for slow.inFlight() > 0 {
			time.Sleep(time.Second)
		}
		if took := time.Since(stopped); took < long/3 || took > 2*long {
			t.Errorf("the owner was judged after %s", took)
		}
	})
}

// The process stands still for longer than its key lives. What it had in hand was put back, and it learns so.
func TestAnOwnerThatStoodStillLearnsWhatItHasLost(t *testing.T) {
	paused(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		frozen := openList(t, client, process(), reliable)
		frozen.push("twin", "1")
		old := frozen.gather(2)
		peer := openList(t, client, process(), reliable)
		end := peer.beats()
		frozen.eventually("the items are put back", func() bool { return client.LLen(t.Context(), "l").Val() == 2 })
		end()
		// An equal item comes, and goes to another list.
		frozen.del("l")
		frozen.push("twin")
		twin := frozen.wait()
		if got := frozen.settle(broker.Settlement{Delivery: old[0], Action: broker.Ack}); got != broker.Lost {
			t.Errorf("the item whose twin came: %v", got)
		}
		frozen.beats()
		frozen.eventually("it learns of its losses", func() bool {
			frozen.mu.Lock()
			defer frozen.mu.Unlock()
			return len(frozen.lost) == 1 && frozen.lost[0] == old[1].ID
		})
		if got := frozen.settle(broker.Settlement{Delivery: old[1], Action: broker.Ack}); got != broker.Lost {
			t.Errorf("%s: %v", old[1].Body, got)
		}
		if n := frozen.inFlight(); n != 1 {
			t.Errorf("%d in flight", n)
		}
		if got := frozen.settle(broker.Settlement{Delivery: twin, Action: broker.Ack}); got != broker.Done {
			t.Errorf("the twin: %v", got)
		}
		frozen.eventually("the old list is left", func() bool { return client.SCard(t.Context(), "{l}:owners").Val() == 2 })
	})
}

// The server moves an item for a read whose connection is cut.
func TestAnItemWhoseReadWasCutIsFound(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client()
		for _, command := range []string{"evalsha", "blmove"} {
			client.FlushAll(t.Context())
			p := newCutter(t, client.Options())
			b := redisbroker.Standalone(p.url())
			f := openList(t, client, b, reliable)
			if command == "evalsha" {
				f.push("1", "1", "2")
			}
			p.cutReplyTo(command)
			if command == "blmove" {
				go func() {
					time.Sleep(100 * time.Millisecond)
					f.push("1", "1", "2")
				}()
			}
			if ds, err := f.sub.Read(t.Context(), broker.Want{New: 10, Back: 10}); err == nil {
				t.Fatalf("%s: read %v", command, bodies(ds))
			}
			if got := bodies(f.waitFor(3)); !slices.Equal(got, []string{"1", "1", "2"}) {
				t.Errorf("%s: read %v", command, got)
			}
			for range 3 {
				if ds := f.read(10); len(ds) > 0 {
					t.Errorf("%s: twice: %v", command, bodies(ds))
				}
			}
			_ = f.sub.Release(t.Context(), nil)
			_ = b.Close(t.Context())
		}
	})
}

// Under a fixed name a new process takes at once what the one before it had.
func TestAFixedNameTakesOverWhatItsPredecessorHad(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		before := openList(t, client, process(redisbroker.Consumer("fixed")), reliable)
		before.push("1", "2")
		before.gather(2)
		// It waits until the key of its predecessor has ended.
		after := openList(t, client, process(redisbroker.Consumer("fixed")), reliable)
		after.beats()
		if got := bodies(after.waitFor(2)); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("read %v", got)
		}
		if got := before.settle(broker.Settlement{Delivery: before.first(), Action: broker.Ack}); got != broker.Lost {
			t.Errorf("the predecessor: %v", got)
		}
	})
}

// first is a delivery that is in hand.
func (f *fixture) first() *broker.Delivery {
	for id := range f.hand {
		return &broker.Delivery{ID: id, Count: 1}
	}
	return nil
}

// What stands aside is charged with no death, and what is in a slot is.
func TestWhatStandsAsideIsNotCharged(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		dead := openList(t, client, process(), reliable)
		dead.push("aside", "back", "runs")
		ds := dead.gather(3)
		keep := func(d *broker.Delivery, from, to int64) {
			t.Helper()
			copied := *d
			copied.Count = from
			if got := dead.settle(broker.Settlement{Delivery: &copied, Action: broker.Keep, Count: to}); got != broker.Done {
				t.Fatalf("%s: %v", d.Body, got)
			}
		}
		keep(ds[0], 1, 0)
		keep(ds[1], 1, 0)
		keep(ds[1], 0, 1)
		alive := openList(t, client, process(), reliable)
		alive.beats()
		for _, d := range alive.waitFor(3) {
			losses, _ := d.Header("losses")
			if want := map[string]string{"aside": "", "back": "1", "runs": "1"}[string(d.Body)]; losses != want {
				t.Errorf("%s has %q losses", d.Body, losses)
			}
		}
	})
}

// Items that have outlived an owner are taken into free slots only.
func TestWhatWasPutBackIsNotReadAhead(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := openList(t, client, b, reliable)
		suspect := func(i int) string {
			return "\xd9\xd9\xf7\xda\x4d\x4c\x52\x31\x83\x01\x81\x82\x46losses\x411\x41" + strconv.Itoa(i)
		}
		f.push("0", suspect(1), suspect(2), "3")
		ds, err := f.sub.Read(t.Context(), broker.Want{New: 10, Back: 1})
		if got := bodies(ds); err != nil || !slices.Equal(got, []string{"0", "1"}) {
			t.Errorf("read %v, %v", got, err)
		}
		began := time.Now()
		if ds, err = f.sub.Read(t.Context(), broker.Want{New: 10}); err != nil || len(ds) > 0 {
			t.Errorf("read %v, %v", bodies(ds), err)
		}
		if took := time.Since(began); took < 50*time.Millisecond || took > 900*time.Millisecond {
			t.Errorf("it waited for %s", took)
		}
		if got := bodies(f.gather(2)); !slices.Equal(got, []string{"2", "3"}) {
			t.Errorf("read %v", got)
		}
	})
}

// A process is killed while its read waits: what the server then moves for it is handled by a peer.
func TestAnItemThatAKilledReadIsGivenIsNotLost(t *testing.T) {
	peers(t, func(t *testing.T, client *redis.Client, process func(...redisbroker.Option) *redisbroker.Broker) {
		source := reliable
		source.Block = time.Minute
		dead := openList(t, client, process(), source)
		peer := openList(t, client, process(), reliable)
		peer.beats()
		// The server goes on with a read that nobody waits for.
		killed, kill := context.WithCancel(t.Context())
		dead.reads(killed, broker.Want{New: 1, Back: 1})
		time.Sleep(ttl / 4)
		kill()
		peer.push("1")
		peer.eventually("the item is taken", func() bool { return client.LLen(t.Context(), "l").Val() == 0 })
		if got := bodies(peer.waitFor(1)); !slices.Equal(got, []string{"1"}) {
			t.Errorf("read %v", got)
		}
	})
}
