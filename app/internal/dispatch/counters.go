package dispatch

import (
	"math"
	"strconv"

	"github.com/millrace-go/millrace/broker"
)

// failureUnit is what one failure adds to the delivery count of an entry that stays pending; the losses are counted in
// the remainder (contract §5).
const failureUnit = 1000

// counters is what is known of a message when it is handed out.
type counters struct {
	// failures counts the failures before this attempt over the whole life of the message; a copy carries failures + 1.
	failures int64
	// attempt is what the handler sees: 1 + the failures since the message was published or, for a dead letter, buried.
	attempt int64
	// losses counts the owners that vanished.
	losses int64
	// header is the retry-count that the entry carries, 0 where it carries none that counts.
	header int64
	// count is the delivery count that all this was read from.
	count int64
	// packedFailures and packedLosses are the part of failures and losses that stands in the entry's own delivery count.
	packedFailures, packedLosses int64
	// saturated: retry-count cannot be raised any more, so the message gets one run under a cap and no retry.
	saturated bool
}

// count reads the counters of a delivery. Where the source packs failures, the delivery count is
// 1000 × failures + losses + 1; elsewhere it is Redis's own, and each hand-out counts as an attempt.
func count(d *broker.Delivery, packs bool) counters {
	c := counters{count: d.Count}
	if len(d.Headers) > 0 {
		if text, ok := d.Header(broker.HeaderRetryCount); ok {
			c.header, c.saturated = plainNumber(text)
		}
		if text, ok := d.Header(broker.HeaderLosses); ok {
			c.losses, _ = plainNumber(text)
		}
	}
	before := max(d.Count-1, 0)
	if packs {
		c.packedFailures, c.packedLosses = before/failureUnit, before%failureUnit
		before = c.packedFailures
		c.losses = addSaturating(c.losses, c.packedLosses)
	}
	c.failures = addSaturating(c.header, before)
	if c.failures == math.MaxInt64 {
		c.saturated = true
	}
	since := c.failures
	if d.Burial != nil {
		// A dead letter is written with as many attempts as its retry-count says, and copies only raise that. More attempts
		// than retry-count were written by somebody else, and must not give the reader attempts for nothing.
		buried := d.Burial.Attempts
		if buried > c.header {
			buried = 0
		}
		since = addSaturating(c.header-buried, before)
	}
	c.attempt = addSaturating(since, 1)
	return c
}

// deliveries counts the hand-outs, this one included.
func (c counters) deliveries() int64 { return addSaturating(c.attempt, c.losses) }

// plainNumber reads a counter header. Anything but decimal digits counts as 0; a number beyond int64 is the largest one
// and saturated.
func plainNumber(text string) (n int64, saturated bool) {
	if text == "" {
		return 0, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n == math.MaxInt64 {
		return math.MaxInt64, true
	}
	return n, false
}

func addSaturating(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// asInt is for the public fields, which are ints: 32 bits wide on some machines.
func asInt(n int64) int { return int(min(n, math.MaxInt)) }
