package redisbroker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// retains opens a subscription whose stream keeps what r says.
func retains(r broker.Retention) func(*broker.Config) {
	return func(c *broker.Config) { c.Retain = r }
}

// trim is one round, and what is left.
func (f *fixture) trim() int64 {
	f.t.Helper()
	return f.trimBetween(nil)
}

func (f *fixture) trimBetween(between func()) int64 {
	f.t.Helper()
	if err := redisbroker.Trim(f.t.Context(), f.sub, between); err != nil {
		f.t.Fatal(err)
	}
	return f.client.XLen(f.t.Context(), "s").Val()
}

// wantLeft fails unless one round leaves so many entries.
func (f *fixture) wantLeft(what string, want int64) {
	f.t.Helper()
	if got := f.trim(); got != want {
		f.t.Errorf("%s: XLEN %d, want %d", what, got, want)
	}
}

// fill adds n entries.
func (f *fixture) fill(n int) []string {
	f.t.Helper()
	added := make([]*redis.StringCmd, n)
	_, err := f.client.Pipelined(f.t.Context(), func(p redis.Pipeliner) error {
		for i := range added {
			added[i] = p.XAdd(f.t.Context(), &redis.XAddArgs{Stream: "s", Values: []string{"_payload", strconv.Itoa(i)}})
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	ids := make([]string, n)
	for i, cmd := range added {
		ids[i] = cmd.Val()
	}
	return ids
}

// readAll has the subscription's own group read everything.
func (f *fixture) readAll(n int) []*broker.Delivery {
	f.t.Helper()
	var all []*broker.Delivery
	for len(all) < n {
		all = append(all, f.read(n)...)
	}
	return all
}

func (f *fixture) ackAll(ds []*broker.Delivery) {
	f.t.Helper()
	batch := make([]*broker.Settlement, len(ds))
	for i, d := range ds {
		batch[i] = &broker.Settlement{Delivery: d, Action: broker.Ack}
	}
	f.sub.Settle(f.t.Context(), batch)
	for _, st := range batch {
		if st.Err != nil || st.Result != broker.Done {
			f.t.Fatalf("acknowledged: %s, %v", st.Result, st.Err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range ds {
		delete(f.hand, d.ID)
	}
}

// otherGroup makes a group of somebody else's, and other has it read n entries.
func (f *fixture) otherGroup() {
	f.t.Helper()
	if err := f.client.XGroupCreateMkStream(f.t.Context(), "s", "other", "0").Err(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) other(n int) {
	f.t.Helper()
	err := f.client.XReadGroup(f.t.Context(), &redis.XReadGroupArgs{
		Group: "other", Consumer: "foreign", Streams: []string{"s", ">"}, Count: int64(n), Block: -1,
	}).Err()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) otherAcks(ids ...string) {
	f.t.Helper()
	if err := f.client.XAck(f.t.Context(), "s", "other", ids...).Err(); err != nil {
		f.t.Fatal(err)
	}
}

func TestNothingThatAGroupNeedsIsRemoved(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second}, retains(broker.Retention{DeleteAcked: true}))
		f.otherGroup()
		ids := f.fill(1000)
		f.wantLeft("nobody has read", 1000)
		mine := f.readAll(1000)
		f.wantLeft("all pending in one group, none read in the other", 1000)
		f.ackAll(mine)
		f.wantLeft("one group is done, the other has not begun", 1000)
		f.other(600)
		f.wantLeft("the other has 600 pending", 1000)
		f.otherAcks(ids[:250]...)
		f.otherAcks(ids[300:]...)
		f.wantLeft("the other has acknowledged 250, holds 50, has acknowledged 300 and not been given 400", 750)
		f.otherAcks(ids[250:300]...)
		f.wantLeft("the other has acknowledged 600", 400)
		f.other(400)
		f.otherAcks(ids...)
		f.wantLeft("both are done", 0)
		if n := f.count["trimmed s"]; n != 1000 {
			t.Errorf("counted %d, want 1000", n)
		}
		f.fill(1)
		if d := f.one(); len(d.Body) == 0 {
			t.Errorf("read %+v from the stream that was emptied", d)
		}
	})
}

func TestABoundIsExact(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second}, retains(broker.Retention{Last: 10}))
		var ids []string
		for _, n := range []int{9, 1, 1, 100, 257} {
			ids = append(ids, f.fill(n)...)
			held := f.readAll(n)
			left := f.trim()
			if first := f.oldest(); first != ids[len(ids)-int(left)] || left < int64(n) {
				t.Errorf("%d pending: %d are left from %s on, want those pending", n, left, first)
			}
			f.ackAll(held)
			want := min(10, len(ids))
			f.wantLeft(fmt.Sprintf("%d acknowledged", n), int64(want))
			if first := f.oldest(); first != ids[len(ids)-want] {
				t.Errorf("the first is %s, want the %dth from the end, %s", first, want, ids[len(ids)-want])
			}
		}
	})
}

// oldest is the id of the oldest entry.
func (f *fixture) oldest() string {
	f.t.Helper()
	entries, err := f.client.XRangeN(f.t.Context(), "s", "-", "+", 1).Result()
	if err != nil || len(entries) == 0 {
		f.t.Fatalf("XRANGE: %v, %v", entries, err)
	}
	return entries[0].ID
}

func TestWhatIsPendingOutlivesEveryBound(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second}, retains(broker.Retention{Last: 10, For: time.Millisecond}))
		ids := f.fill(100)
		f.readAll(100)
		f.trim()
		for _, id := range ids {
			if entries := client.XRange(t.Context(), "s", id, id).Val(); len(entries) != 1 {
				t.Fatalf("%s is pending and was removed", id)
			}
		}
	})
}

func TestAnEntryStaysAsLongAsItIsToBeKept(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		now, err := client.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		ages := func(from, to time.Duration) (ids []string) {
			for age := from; age >= to; age -= time.Minute {
				ids = append(ids, fmt.Sprintf("%d-7", now.Add(-age).UnixMilli()))
			}
			return ids
		}
		old, young := ages(4*time.Hour, 61*time.Minute), ages(59*time.Minute, 0)
		for _, id := range slices.Concat(old, young) {
			if err := client.XAdd(t.Context(), &redis.XAddArgs{Stream: "s", ID: id, Values: []string{"_payload", ""}}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		f := open(t, client, b, broker.Source{Block: time.Second, Start: "0"}, retains(broker.Retention{For: time.Hour}))
		f.wantLeft("none was read", int64(len(old)+len(young)))
		f.ackAll(f.readAll(len(old) + len(young)))
		f.wantLeft("those within the hour", int64(len(young)))
		if first := f.oldest(); first != young[0] {
			t.Errorf("the first is %s, want %s", first, young[0])
		}

		// Of two bounds each holds.
		f = open(t, client, b, broker.Source{Block: time.Second}, retains(broker.Retention{For: time.Hour, Last: 20}))
		f.wantLeft("the last 20", 20)
		f = open(t, client, b, broker.Source{Block: time.Second}, retains(broker.Retention{For: 9*time.Minute + 30*time.Second, Last: 20}))
		f.wantLeft("the last ten minutes", 10)
	})
}

// Ids are two numbers of 64 bits, and whoever adds an entry may choose them.
func TestIdsOfAnySizeAreCompared(t *testing.T) {
	const most = "18446744073709551615"
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second}, retains(broker.Retention{DeleteAcked: true}))
		f.otherGroup()
		ids := []string{"1-9", "1-10", "9-99", "10-1", "10-" + most, "99-9007199254740993", "99-9007199254740994", "9007199254740993-0"}
		for _, id := range ids {
			if err := client.XAdd(t.Context(), &redis.XAddArgs{Stream: "s", ID: id, Values: []string{"_payload", ""}}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		f.ackAll(f.readAll(len(ids)))
		for i, id := range ids {
			f.other(1)
			f.wantLeft("pending from "+id+" on", int64(len(ids)-i))
			f.otherAcks(id)
			f.wantLeft("delivered up to "+id, int64(len(ids)-i-1))
		}
	})
}

// A group that is lost is made again by its readers, a moment later.
func TestWhatALostGroupNeededIsNotRemoved(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		f := open(t, client, b, broker.Source{Block: time.Second}, retains(broker.Retention{Last: 1}))
		f.otherGroup()
		f.fill(500)
		f.ackAll(f.readAll(500))
		f.other(300)
		destroy := func(group string) {
			if n := client.XGroupDestroy(t.Context(), "s", group).Val(); n != 1 {
				t.Errorf("%d groups destroyed", n)
			}
		}
		if left := f.trimBetween(func() { destroy("other") }); left != 500 {
			t.Errorf("another group was lost before anything was removed: XLEN %d, want 500", left)
		}
		f.otherGroup()
		if left := f.trimBetween(func() { destroy("g") }); left != 500 {
			t.Errorf("our own group was lost: XLEN %d, want 500", left)
		}
		f.wantLeft("our own group is lost", 500)
	})
}

// A hundred thousand entries go in steps that keep nobody waiting. How long one step takes on a machine that has other things
// to do is told by their mean.
func TestAHugeBacklogIsRemovedInSteps(t *testing.T) {
	const entries, most, longest = 100_000, 1000, 10 * time.Millisecond
	for name, retain := range map[string]broker.Retention{"KeepLast": {Last: 50_077}, "DeleteAcked": {DeleteAcked: true}} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, server *redistest.Server) {
				server = server.Own(t) // its statistics are the whole server's
				client := server.Client()
				b := redisbroker.Standalone(server.URL())
				t.Cleanup(func() { _ = b.Close(context.Background()) })
				steps := 0
				f := open(t, client, b, broker.Source{Block: time.Second}, retains(retain), func(c *broker.Config) {
					c.Trimmed = func(_ string, n int64) {
						if steps++; n > most {
							t.Errorf("one step removed %d", n)
						}
					}
				})
				if err := client.Eval(t.Context(), `for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', '_payload', ARGV[2]) end`,
					[]string{"s"}, entries, strings.Repeat("x", 500)).Err(); err != nil && !errors.Is(err, redis.Nil) {
					t.Fatal(err)
				}
				if err := client.XGroupSetID(t.Context(), "s", "g", "$").Err(); err != nil {
					t.Fatal(err)
				}
				if err := client.ConfigResetStat(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				f.wantLeft("the backlog", retain.Last)
				var calls, spent int64
				stats := client.Info(t.Context(), "commandstats").Val()
				_, line, _ := strings.Cut(stats, "cmdstat_evalsha:")
				if _, err := fmt.Sscanf(line, "calls=%d,usec=%d", &calls, &spent); err != nil {
					t.Fatalf("%q: %v", stats, err)
				}
				mean := time.Duration(spent/calls) * time.Microsecond
				t.Logf("%d entries in %d steps of %s", entries-retain.Last, steps, mean)
				if mean > longest {
					t.Errorf("a step takes %s, want %s at most", mean, longest)
				}
			})
		})
	}
}

func TestAGroupThatNobodyReadsIsNamed(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, b *redisbroker.Broker) {
		var text bytes.Buffer
		f := open(t, client, b, broker.Source{Block: time.Second}, retains(broker.Retention{DeleteAcked: true}),
			func(c *broker.Config) { c.Logger = slog.New(slog.NewTextHandler(&text, nil)) })
		said := func(what, want string, times int) {
			t.Helper()
			if n := strings.Count(text.String(), want); n != times {
				t.Errorf("%s: the log says %d times %q, want %d:\n%s", what, n, want, times, &text)
			}
		}
		const unread, over = "XGROUP DESTROY s other", "does not keep entries any more"
		f.otherGroup()
		for range 3 {
			f.trim()
		}
		said("nothing is kept from being removed", unread, 0)
		ids := f.fill(3)
		f.ackAll(f.readAll(3))
		f.trim()
		said("a deployment may be under way", unread, 0)
		for range 3 {
			f.trim()
		}
		said("nobody reads the group", unread, 1)
		for _, want := range []string{"stream=s", "group=other", "level=WARN"} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("the log does not say %q:\n%s", want, &text)
			}
		}
		f.other(3)
		f.otherAcks(ids...)
		for range 3 {
			f.trim()
		}
		said("the group is done", over, 1)
		said("the group is done", unread, 1)

		// A reader that lives is no reason for a warning, however long it takes.
		f.fill(3)
		f.ackAll(f.readAll(3))
		f.other(1)
		if err := client.Set(t.Context(), "{s}:alive:other:foreign", "token", 0).Err(); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			f.trim()
		}
		said("the group is read slowly", unread, 1)
	})
}
