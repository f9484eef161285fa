package app

import (
	"time"

	"github.com/millrace-go/millrace/broker"
)

// RetainOption says what stays of a stream ([Retain]) or of a dead letter ([DeadLetter]). Of several bounds each holds: what
// is beyond one of them goes.
type RetainOption interface{ applyRetain(*retention) }

// retention is what such options add up to.
type retention struct {
	broker.Retention
	hasLast, hasFor bool
}

func newRetention(options []RetainOption) retention {
	var r retention
	for _, option := range options {
		if option != nil {
			option.applyRetain(&r)
		}
	}
	return r
}

type retainOption func(*retention)

func (f retainOption) applyRetain(r *retention) { f(r) }

// DeleteAcked removes an entry once every group of the stream has acknowledged it: at once where the server can
// (XACKDEL, Redis 8.2), else once a minute, as what was copied for a retry or buried always is. It belongs to [Retain]
// alone, and not beside a bound.
func DeleteAcked() RetainOption {
	return retainOption(func(r *retention) { r.DeleteAcked = true })
}

// KeepLast keeps the n newest. At least 1.
func KeepLast(n int) RetainOption {
	return retainOption(func(r *retention) { r.Last, r.hasLast = int64(n), true })
}

// KeepFor keeps an entry for so long, by the server's clock and the time in its id, and a record of a list for so long after
// its burial. It is looked after once a minute. At least 1 ms.
func KeepFor(d time.Duration) RetainOption {
	return retainOption(func(r *retention) { r.For, r.hasFor = d, true })
}

// Retain says which entries of the mount's stream may be removed when they are no longer needed: with [DeleteAcked] all of
// them, with [KeepLast] and [KeepFor] those beyond the bounds. By default, and with no option, everything is kept.
//
// Nothing is removed that a group of the stream has not been given yet or has pending, whoever reads the group: the lowest
// id that any of them still needs bounds what goes. So a group that nobody reads stops all removal; a warning in the log
// names it. The process looks after it when the subscription starts and once a minute; what is removed is counted in
// millrace.trimmed.
//
// The mounts of an app that read the same stream give it once, or all the same. Of several programs each removes by its own
// options, so that the tightest bound is what is left. It is refused where nothing can be removed: on lists and channels,
// and on foreign streams.
func Retain(options ...RetainOption) MountOption {
	return mountOption(func(p *policy) { p.retain, p.hasRetain = newRetention(options), true })
}

// checkRetention looks at what the mount keeps.
func (mt *mount) checkRetention(p *problems) {
	o, name, source := &mt.policy, mt.name(), &mt.source
	mt.checkBounds(p, "Retain", o.retain)
	mt.checkBounds(p, "DeadLetter", o.letters)
	if o.retain.DeleteAcked && (o.retain.hasLast || o.retain.hasFor) {
		p.mount(name, "Retain: DeleteAcked keeps nothing that is acknowledged, and KeepLast and KeepFor do; give either")
	}
	if o.letters.DeleteAcked {
		p.mount(name, "DeadLetter: DeleteAcked belongs to Retain, and what is buried waits for somebody to look at it; give KeepLast(n) or KeepFor(d), or leave it out to keep everything")
	}
	if !o.letters.Keeps() && (source.Structure == broker.StructureChannel || source.Structure == broker.StructurePattern) {
		p.mount(name, "DeadLetter: the dead letters of a %s are published on a channel, which keeps none of them; leave KeepLast and KeepFor out", source.Structure)
	}
	switch {
	case o.retain.Keeps():
	case source.Structure == broker.StructureStream && source.Foreign:
		p.mount(name, "Retain: nothing is ever removed from stream %s, which belongs to others (foreign, or codec=fields); leave it out, or give this mount Retain() where it is the broker's default", source.Key)
	case source.Structure != broker.StructureStream && source.Structure != 0:
		p.mount(name, "Retain: a %s keeps nothing that is done; it belongs to a stream, leave it out, or give this mount Retain() where it is the broker's default", source.Structure)
	}
}

func (mt *mount) checkBounds(p *problems, of string, r retention) {
	if r.hasLast && r.Last < 1 {
		p.mount(mt.name(), "%s: KeepLast(%d) keeps nothing; give at least 1", of, r.Last)
	}
	if r.hasFor && r.For < leastDuration {
		p.mount(mt.name(), "%s: KeepFor(%s) is too short; give at least %s", of, r.For, leastDuration)
	}
}

// checkKept: what one mount keeps, another one on the same key must not remove. A mount without Retain says nothing; a
// DeadLetter without a bound says that everything is kept.
func checkKept(p *problems, mounts []*mount) {
	sources, letters := map[string]*mount{}, map[string]*mount{}
	for _, mt := range mounts {
		if key := mt.source.Key; mt.policy.hasRetain && mt.source.Structure == broker.StructureStream {
			first := sources[key]
			if first == nil {
				sources[key] = mt
			} else if a, b := first.policy.retain.Retention, mt.policy.retain.Retention; a != b {
				p.mount(mt.name(), "it keeps %s of stream %s, and %s keeps %s; give Retain once, or both the same", b, key, first.name(), a)
			}
		}
		if key := mt.deadLetter; key != "" {
			first := letters[key]
			if first == nil {
				letters[key] = mt
			} else if a, b := first.policy.letters.Retention, mt.policy.letters.Retention; a != b {
				p.mount(mt.name(), "it keeps %s of the dead letter %s, and %s keeps %s; give both the same", b, key, first.name(), a)
			}
		}
	}
}
