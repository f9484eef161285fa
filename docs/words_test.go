package docs_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// How much later than its time something may happen: what a process keeps itself, what the server is asked for in
// intervals, and what is handed back.
const (
	prompt   = 100 * time.Millisecond
	asked    = 1200 * time.Millisecond
	handover = 2 * time.Second
)

// word is what the guide calls that which happened, or a description where it has no word for it.
func (p *play) word() string {
	if p.refusal != nil {
		if strings.Contains(p.refusal.Error(), "delay-set=in.delayed") {
			return "refused"
		}
		return fmt.Sprintf("it does not start: %v", p.refusal)
	}
	word := ""
	if p.end == goesOn {
		word = p.settled()
	} else {
		word = p.ended()
	}
	if left := p.late.inHand + p.late.delayed + p.late.waiting; word == "" || left > 0 {
		return p.describe()
	}
	return word
}

// settled is the word for what an outcome does.
func (p *play) settled() string {
	runs := p.of("first")
	published := int64(2)
	if p.malformed {
		published = 1
	}
	switch {
	case p.keepsNothing() && !p.malformed && len(p.of("listener")) != 1:
		return "" // what was meant for the first process alone
	case p.late.letters > 0:
		if !p.late.died(p.reason) || len(p.discarded) > 0 || len(runs) != p.wantRuns() {
			return ""
		}
		return "buried"
	case len(runs) == p.wantRuns() && (p.fails || p.keepsAll(published)):
		return p.acknowledged()
	case len(runs) == 2 && runs[1].message.Attempt == 2 && runs[1].message.Losses == 0 && len(p.discarded) == 0:
		return p.again(runs[0], runs[1], published)
	}
	return ""
}

// wantRuns is how often a message is run that is not tried again.
func (p *play) wantRuns() int {
	switch {
	case p.malformed:
		return 0
	case p.fails:
		return p.mount.runs
	}
	return 1
}

// keepsAll tells whether nothing but so many messages was ever written or published. A list does not tell.
func (p *play) keepsAll(n int64) bool { return p.spec.List != "" || p.late.written == n }

// acknowledged is the word for a message that is off the source and stands nowhere else.
func (p *play) acknowledged() string {
	logged := p.log.n.Load() > 0
	for _, w := range []struct {
		word, why string
		logged    bool
	}{
		{"done", "", false},
		{"dropped", "dropped", false},
		{"gone", "dropped", true},
		{"rejected", "rejected", true},
		{"capped", "cap", true},
		{"malformed", "malformed", true},
	} {
		counted := map[string]int64{}
		if w.why != "" {
			counted[w.why] = 1
		}
		if maps.Equal(p.discarded, counted) && logged == w.logged {
			return w.word
		}
	}
	return ""
}

// again is the word for how a message came to its second run.
func (p *play) again(first, second *run, published int64) string {
	wait := second.began.Sub(first.ended)
	if first.message.EntryID == second.message.EntryID {
		stayed := p.keepsAll(published) && p.soon.delayed == 0
		switch {
		case stayed && between(wait, p.waits, prompt) && (p.waits == 0 || p.soon.inHand == 1):
			return "in place"
		case stayed && between(wait, claim, asked) && p.soon.inHand == 1:
			return "claimed"
		}
		return ""
	}
	if !p.keepsAll(published + 1) {
		return ""
	}
	switch {
	case p.waits == 0 && wait == 0 && p.order() == "subject other subject":
		return "copied"
	case p.waits == 0 || !between(wait, p.waits, prompt) || p.soon.waiting > 0:
	case p.soon.delayed == 1 && p.soon.inHand == 0:
		return "in the set"
	case p.soon.delayed == 0 && p.soon.inHand == 1:
		return "parked"
	case p.soon.delayed == 0 && p.soon.inHand == 0:
		return "in memory"
	}
	return ""
}

// ended is the word for what becomes of a message whose process ends.
func (p *play) ended() string {
	mine, theirs := p.of("first"), p.of("peer")
	began := 1
	if p.end == stopsBefore {
		began = 0
		if p.soon.inHand != 2 && p.spec.Stream+p.spec.Group != "" || p.soon.waiting > 0 {
			return "" // it was not in hand
		}
	}
	switch {
	case len(mine) != began || len(theirs) > 1:
		return ""
	case len(theirs) == 0 && (p.end == dies || maps.Equal(p.discarded, map[string]int64{"stopped": 1})):
		return "lost"
	case len(theirs) == 0:
		return ""
	}
	m, at := theirs[0].message, theirs[0].began
	attempt, losses := 1, 0
	if p.waits > 0 {
		attempt = 2
	}
	if p.spec.Claim > 0 && p.end != stopsBefore && m.Attempt == 2 && m.Losses == 0 && m.EntryID == mine[0].message.EntryID {
		since := mine[0].began
		if p.waits > 0 {
			since = mine[0].ended
		}
		if between(at.Sub(since), claim, asked) {
			return "claimed"
		}
	}
	if p.end == dies && p.waits == 0 {
		losses = 1
	}
	switch {
	case m.Attempt != attempt:
	case p.soon.delayed == 1 && m.Losses == 0 && between(at.Sub(mine[0].ended), p.waits, asked):
		return "in the set"
	case p.end == dies && m.Losses == losses && between(at.Sub(p.over), liveness/2, liveness):
		return "taken over"
	case p.end == dies || m.Losses != 0:
	case p.waits == 0 && between(at.Sub(p.over), 0, handover), p.waits > 0 && between(at.Sub(mine[0].ended), p.waits, handover):
		return "handed back"
	}
	return ""
}

// between tells whether d is at least the one and at most that much more. A server tells idle times in whole milliseconds.
func between(d, least, more time.Duration) bool {
	return d >= least-time.Millisecond && d <= least+more
}

// describe says everything that a play has seen.
func (p *play) describe() string {
	var b strings.Builder
	p.mu.Lock()
	defer p.mu.Unlock()
	start := time.Time{}
	for i, r := range p.runs {
		if i == 0 {
			start = r.began
		}
		fmt.Fprintf(&b, "\n  %s: %s at %v to %v, attempt %d, losses %d, entry %s", r.process, r.body, r.began.Sub(start), r.ended.Sub(start),
			r.message.Attempt, r.message.Losses, r.message.EntryID)
	}
	if p.end != goesOn {
		fmt.Fprintf(&b, "\n  the process was over at %v", p.over.Sub(start))
	}
	var discarded []string
	for why, n := range p.discarded {
		discarded = append(discarded, fmt.Sprintf("%s %d", why, n))
	}
	slices.Sort(discarded)
	fmt.Fprintf(&b, "\n  the server, soon: %+v\n  in the end: %+v\n  discarded: %q, errors in the log: %d", p.soon, p.late, discarded, p.log.n.Load())
	return b.String()
}
