package deadletter

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace-go/millrace/broker"
)

// DefaultMaxReplays is how often one message is replayed at most where [MaxReplays] says nothing.
const DefaultMaxReplays = 5

// Option changes one Replay.
type Option interface{ applyReplay(*plan) }

// PurgeOption changes one Purge, or one Replay.
type PurgeOption interface {
	Option
	applyPurge(*plan)
}

// plan is what the options of one call say.
type plan struct {
	to           broker.Destination
	delaySet     string
	delay        time.Duration
	allGroups    bool
	keepCounters bool
	maxReplays   int
	rate         float64
	max          int
	dryRun       bool
	cursor       string
	progress     func(Report)
	// wrong are the options that say nothing that could be done.
	wrong []error
}

func (p *plan) refuse(format string, args ...any) {
	p.wrong = append(p.wrong, fmt.Errorf(format, args...))
}

func (p *plan) problem() error { return errors.Join(p.wrong...) }

type replayOption func(*plan)

func (f replayOption) applyReplay(p *plan) { f(p) }

type commonOption func(*plan)

func (f commonOption) applyReplay(p *plan) { f(p) }
func (f commonOption) applyPurge(p *plan)  { f(p) }

// To sends the records to another destination than where they were buried from. Its key is without the broker's prefix. A
// record that goes elsewhere is for whoever reads there: it carries no retry-group. A channel nobody listens to leaves the
// record where it is. Only a stream can take a message that has fields besides payload and headers.
func To(destination broker.Destination) Option {
	return replayOption(func(p *plan) {
		switch destination.Structure() {
		case broker.StructureStream, broker.StructureList, broker.StructureChannel:
			p.to = destination
		}
		if p.to.Key() == "" {
			p.refuse("deadletter.To: the destination has no key; write broker.Stream(\"name\"), broker.List or broker.Channel, or leave it out")
		}
	})
}

// After has every record wait in the sorted set of that key for d, by the server's clock, before it goes to its source (or to
// what To names). As with broker.After, some subscription has to have the set as its delay-set, and it moves what is due to
// its own source. The key is without the broker's prefix.
func After(delaySet string, d time.Duration) Option {
	return replayOption(func(p *plan) {
		p.delaySet, p.delay = delaySet, d
		if delaySet == "" || d < 0 {
			p.refuse("deadletter.After(%q, %s): give the key of a subscription's delay-set, and how long to wait", delaySet, d)
		}
	})
}

// AllGroups lets every consumer group of the source have the message again. By default only the group that buried it does:
// the others acknowledge it unhandled.
func AllGroups() Option { return replayOption(func(p *plan) { p.allGroups = true }) }

// KeepCounters leaves the failures (retry-count), the lost owners and the time since which a task has been unknown as they
// were at the burial. By default a message that is replayed starts anew. Under the same cap one that keeps them has one run
// and no retry.
func KeepCounters() Option { return replayOption(func(p *plan) { p.keepCounters = true }) }

// MaxReplays refuses messages that have been replayed n times already, so that a replay that runs by itself cannot go round
// for ever; DefaultMaxReplays by default. Each replay raises the header "replays". At least 1.
func MaxReplays(n int) Option {
	return replayOption(func(p *plan) {
		p.maxReplays = n
		if n < 1 {
			p.refuse("deadletter.MaxReplays(%d): at least 1 is needed", n)
		}
	})
}

// Rate bounds how many records are replayed or deleted a second, spread evenly; no bound by default.
func Rate(perSecond float64) PurgeOption {
	return commonOption(func(p *plan) {
		p.rate = perSecond
		if !(perSecond > 0) { // not a number either
			p.refuse("deadletter.Rate(%v): more than 0 a second is needed", perSecond)
		}
	})
}

// Max ends after n records have been replayed or deleted; all by default. The report's cursor leads on. At least 1.
func Max(n int) PurgeOption {
	return commonOption(func(p *plan) {
		p.max = n
		if n < 1 {
			p.refuse("deadletter.Max(%d): at least 1 is needed", n)
		}
	})
}

// DryRun changes nothing, and reports what would be done. What only the writing shows (a target of the wrong type, say) it
// does not find out.
func DryRun() PurgeOption { return commonOption(func(p *plan) { p.dryRun = true }) }

// Resume goes on where the report of an earlier call says, and ends where that one would have. What was buried since is left
// out. Without it a call begins with the oldest record, which after a replay without a filter comes to the same.
func Resume(cursor string) PurgeOption {
	return commonOption(func(p *plan) { p.cursor = cursor })
}

// Progress is called with the report so far after every step, from the goroutine that called Replay or Purge.
func Progress(f func(Report)) PurgeOption {
	return commonOption(func(p *plan) { p.progress = f })
}
