package brokertest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// Channels shows what becomes of the messages of channels and patterns, of which the server keeps nothing: how often they
// run without a cap and with one, that a retry runs in the one process that failed, and that whatever is lost is counted
// (contract §4, §5, §10). It needs PUBLISH, SUBSCRIBE and PSUBSCRIBE.
func Channels(t *testing.T, target Target) { channelsArea.run(t, target) }

var channelsArea = area{name: "Channels", bodies: []body{
	{name: "TheMatrixHolds", run: channelMatrixHolds, paused: true},
	{name: "ARetryRunsInTheProcessThatFailed", run: channelReplicas, paused: true},
	{name: "TwoMountsOfOneProcessRetryApart", run: channelTwins, paused: true},
	{name: "ACopyOutsideThePatternStartsAnew", run: channelOutRetry, paused: true},
	{name: "ADeadLetterThatNobodyHearsIsAnError", run: channelUnheard, paused: true, needs: []Feature{Receivers}},
	{name: "ADamagedMessageIsBuriedAsItCame", run: channelDamaged, paused: true},
	{name: "WhatASlowHandlerMissesIsCounted", run: channelOverflow},
	{name: "WhatAStopLosesIsCounted", run: channelStop, paused: true},
	{name: "ALostConnectionIsMadeAgain", run: channelReconnects, needs: []Feature{ClientKill}, own: true},
}}

// heard is one message as it was published, taken apart by hand.
type heard struct {
	channel, body string
	headers       []pair
	wrapped       bool
}

// header returns the last value of a header.
func (h heard) header(name string) string {
	return entry{fields: h.headers}.last(name)
}

func (h heard) has(name string) bool { return entry{fields: h.headers}.has(name) }

// memberMark are the first bytes of an envelope.
const memberMark = "\xd9\xd9\xf7\xda\x4d\x4c\x52\x31"

// tap hears what is published on channels, as any subscriber would. It is safe for concurrent use.
type tap struct {
	mu  sync.Mutex
	all []heard
}

// tapInto returns when the server has confirmed it. The tap ends with the test.
func tapInto(t testing.TB, target Target, channels ...string) *tap {
	t.Helper()
	sub := target.Client.Subscribe(context.Background(), channels...)
	t.Cleanup(func() { _ = sub.Close() }) // nothing is heard any more
	for range channels {
		if _, err := sub.Receive(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	p := new(tap)
	go func() {
		for {
			m, err := sub.ReceiveMessage(context.Background())
			if err != nil {
				return
			}
			p.mu.Lock()
			p.all = append(p.all, open(m))
			p.mu.Unlock()
		}
	}()
	return p
}

// open takes a message apart without the library's help.
func open(m *redis.Message) heard {
	h := heard{channel: m.Channel, body: m.Payload}
	inner, wrapped := strings.CutPrefix(m.Payload, memberMark)
	var parts struct {
		_       struct{} `cbor:",toarray"`
		Version uint64
		Headers [][2][]byte
		Body    []byte
	}
	if !wrapped || cbor.Unmarshal([]byte(inner), &parts) != nil {
		return h
	}
	h.wrapped, h.body = true, string(parts.Body)
	for _, p := range parts.Headers {
		h.headers = append(h.headers, pair{string(p[0]), string(p[1])})
	}
	return h
}

// on returns what was heard on one channel.
func (p *tap) on(channel string) []heard {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.all), func(h heard) bool { return h.channel != channel })
}

// shout publishes on a channel as a program does that knows nothing of the library.
func shout(t testing.TB, target Target, channel, body string) {
	t.Helper()
	if err := target.Client.Publish(context.Background(), channel, body).Err(); err != nil {
		t.Fatal(err)
	}
}

// channelCase is a channel or a pattern whose messages a handler ends in one way under one policy.
type channelCase struct {
	scenario
	name string
	// publish is where the message is published, copies where its copies go, deadLetter where it is buried.
	publish, copies, deadLetter string
	spec                        streamrt.Spec
	recorder                    *recorder
}

// channelCases are {channel, pattern} × every way in which a handler ends and that has a meaning here × the policies.
func channelCases() []*channelCase {
	var all []*channelCase
	for _, pattern := range []bool{false, true} {
		for _, e := range endings {
			if e.kept == inSet || e.kept == byClaim {
				continue // nothing of a channel stays on the server
			}
			for _, limits := range allCaps {
				base := uniqueKeys().stream
				c := &channelCase{
					scenario: scenario{ending: e, caps: limits},
					publish:  base + ".source", copies: base + ".source", deadLetter: base + ":dead",
					spec: streamrt.Spec{Name: base, Channel: base + ".source", Timeout: e.timeout},
				}
				c.name = "channel/" + e.name + "/" + limits.name
				if pattern {
					c.name = "pattern/" + e.name + "/" + limits.name
					c.copies, c.spec.Channel, c.spec.Pattern = base+".again", "", base+".*"
				}
				c.recorder = c.handler()
				all = append(all, c)
			}
		}
	}
	return all
}

func (c *channelCase) mount(s *service) {
	options := c.options(keys{deadLetter: c.deadLetter})
	if c.spec.Pattern != "" {
		options = append(options, app.OutRetry(c.copies))
	}
	s.mount(c.spec, c.recorder, options...)
}

// expected is what a case comes to.
func (c *channelCase) expected() (calls int, reason, discarded string) {
	limit := c.caps.limit()
	switch {
	case c.ending.label == "ack":
		return 1, "", ""
	case c.ending.label == "drop":
		return 1, "", "dropped"
	case !c.ending.fails && c.caps.letters:
		return 1, broker.ReasonRejected, ""
	case !c.ending.fails:
		return 1, "", "rejected"
	case limit == math.MaxInt && c.ending.label == "retry":
		return 1, "", "dropped" // an immediate retry without a cap would be a hot loop
	case limit == math.MaxInt:
		return maxAttempts, "", ""
	case c.caps.letters:
		return limit, broker.ReasonMaxAttempts, ""
	}
	return limit, "", "cap"
}

func channelMatrixHolds(t *testing.T, target Target) {
	meterReader() // before the app makes its counters
	s := newService(target)
	all := channelCases()
	var channels []string
	for _, c := range all {
		c.mount(s)
		channels = append(channels, c.publish, c.deadLetter)
		if c.copies != c.publish {
			channels = append(channels, c.copies)
		}
	}
	wire := tapInto(t, target, channels...)
	s.start(t)
	for _, c := range all {
		if err := s.Publish(t.Context(), broker.Channel(c.publish), payload, headerOptions()...); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range all {
		calls, reason, _ := c.expected()
		await(t, c.name+" comes to rest", func(context.Context) bool {
			return c.recorder.count() >= calls && (reason == "" || len(wire.on(c.deadLetter)) > 0)
		})
	}
	s.stop(t)
	meters := readMeters(t)
	for _, c := range all {
		c.check(t, wire, meters[c.spec.Name], s.log.of(c.spec.Name))
	}
}

func (c *channelCase) check(t *testing.T, wire *tap, got counted, log []string) {
	t.Helper()
	calls, reason, discarded := c.expected()
	runs := c.recorder.seen()
	sawAttempts(t, c.name, runs, calls)
	for i, run := range runs {
		m := run.message
		if run.payload != string(payload) || m.ID != runs[0].message.ID || m.Deliveries != i+1 {
			t.Errorf("%s: run %d saw %.40q, %+v", c.name, i+1, run.payload, m)
		}
		for name, value := range appHeaders {
			if m.Headers.Get(name) != value {
				t.Errorf("%s: run %d saw the header %.20q as %.20q", c.name, i+1, name, m.Headers.Get(name))
			}
		}
		if i > 0 && run.began.Sub(runs[i-1].ended) < c.ending.wait(i) {
			t.Errorf("%s: attempt %d came %s after the one before", c.name, i+1, run.began.Sub(runs[i-1].ended))
		}
	}
	copies := wire.on(c.copies)
	if c.copies == c.publish {
		copies = copies[1:]
	}
	if len(copies) != len(runs)-1 {
		t.Errorf("%s: %d copies of %d runs", c.name, len(copies), len(runs))
	}
	for i, h := range copies {
		if h.body != string(payload) || h.header(broker.HeaderRetryCount) != fmt.Sprint(i+1) || h.header(broker.HeaderRetryGroup) == "" ||
			h.header(broker.HeaderMessageID) != runs[0].message.ID {
			t.Errorf("%s: copy %d is %.400q", c.name, i+1, h.headers)
		}
	}
	c.checkLetter(t, wire.on(c.deadLetter), runs)
	want := counted{"deliveries " + c.ending.label: int64(calls)}
	if c.ending.fails && calls == maxAttempts && c.caps.limit() == math.MaxInt {
		want["deliveries "+c.ending.label]--
		want["deliveries ack"]++
	}
	if reason != "" {
		want["dead_letters "+reason] = 1
	}
	if discarded != "" {
		want["discarded "+discarded] = 1
	}
	(&check{played: &played{}, expectation: expectation{counted: want}}).into(t, c.name, got)
	if named := slices.ContainsFunc(log, func(text string) bool { return strings.Contains(text, runs[0].message.ID) }); !named && discarded != "" && discarded != "dropped" {
		t.Errorf("%s: no error in the log names the message: %q", c.name, log)
	}
}

// into reports what checkCounted finds.
func (c *check) into(t *testing.T, name string, got counted) {
	t.Helper()
	c.checkCounted(got)
	for _, problem := range c.problems {
		t.Errorf("%s: %s", name, problem)
	}
}

func (c *channelCase) checkLetter(t *testing.T, letters []heard, runs []call) {
	t.Helper()
	calls, reason, _ := c.expected()
	if (reason != "") != (len(letters) == 1) || len(letters) > 1 {
		t.Errorf("%s: %d dead letters", c.name, len(letters))
		return
	}
	if reason == "" {
		return
	}
	letter := letters[0]
	failures := ""
	if reason == broker.ReasonMaxAttempts {
		failures = fmt.Sprint(calls)
	}
	for name, want := range map[string]string{
		broker.FieldReason: reason, broker.HeaderRetryCount: failures, broker.HeaderRetryGroup: "",
		broker.HeaderMessageID: runs[0].message.ID, broker.FieldHandler: c.spec.Name, broker.FieldGroup: "",
		broker.FieldDeliveries: fmt.Sprint(calls),
	} {
		if got := letter.header(name); got != want {
			t.Errorf("%s: the dead letter's %s is %q, want %q", c.name, name, got, want)
		}
	}
	if letter.body != string(payload) || !strings.Contains(letter.header(broker.FieldError), c.ending.text) || letter.header(broker.FieldAt) == "" {
		t.Errorf("%s: the dead letter is %.400q", c.name, letter.headers)
	}
}

// channelReplicas: each process has the message, and each fails with it on its own. Were the copies not addressed, each of
// them would have those of the others as well.
func channelReplicas(t *testing.T, target Target) {
	const replicas, limit = 3, 5
	name, dead := uniqueKeys().stream, uniqueKeys().deadLetter
	wire := tapInto(t, target, name, dead)
	var services []*service
	var handlers []*recorder
	for range replicas {
		s, r := newService(target), &recorder{answer: always(outcome.Retry())}
		s.mount(streamrt.Spec{Name: name, Channel: name}, r, app.MaxAttempts(limit), app.DeadLetter(dead))
		s.start(t)
		services, handlers = append(services, s), append(handlers, r)
	}
	shout(t, target, name, "one")
	await(t, "each of them has buried it", func(context.Context) bool { return len(wire.on(dead)) >= replicas })
	for _, s := range services {
		s.stop(t)
	}
	for i, r := range handlers {
		sawAttempts(t, fmt.Sprintf("process %d", i+1), r.seen(), limit)
	}
	if n := len(wire.on(dead)); n != replicas {
		t.Errorf("%d dead letters, want %d", n, replicas)
	}
	if n := len(wire.on(name)); n != 1+replicas*(limit-1) {
		t.Errorf("%d messages were published on the channel", n)
	}
}

// channelTwins: two subscriptions of one process have had the message, both of them.
func channelTwins(t *testing.T, target Target) {
	name := uniqueKeys().stream
	s := newService(target)
	one, other := &recorder{answer: failsUntil(3, outcome.Retry())}, &recorder{answer: failsUntil(2, outcome.Of(errBroken))}
	for i, r := range []*recorder{one, other} {
		s.mount(streamrt.Spec{Name: fmt.Sprint(name, i), Channel: name}, r, app.MaxAttempts(9),
			app.Backoff(app.Exponential{Initial: firstBackoff, NoJitter: true}))
	}
	s.start(t)
	shout(t, target, name, "one")
	await(t, "both are done", func(context.Context) bool { return one.count() == 3 && other.count() == 2 })
	s.stop(t)
	sawAttempts(t, "the one", one.seen(), 3)
	sawAttempts(t, "the other", other.seen(), 2)
}

// channelOutRetry: a copy that leaves the pattern is a new message for whoever reads that channel.
func channelOutRetry(t *testing.T, target Target) {
	base := uniqueKeys().stream
	out := base + ":retries"
	wire := tapInto(t, target, out)
	s := newService(target)
	first, second := &recorder{answer: always(outcome.Retry())}, &recorder{answer: acks}
	s.mount(streamrt.Spec{Name: base, Pattern: base + ".*"}, first, app.MaxAttempts(2), app.OutRetry(out))
	s.mount(streamrt.Spec{Name: out, Channel: out}, second)
	s.start(t)
	shout(t, target, base+".a", "one")
	await(t, "the retry is handled", func(context.Context) bool { return second.count() > 0 })
	s.stop(t)
	sawAttempts(t, "the pattern's handler", first.seen(), 1)
	sawAttempts(t, "the channel's handler", second.seen(), 1)
	copies := wire.on(out)
	if len(copies) != 1 || copies[0].body != "one" || copies[0].header(broker.HeaderMessageID) != first.seen()[0].message.ID {
		t.Fatalf("published were %+v", copies)
	}
	for _, name := range []string{broker.HeaderRetryCount, broker.HeaderRetryGroup, broker.HeaderLosses} {
		if copies[0].has(name) {
			t.Errorf("the copy has the header %s: %q", name, copies[0].header(name))
		}
	}
}

func channelUnheard(t *testing.T, target Target) {
	meterReader() // before the app makes its counters
	name := uniqueKeys().stream
	s := newService(target)
	r := &recorder{answer: always(outcome.DeadLetter(errDeclined))}
	s.mount(streamrt.Spec{Name: name, Channel: name}, r, app.DeadLetter(name+":dead"))
	s.start(t)
	shout(t, target, name, "one")
	await(t, "it is counted", func(context.Context) bool { return readMeters(t)[name]["discarded rejected"] == 1 })
	s.stop(t)
	if n := readMeters(t)[name]["dead_letters rejected"]; n != 0 {
		t.Errorf("counted as %d dead letters", n)
	}
	if log := s.log.of(name); len(log) != 1 || !strings.Contains(log[0], name+":dead") {
		t.Errorf("the errors are %q", log)
	}
}

func channelDamaged(t *testing.T, target Target) {
	name := uniqueKeys().stream
	wire := tapInto(t, target, name+":dead")
	s := newService(target)
	r := &recorder{answer: acks}
	s.mount(streamrt.Spec{Name: name, Channel: name}, r, app.DeadLetter(name+":dead"))
	s.start(t)
	damaged := memberMark + "\x83\x01\x80\x5a\xff\xff\xff\xff"
	shout(t, target, name, damaged)
	shout(t, target, name, "good")
	await(t, "the damaged one is buried", func(context.Context) bool { return len(wire.on(name+":dead")) > 0 })
	await(t, "the next one is handled", func(context.Context) bool { return r.count() > 0 })
	s.stop(t)
	if letter := wire.on(name + ":dead")[0]; letter.body != damaged || letter.header(broker.FieldReason) != broker.ReasonMalformed {
		t.Errorf("the dead letter is %+v", letter)
	}
	if calls := r.seen(); len(calls) != 1 || calls[0].payload != "good" {
		t.Errorf("handled were %+v", calls)
	}
}

// channelOverflow: each message is handled or counted.
func channelOverflow(t *testing.T, target Target) {
	meterReader() // before the app makes its counters
	const messages, block = 15_000, 20
	name := uniqueKeys().stream
	s := newService(target)
	gate := make(chan struct{})
	r := &recorder{answer: func(ctx context.Context, _ int, _ call) outcome.HandlerOutcome {
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return outcome.Ack()
	}}
	s.mount(streamrt.Spec{Name: name, Channel: name}, r, app.Concurrency(1))
	s.start(t)
	for first := 0; first < messages; first += block {
		if _, err := target.Client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for i := range block {
				p.Publish(t.Context(), name, fmt.Sprint(first+i))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	dropped := func() int64 { return readMeters(t)[name]["discarded dropped"] }
	await(t, "the buffer overflows", func(context.Context) bool { return dropped() > 0 })
	close(gate)
	await(t, "each is handled or counted", func(context.Context) bool { return int64(r.count())+dropped() == messages })
	s.stop(t)
	if n := int64(r.count()) + dropped(); n != messages {
		t.Errorf("%d handled and %d dropped of %d", r.count(), dropped(), messages)
	}
	if last := r.seen()[r.count()-1].payload; last != fmt.Sprint(messages-1) {
		t.Errorf("the last one handled is %s: not the oldest were dropped", last)
	}
}

// channelStop: what waits for its delay when the process stops is nowhere else.
func channelStop(t *testing.T, target Target) {
	meterReader() // before the app makes its counters
	const messages = 7
	name := uniqueKeys().stream
	s := newService(target)
	r := &recorder{answer: always(outcome.RetryAfter(time.Hour))}
	s.mount(streamrt.Spec{Name: name, Channel: name}, r)
	s.start(t)
	for range messages {
		shout(t, target, name, "one")
	}
	await(t, "all have failed once", func(context.Context) bool {
		return readMeters(t)[name]["deliveries retry_after"] == messages
	})
	s.stop(t)
	if n := readMeters(t)[name]["discarded stopped"]; n != messages {
		t.Errorf("%d were counted, want %d", n, messages)
	}
}

func channelReconnects(t *testing.T, target Target) {
	target = target.Own(t)
	name := uniqueKeys().stream
	s := newService(target)
	r := &recorder{answer: acks}
	s.mount(streamrt.Spec{Name: name, Channel: name}, r)
	s.mount(streamrt.Spec{Name: name + ".p", Pattern: name + "*"}, r, app.OutRetry(name))
	s.start(t)
	for round := range 3 {
		if n, err := target.Client.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Int(); err != nil || n != 2 {
			t.Fatalf("killed %d connections: %v", n, err)
		}
		await(t, "both subscribe again", func(ctx context.Context) bool {
			subscribers, err := target.Client.PubSubNumSub(ctx, name).Result()
			patterns, failed := target.Client.PubSubNumPat(ctx).Result()
			return err == nil && failed == nil && subscribers[name] == 1 && patterns == 1
		})
		shout(t, target, name, "after")
		await(t, "both handle it", func(context.Context) bool { return r.count() == 2*(round+1) })
	}
	s.stop(t)
}
