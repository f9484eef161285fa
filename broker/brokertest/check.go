package brokertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/broker"
)

// check compares one case with its expectation. It only looks at what has been read before.
type check struct {
	*played
	expectation
	// resolve gives the full key of a key.
	resolve func(string) string
	// began and ended enclose the case by the server's clock.
	began, ended int64

	runs            []call
	state           state
	source, letters []entry

	problems []string
}

func (c *check) problem(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// equal reports a difference of two values.
func equal[V comparable](c *check, what string, got, want V) {
	if got != want {
		c.problem("%s is %.300q, want %.300q", what, fmt.Sprint(got), fmt.Sprint(want))
	}
}

// checkCalls: how often, with which attempt numbers, with what and how far apart the handler ran.
func (c *check) checkCalls() {
	if got, want := attemptsOf(c.runs), upTo(c.calls); !slices.Equal(got, want) {
		c.problem("the handler saw the attempts %v, want %v", got, want)
		return
	}
	for i, run := range c.runs {
		m := run.message
		at := fmt.Sprintf("at attempt %d the handler's ", i+1)
		equal(c, at+"payload", run.payload, string(payload))
		for name, value := range appHeaders {
			equal(c, at+fmt.Sprintf("header %.20q", name), m.Headers.Get(name), value)
		}
		equal(c, at+"message id", m.ID, c.runs[0].message.ID)
		equal(c, at+"source", m.Source, c.resolve(c.stream))
		equal(c, at+"group", m.Group, c.group)
		equal(c, at+"losses", m.Losses, 0)
		equal(c, at+"deliveries", m.Deliveries, i+1)
		equal(c, at+"entry id", m.EntryID, c.entryOf(i))
		if m.DeadLetter != nil {
			c.problem("%smessage is a dead letter: %+v", at, m.DeadLetter)
		}
		if i > 0 {
			if gap := run.began.Sub(c.runs[i-1].ended); !c.atLeast(gap, c.gaps[i-1]) {
				c.problem("attempt %d began %s after the one before had ended, want %s at least", i+1, gap, c.gaps[i-1])
			}
		}
	}
}

// entryOf is the entry of the source that a run belongs to, n from 0: each its own copy, or all the same.
func (c *check) entryOf(n int) string {
	if !c.copied {
		n = 0
	}
	if n >= len(c.source) {
		return fmt.Sprintf("entry %d of the source, which does not stand there", n+1)
	}
	return c.source[n].id
}

// checkState: nothing is left behind.
func (c *check) checkState() {
	equal(c, "XPENDING of the group", c.state.pending, 0)
	equal(c, "ZCARD of the delay set", c.state.delayed, 0)
	equal(c, "XLEN of the source", c.state.length, int64(len(c.retryCounts)))
	if c.state.unread {
		c.problem("the group has not been given the newest entry of the source")
	}
}

// checkSource: the original and its copies, each with its number of failures.
func (c *check) checkSource() {
	if got := retryCounts(c.source); !slices.Equal(got, c.retryCounts) {
		c.problem("the entries of the source have the retry-counts %q, want %q", got, c.retryCounts)
		return
	}
	for i, e := range c.source {
		at := fmt.Sprintf("entry %d of the source: ", i+1)
		c.checkMessage(at, e)
		equal(c, at+"lines of history", e.historyLines(), i)
		group := ""
		if i > 0 {
			group = c.group
		}
		equal(c, at+"retry-group", e.header(broker.HeaderRetryGroup), group)
		equal(c, at+"has losses", e.hasHeader(broker.HeaderLosses), false)
		equal(c, at+"has dlq_reason", e.has(broker.FieldReason), false)
	}
}

// checkMessage: what is the application's is the same wherever the message stands, and so is its id.
func (c *check) checkMessage(at string, e entry) {
	if ids := e.all(headerPrefix + broker.HeaderMessageID); len(ids) != 1 || ids[0] == "" || len(c.runs) > 0 && ids[0] != c.runs[0].message.ID {
		c.problem("%smessage-id is %q, and the handler saw %q", at, ids, c.runs[0].message.ID)
	}
	want := []pair{{fieldPayload, string(payload)}}
	for _, name := range sortedKeys(appHeaders) {
		want = append(want, pair{headerPrefix + name, appHeaders[name]})
	}
	if got := e.theirs(); !slices.Equal(got, want) {
		c.problem("%sthe application's fields are %.400q, want %.400q", at, got, want)
	}
}

// checkLetter: one dead letter with the facts of its death, or none.
func (c *check) checkLetter() {
	want := 0
	if c.reason != "" {
		want = 1
	}
	if len(c.letters) != want {
		c.problem("XLEN of the dead letter is %d, want %d", len(c.letters), want)
		return
	}
	if want == 0 || len(c.runs) == 0 {
		return
	}
	e, at := c.letters[0], "the dead letter: "
	c.checkMessage(at, e)
	for _, name := range fieldsOfBurial {
		equal(c, at+"fields "+name, len(e.all(name)), 1)
	}
	count := ""
	if c.buried > 0 {
		count = fmt.Sprint(c.buried)
		equal(c, at+"lines of history", e.historyLines(), len(c.retryCounts))
	}
	equal(c, at+"retry-count", e.header(broker.HeaderRetryCount), count)
	equal(c, at+"has retry-group", e.hasHeader(broker.HeaderRetryGroup), false)
	equal(c, at+"has losses", e.hasHeader(broker.HeaderLosses), false)
	equal(c, at+broker.FieldReason, e.last(broker.FieldReason), c.reason)
	equal(c, at+broker.FieldAttempts, e.last(broker.FieldAttempts), fmt.Sprint(c.buried))
	equal(c, at+broker.FieldDeliveries, e.last(broker.FieldDeliveries), fmt.Sprint(c.calls))
	equal(c, at+broker.FieldLosses, e.last(broker.FieldLosses), "0")
	equal(c, at+broker.FieldSource, e.last(broker.FieldSource), c.resolve(c.stream))
	equal(c, at+broker.FieldGroup, e.last(broker.FieldGroup), c.group)
	equal(c, at+broker.FieldHandler, e.last(broker.FieldHandler), c.subscription)
	equal(c, at+broker.FieldID, e.last(broker.FieldID), c.entryOf(c.calls-1))
	for field, text := range map[string]string{broker.FieldError: c.ending.text, broker.FieldDetail: c.ending.detail} {
		if !strings.Contains(e.last(field), text) {
			c.problem("%s%s is %q, want %q in it", at, field, e.last(field), text)
		}
	}
	if when := number(e, broker.FieldAt); when < c.began || when > c.ended+1 {
		c.problem("%s%s is %d, want it between %d and %d", at, broker.FieldAt, when, c.began, c.ended)
	}
}

// checkCounted: the counters say what happened, and nothing else.
func (c *check) checkCounted(got counted) {
	want := maps.Clone(c.counted)
	maps.DeleteFunc(want, func(_ string, n int64) bool { return n == 0 })
	if !maps.Equal(got, want) {
		c.problem("counted %v, want %v", got, want)
	}
}

// checkLog: a message that is given up without a dead letter is an error in the log that names it. What is dropped was
// meant to be.
func (c *check) checkLog(log []string) {
	if c.discarded == "" || c.discarded == "dropped" {
		return
	}
	id := c.entryOf(c.calls - 1)
	if !slices.ContainsFunc(log, func(text string) bool { return strings.Contains(text, id) }) {
		c.problem("no error in the log names the entry %s: %q", id, log)
	}
}
