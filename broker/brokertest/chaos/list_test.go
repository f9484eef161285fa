//go:build unix

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// listScene is a scene of one reliable list.
type listScene struct {
	*scene
	m mount
}

func newListScene(t testing.TB, server *redistest.Server, m mount) *listScene {
	m.Reliable = true
	return &listScene{newScene(t, server.Client(), order{URL: server.URL(), Liveness: ttl, Grace: time.Second, Mounts: []mount{m}}), m}
}

// push publishes the jobs to the list; the key is the message's id, too.
func (s *listScene) push(jobs ...job) {
	s.t.Helper()
	b := redisbroker.Standalone(s.order.URL)
	defer b.Close(s.t.Context())
	for batch := range slices.Chunk(jobs, page) {
		messages := make([]broker.Outgoing, len(batch))
		for i, j := range batch {
			messages[i] = broker.NewOutgoing(broker.List(s.m.Stream), j.encode(), broker.Header(broker.HeaderMessageID, j.Key))
		}
		for _, err := range b.Publish(s.t.Context(), messages) {
			if err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// held is what is in hand of each owner in the registry, dead ones too.
func (s *listScene) held(ctx context.Context) (map[string]int64, error) {
	base := "{" + s.m.Stream + "}"
	owners, err := s.client.SMembers(ctx, base+":owners").Result()
	held := map[string]int64{}
	for _, owner := range owners {
		for _, kind := range []string{":inflight::", ":aside::"} {
			n, lenErr := s.client.LLen(ctx, base+kind+owner).Result()
			if lenErr != nil {
				err = lenErr
			}
			held[owner] += n
		}
	}
	return held, err
}

// listAtRest reports whether nothing waits, is in hand or delayed.
func (s *listScene) listAtRest() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	held, err := s.held(ctx)
	if err != nil {
		return false
	}
	for _, n := range held {
		if n > 0 {
			return false
		}
	}
	if n, err := s.client.ZCard(ctx, s.m.DelaySet).Result(); err != nil || n > 0 {
		return false
	}
	n, err := s.client.LLen(ctx, s.m.Stream).Result()
	return err == nil && n == 0
}

// awaitListRest waits until nothing is left to do: in three looks in a row, because a message moves between them.
func (s *listScene) awaitListRest(limit time.Duration) {
	s.t.Helper()
	deadline := time.Now().Add(limit)
	for rests := 0; rests < 3; time.Sleep(10 * time.Millisecond) {
		if rests++; !s.listAtRest() {
			rests = 0
		}
		if time.Now().After(deadline) {
			held, err := s.held(context.Background())
			s.t.Errorf("never within %s: everything is settled; in hand %v %v, waiting %d, delayed %d", limit, held, err,
				s.client.LLen(context.Background(), s.m.Stream).Val(), s.client.ZCard(context.Background(), s.m.DelaySet).Val())
			return
		}
	}
}

// listLetters reads the dead letters by key.
func (s *listScene) listLetters() map[string][]letter {
	s.t.Helper()
	items, err := s.client.LRange(s.t.Context(), s.m.DeadLetter, 0, -1).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	letters := map[string][]letter{}
	for _, item := range items {
		var array struct {
			_       struct{} `cbor:",toarray"`
			Version int
			Headers [][2][]byte
			Body    []byte
		}
		if err := cbor.NewDecoder(bytes.NewReader([]byte(item[8:]))).Decode(&array); err != nil {
			s.t.Fatalf("dead letter %q: %v", item, err)
		}
		values := map[string]string{}
		for _, h := range array.Headers {
			values[string(h[0])] = string(h[1])
		}
		var j job
		if err := json.Unmarshal(array.Body, &j); err != nil {
			s.t.Fatalf("dead letter %q: %v", item, err)
		}
		letters[j.Key] = append(letters[j.Key], letter{
			reason: values[broker.FieldReason], attempts: values[broker.FieldAttempts], losses: values[broker.FieldLosses],
			messageID: values[broker.HeaderMessageID], by: signatureIn(values[broker.FieldError]),
		})
	}
	return letters
}

// judgeList gives the verdict: every attempt of every job was made, none without a reason twice, and no dead letter is
// missing or one too many.
func (s *listScene) judgeList(jobs []job) {
	s.t.Helper()
	v := verdict{mount: s.m, jobs: jobs, calls: callsOf(s.calls(), s.m), ledger: &ledger{letters: s.listLetters()}, inHand: s.inHand}
	byKey := map[string]map[int][]*call{}
	for _, c := range v.calls {
		if byKey[c.key] == nil {
			byKey[c.key] = map[int][]*call{}
		}
		byKey[c.key][c.attempt] = append(byKey[c.key][c.attempt], c)
	}
	for _, j := range jobs {
		attempts, buried := j.course(s.m.MaxAttempts)
		calls := byKey[j.Key]
		for attempt := range calls {
			if attempt < 1 || attempt > attempts {
				v.fault("%s: called at attempt %d of %d: %v", j.Key, attempt, attempts, calls[attempt][0])
			}
		}
		for attempt := 1; attempt <= attempts; attempt++ {
			if len(calls[attempt]) == 0 {
				v.fault("%s: lost: attempt %d of %d was never made", j.Key, attempt, attempts)
				continue
			}
			slices.SortFunc(calls[attempt], func(a, b *call) int { return a.losses - b.losses })
			v.judgeReruns(calls[attempt])
			v.judgeDelay(j.at(attempt), calls[attempt], calls[attempt+1])
		}
		v.judgeLetters(j, attempts, buried, calls[attempts])
	}
	s.t.Logf("%d messages, %d calls, %d of them again; %d dead letters", len(jobs), len(v.calls), v.reruns, v.letters)
	for i, fault := range v.faults {
		if i == shownFaults {
			s.t.Errorf("and %d faults more", len(v.faults)-i)
			break
		}
		s.t.Error(fault)
	}
	if keys := s.client.Keys(s.t.Context(), "{"+s.m.Stream+"}:inflight*").Val(); len(keys) > 0 {
		s.t.Errorf("in-flight lists are left: %v", keys)
	}
}

// harmList is harm for a list.
func (s *listScene) harmList(period time.Duration, most int, what func(*process)) (times int) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for ; times < most && !s.listAtRest(); times++ {
		<-ticker.C
		if p := s.any(); p != nil {
			what(p)
		}
	}
	s.awaitListRest(2 * patience)
	return times
}

// Three workers are killed, frozen or stopped again and again while they work on a reliable list.
func TestAReliableListLosesAndDoublesNothing(t *testing.T) {
	raced(t)
	for name, harm := range map[string]struct {
		period  time.Duration
		times   int
		longest time.Duration
		what    func(*process)
	}{
		"kills":   {500 * time.Millisecond, pick(30, 300), 10 * time.Millisecond, (*process).kill},
		"freezes": {1500 * time.Millisecond, pick(5, 40), 50 * time.Millisecond, func(p *process) { p.freeze(3 * ttl) }},
		"stops":   {300 * time.Millisecond, pick(20, 200), 20 * time.Millisecond, (*process).terminate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := newListScene(t, server, mount{
				Stream: "list", DeadLetter: "list.dlq", DelaySet: "list.delayed", MaxAttempts: 3, MaxDeliveries: 1000,
				Backoff: 50 * time.Millisecond, Concurrency: 10, Block: time.Second,
			})
			jobs := mixedJobs("m", brief(2_000, pick(10_000, 50_000)), harm.longest)
			s.push(jobs...)
			s.keep(3)
			from := time.Now()
			n := s.harmList(harm.period, brief(4, harm.times), harm.what)
			t.Logf("%s: %d within %s", name, n, time.Since(from).Round(time.Millisecond))
			s.stop()
			s.judgeList(jobs)
		})
	}
}

// What a killed worker had in hand is handled in the order in which it was taken, and the workers' registry ends empty.
func TestItemsOfAKilledWorkerKeepTheirOrder(t *testing.T) {
	chaotic(t)
	const inHand, all = 21, 60
	server := redistest.Start(t)
	s := newListScene(t, server, mount{Stream: "order", Concurrency: 1, Prefetch: inHand - 1, Block: time.Second})
	jobs := ordinary(all, 0)
	jobs[0].Steps[0].Gate = s.gate("first")
	s.push(jobs[:inHand]...)
	first := s.start()
	s.awaitCall(patience, jobs[0].Key, 1)
	await(t, patience, "items are read ahead", func() bool {
		held, err := s.held(t.Context())
		for _, n := range held {
			if n == inHand {
				return err == nil
			}
		}
		return false
	})
	first.kill()
	<-first.done
	s.open("first")
	s.push(jobs[inHand:]...)
	s.keep(1)
	s.awaitListRest(patience)
	s.stop()
	s.judgeList(jobs)
	var order []string
	for _, c := range callsOf(s.calls(), s.m) {
		if c.losses == 1 {
			order = append(order, c.key)
		}
	}
	var want []string
	for _, j := range jobs[:inHand] {
		want = append(want, j.Key)
	}
	if !slices.Equal(order, want) {
		t.Errorf("run again in the order %v", order)
	}
	if keys := server.Client().Keys(t.Context(), "{order}:*").Val(); strings.Contains(fmt.Sprint(keys), "inflight") {
		t.Errorf("left are %v", keys)
	}
}

// An item that takes its process down is buried alone: what was in hand with it is charged once at most for having waited.
func TestAnItemThatKillsItsProcessIsBuriedAlone(t *testing.T) {
	chaotic(t)
	for _, c := range []struct {
		name             string
		neighbours       int
		work             time.Duration
		prefetch, killer int
	}{
		{name: "among 499 fast ones that are read ahead", neighbours: 499, prefetch: 100, killer: 250},
		{name: "among 50 slow ones", neighbours: 50, work: 50 * time.Millisecond, killer: 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := newListScene(t, server, mount{
				Stream: "deaths", DeadLetter: "deaths.dlq", MaxAttempts: 3, MaxDeliveries: 3, Prefetch: c.prefetch,
				Concurrency: 10, Block: time.Second,
			})
			jobs := ordinary(c.neighbours, c.work)
			s.push(slices.Concat(jobs[:c.killer], []job{{Key: "killer", Steps: []step{{Do: endExit}}}}, jobs[c.killer:])...)
			s.keep(1)
			await(t, patience, "the killer is buried", func() bool { return server.Client().LLen(t.Context(), s.m.DeadLetter).Val() > 0 })
			s.awaitListRest(patience)
			s.stop()
			letters := s.listLetters()
			if got := letters["killer"]; len(letters) != 1 || len(got) != 1 || got[0].reason != broker.ReasonMaxDeliveries || got[0].losses != "3" {
				t.Errorf("the dead letters are %+v", letters)
			}
			if n := s.crashes(); n != 3 || len(s.callsOfKey("killer")) != 3 {
				t.Errorf("%d processes died, the killer was called %d times", n, len(s.callsOfKey("killer")))
			}
		})
	}
}
