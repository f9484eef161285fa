package dispatch

import (
	"strconv"
	"time"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
)

// maxDelay is what longer delays are cut to. Added to any date that a clock shows it overflows nothing, neither here
// nor as milliseconds on the server.
const maxDelay = 100 * 365 * 24 * time.Hour

// slowFrom is the attempt from which an immediate retry without a cap waits as the backoff says: a handler that always
// answers Retry would otherwise append copies as fast as the server takes them.
const slowFrom = 10

// unknownText is what the dead letter of a message says that nobody knew.
const unknownText = "no worker recognised the task's name, or the version of the message, for too long"

// Why a message was acknowledged although no handler settled it well: the values of millrace.discarded's why.
const (
	whyDropped   = "dropped"
	whyCap       = "cap"
	whyRejected  = "rejected"
	whyMalformed = "malformed"
	whyVanished  = "vanished"
	whyLost      = "lost"
)

// rules is everything but the message itself that decides how a delivery is settled.
type rules struct {
	name, source, group string
	// deadLetter is the full key, "" for none; maxAttempts is 0 for no cap.
	deadLetter  string
	maxAttempts int64
	// maxDeliveries is 0 for any number of losses.
	maxDeliveries int64
	// unknownDelay is how long what nobody here knows is put off at first, unknownTimeout how long it may stay so.
	unknownDelay, unknownTimeout time.Duration
	caps                         broker.Capabilities
	// backoff never panics; decide bounds what it returns.
	backoff func(attempt int64, err error) time.Duration
}

// ending is how one run of a handler ended.
type ending struct {
	kind  outcome.Kind
	delay time.Duration
	err   error
	// label names the ending in history and metrics. It is the kind's name but for a panic and a missed deadline.
	label label
	// overdue: the deadline had passed when the handler returned. Its answer counts even after the shutdown cut it.
	overdue bool
	// text is the error's text and detail the text with the stack of a panic; both are empty unless the ending is a
	// failure or a rejection.
	text, detail string
}

// intent is what is to be done with a delivery. It is a settlement and what it means for the counters.
type intent struct {
	action broker.Action
	edits  broker.Edits
	// delay is for broker.Delay and broker.Defer, limit for broker.Defer.
	delay, limit time.Duration
	// count is for broker.Keep.
	count int64
	// parked: after broker.Keep the entry waits in memory for park.
	parked bool
	park   time.Duration
	// copy is for broker.Keep: the edits of the copy that ends the wait or, where the entry turns out to be trimmed, takes
	// its place at once.
	copy broker.Edits
	// burial is for broker.Bury.
	burial *broker.Burial
	// discard is why an acknowledged message counts as discarded, "" where it does not.
	discard string
	// slowed: an immediate retry waits, see slowFrom.
	slowed bool
}

// limit is how many attempts a message has, 0 for any number. A dead letter without a cap takes the first failure.
func (r *rules) limit() int64 {
	if r.maxAttempts == 0 && r.deadLetter != "" {
		return 1
	}
	return r.maxAttempts
}

// decide is the whole policy: what becomes of a message after a run of its handler. It does no I/O and reads no clock.
func (r *rules) decide(d *broker.Delivery, c counters, e ending, now time.Time) intent {
	switch e.kind {
	case outcome.KindAck:
		return intent{action: broker.Ack}
	case outcome.KindDrop:
		return intent{action: broker.Ack, discard: whyDropped}
	case outcome.KindDeadLetter:
		if r.deadLetter == "" {
			return intent{action: broker.Ack, discard: whyRejected}
		}
		return r.bury(d, c, e, broker.ReasonRejected, "")
	}
	if limit := r.limit(); limit > 0 && (c.attempt >= limit || c.saturated) {
		if r.deadLetter == "" {
			return intent{action: broker.Ack, discard: whyCap}
		}
		c.failures = addSaturating(c.failures, 1)
		return r.bury(d, c, e, broker.ReasonMaxAttempts, r.history(d, c, e, now))
	}
	if r.wantsRetryNow(e) && r.limit() == 0 && !r.caps.Acks {
		return intent{action: broker.Ack, discard: whyDropped}
	}
	return r.retry(d, c, e, now)
}

// wantsRetryNow reports whether the handler asked for another run at once.
func (r *rules) wantsRetryNow(e ending) bool {
	return e.kind == outcome.KindRetry || e.kind == outcome.KindRetryAfter && e.delay <= 0
}

// unknown is what becomes of a message that nobody in this process knows: it is no failure, and a process that knows it
// may be on its way.
func (r *rules) unknown(c counters) intent {
	if !r.caps.Acks {
		return intent{action: broker.Ack, discard: whyDropped}
	}
	return intent{
		action: broker.Defer, delay: bounded(r.unknownDelay), limit: bounded(r.unknownTimeout),
		edits: broker.Edits{Set: r.carried(c)},
	}
}

// stayedUnknown is what becomes of one that nobody knew for too long.
func (r *rules) stayedUnknown(d *broker.Delivery, c counters) intent {
	if r.deadLetter == "" {
		return intent{action: broker.Ack, discard: whyRejected}
	}
	return r.bury(d, c, ending{text: unknownText, detail: unknownText}, broker.ReasonUnknownTask, "")
}

// carried are the counters and the addressee that every entry of a message has which takes the place of another one.
func (r *rules) carried(c counters) []broker.HeaderLine {
	set := appendRaised(make([]broker.HeaderLine, 0, 4), c)
	if r.caps.Addressee != "" {
		set = append(set, broker.HeaderLine{Name: broker.HeaderRetryGroup, Value: r.caps.Addressee})
	}
	if c.losses > 0 {
		set = append(set, broker.HeaderLine{Name: broker.HeaderLosses, Value: strconv.FormatInt(c.losses, 10)})
	}
	return set
}

// sourceOf is where the message was read.
func (r *rules) sourceOf(d *broker.Delivery) string {
	if d.Channel != "" {
		return d.Channel
	}
	return r.source
}

// malformed is what becomes of a message that cannot be decoded. Its fields stay as they are, but for the two headers
// that never leave a stream, and the count of failures that it had before.
func (r *rules) malformed(d *broker.Delivery, c counters, err error) intent {
	if r.deadLetter == "" {
		return intent{action: broker.Ack, discard: whyMalformed}
	}
	text := errorText(err)
	return r.bury(d, c, ending{text: text, detail: text}, broker.ReasonMalformed, "")
}

// overtaken is what becomes of an entry that outlived more owners than the cap allows, without another run. ok is false
// where the handler may run. Where Redis's own count is the attempt, crashes included, it is the cap on attempts that
// such an entry meets; a retry-count at the cap alone still gets one run.
func (r *rules) overtaken(d *broker.Delivery, c counters) (i intent, ok bool) {
	text := ""
	switch limit := r.limit(); {
	case r.maxDeliveries > 0 && c.losses >= r.maxDeliveries:
		text = "taken from " + strconv.FormatInt(c.losses, 10) + " owners that vanished with it in hand"
	case !r.caps.PacksFailures && limit > 0 && d.Count > 1 && c.attempt > limit:
		text = "handed out " + strconv.FormatInt(d.Count, 10) + " times; the run before ended without an answer"
	default:
		return intent{}, false
	}
	if r.deadLetter == "" {
		return intent{action: broker.Ack, discard: whyCap}, true
	}
	return r.bury(d, c, ending{text: text, detail: text}, broker.ReasonMaxDeliveries, ""), true
}

// lastRun reports whether one more loss sends the message to the dead letter.
func (r *rules) lastRun(c counters) bool { return r.maxDeliveries > 0 && c.losses == r.maxDeliveries-1 }

// elsewhere reports whether the message is a retry of another group or consumer, which this one has already had.
func (r *rules) elsewhere(d *broker.Delivery) bool {
	if len(d.Headers) == 0 || r.caps.Addressee == "" {
		return false
	}
	to, ok := d.Header(broker.HeaderRetryGroup)
	return ok && to != r.caps.Addressee
}

func (r *rules) retry(d *broker.Delivery, c counters, e ending, now time.Time) intent {
	wait, slowed := r.wait(c, e)
	edits := r.copyEdits(d, c, e, now)
	switch {
	case r.caps.InPlace && !r.caps.KeepsPending:
		return intent{action: broker.Keep, count: r.kept(c), parked: true, park: wait, slowed: slowed}
	case r.caps.KeepsPending && (wait == 0 || slowed || !r.caps.DelaySet):
		return intent{action: broker.Keep, count: r.kept(c), copy: edits}
	case wait == 0:
		return intent{action: broker.Copy, edits: edits}
	case r.caps.DelaySet:
		return intent{action: broker.Delay, delay: wait, edits: edits, slowed: slowed}
	default:
		return intent{
			action: broker.Keep, count: r.kept(c),
			parked: true, park: wait, copy: edits, slowed: slowed,
		}
	}
}

// kept is the delivery count of an entry that stays pending after a failure; the next hand-out adds one to it.
func (r *rules) kept(c counters) int64 {
	if !r.caps.PacksFailures {
		return c.count // Redis's own: the hand-out itself is what counts the failure.
	}
	return failureUnit*(c.packedFailures+1) + c.packedLosses
}

// wait is how long from now the next attempt may begin; 0 is at once.
func (r *rules) wait(c counters, e ending) (d time.Duration, slowed bool) {
	switch e.kind {
	case outcome.KindRetry:
	case outcome.KindRetryAfter:
		d = e.delay
	default:
		return bounded(r.backoff(c.attempt, e.err)), false
	}
	if d <= 0 && r.limit() == 0 && (c.attempt >= slowFrom || c.saturated) {
		d, slowed = r.backoff(c.attempt, e.err), true
	}
	return bounded(d), slowed
}

func bounded(d time.Duration) time.Duration { return min(max(d, 0), maxDelay) }

// copyEdits are the headers of the message's next entry.
func (r *rules) copyEdits(d *broker.Delivery, c counters, e ending, now time.Time) broker.Edits {
	c.failures = addSaturating(c.failures, 1)
	set := append(r.carried(c), broker.HeaderLine{Name: broker.HeaderHistory, Value: r.history(d, c, e, now)})
	return broker.Edits{Set: set}
}

// appendRaised appends the header retry-count where it has to change. A number that is too large for us stays as it is,
// since writing ours would lower it.
func appendRaised(set []broker.HeaderLine, c counters) []broker.HeaderLine {
	if c.failures <= c.header {
		return set
	}
	return append(set, broker.HeaderLine{Name: broker.HeaderRetryCount, Value: strconv.FormatInt(c.failures, 10)})
}

func (r *rules) history(d *broker.Delivery, c counters, e ending, now time.Time) string {
	before, _ := d.Header(broker.HeaderHistory)
	return extendHistory(before, c.attempt, now, e.label.String(), e.text)
}

// bury sends the message to the dead letter; c.failures already counts this attempt if it failed. history is "" where
// it does not grow.
func (r *rules) bury(d *broker.Delivery, c counters, e ending, reason, history string) intent {
	edits := broker.Edits{Set: appendRaised(nil, c)}
	if history != "" {
		edits.Set = append(edits.Set, broker.HeaderLine{Name: broker.HeaderHistory, Value: history})
	}
	for _, name := range []string{broker.HeaderRetryGroup, broker.HeaderLosses} {
		if _, ok := d.Header(name); ok {
			edits.Remove = append(edits.Remove, name)
		}
	}
	text, detail := e.text, e.detail
	if text == "" {
		text = "the handler answered " + e.label.String()
		detail = text
	}
	return intent{
		action: broker.Bury,
		edits:  edits,
		burial: &broker.Burial{
			Reason:     reason,
			Detail:     abridge(detail, maxDetail),
			Source:     r.sourceOf(d),
			ID:         d.ID,
			Group:      r.group,
			Handler:    r.name,
			Error:      shorten(text, maxError),
			Attempts:   c.failures,
			Losses:     c.losses,
			Deliveries: c.deliveries(),
		},
	}
}
