package app

import (
	"strings"

	"github.com/millrace-go/millrace/broker"
)

// checkTogether finds what is wrong between the mounts of one server. Each problem is reported once.
func checkTogether(p *problems, mounts []*mount) {
	for _, mt := range mounts {
		if mt.deadLetter != "" && mt.deadLetter == mt.source.Key {
			p.mount(mt.name(), "the dead letter %s is the source itself, so what is buried would be read again for ever; name another key", mt.deadLetter)
		}
	}
	checkReaders(p, mounts)
	checkForeign(p, mounts)
	checkStructures(p, mounts)
	checkDelaySets(p, mounts)
	checkCycles(p, mounts)
	checkKept(p, mounts)
}

// checkReaders: two mounts on one list, or on one stream and group, would take each other's messages, unless each takes a
// task of its own. Channels give everything to everyone.
func checkReaders(p *problems, mounts []*mount) {
	type reader struct {
		key, group string
		reclaims   bool // it takes only what the other left, and may stand beside it
	}
	readers := map[reader][]*mount{}
	for _, mt := range mounts {
		r := reader{mt.source.Key, mt.source.Group, mt.source.Reclaim > 0}
		stream := mt.source.Structure == broker.StructureStream
		if r.key == "" || stream == (r.group == "") || !stream && mt.source.Structure != broker.StructureList {
			continue
		}
		others := readers[r]
		readers[r] = append(others, mt)
		switch {
		case len(others) == 0:
		case !stream:
			p.mount(mt.name(), "%s reads list %s, too, and each would get a part of the messages; mount one of them", others[0].name(), r.key)
		case mt.task() == "" && others[0].task() == "":
			p.mount(mt.name(), "%s reads stream %s with group %s, too, and each would get a part of the messages; give one of them another group, or both a task=NAME", others[0].name(), r.key, r.group)
		case mt.task() == "" || others[0].task() == "":
			p.mount(mt.name(), "it reads stream %s with group %s as %s does, but only one of them names a task, and the other would take its messages; give both a task=NAME, or one of them another group", r.key, r.group, others[0].name())
		default:
			checkShared(p, mt, others)
		}
	}
}

// checkShared: mounts that share a group by task are read together, so what says how has to be the same.
func checkShared(p *problems, mt *mount, others []*mount) {
	for _, other := range others {
		if other.task() == mt.task() {
			p.mount(mt.name(), "%s takes the task %s of stream %s and group %s, too; give one of them another task", other.name(), mt.task(), mt.source.Key, mt.source.Group)
			return
		}
	}
	first := others[0]
	differ := func(differs bool, what string) {
		if differs {
			p.mount(mt.name(), "it shares stream %s and group %s with %s, and their %s differ; give both the same", mt.source.Key, mt.source.Group, first.name(), what)
		}
	}
	a, b := &mt.source, &first.source
	differ(a.Claim != b.Claim, "claim")
	differ(a.DelaySet != b.DelaySet, "delay-set")
	differ(a.DelayTTL != b.DelayTTL, "delay-ttl")
	differ(a.Block != b.Block, "block")
	differ(a.Start != b.Start, "start")
	for _, other := range others {
		o, m := &other.policy, &mt.policy
		differ(o.hasUnknownDelay && m.hasUnknownDelay && o.unknownDelay != m.unknownDelay, "UnknownTaskDelay")
		differ(o.hasUnknownLimit && m.hasUnknownLimit && o.unknownTimeout != m.unknownTimeout, "UnknownTaskTimeout")
	}
}

// checkForeign: nothing is ever written to a foreign stream, also not by another group that reads it, by what a delay set
// gives back, or as a dead letter.
func checkForeign(p *problems, mounts []*mount) {
	foreign := map[string]*mount{}
	for _, mt := range mounts {
		if mt.source.Foreign {
			foreign[mt.source.Key] = mt
		}
	}
	for _, mt := range mounts {
		if other := foreign[mt.source.Key]; other != nil && !mt.source.Foreign && mt.source.Structure == broker.StructureStream {
			p.mount(mt.name(), "it reads stream %s, which is foreign to %s, and would append its retries; add foreign to its directive", mt.source.Key, other.name())
		}
		if other := foreign[mt.deadLetter]; other != nil && mt.deadLetter != "" && mt.deadLetter != mt.source.Key {
			p.mount(mt.name(), "its dead letter %s is foreign to %s, and nothing is ever written to a foreign stream; name another key", mt.deadLetter, other.name())
		}
	}
}

// checkStructures: one key cannot hold a stream and a sorted set. Channels and patterns are no keys.
func checkStructures(p *problems, mounts []*mount) {
	first := map[string]broker.KeyUse{}
	for _, mt := range mounts {
		for _, use := range mt.uses() {
			if use.Key == "" || use.Structure == broker.StructureChannel || use.Structure == broker.StructurePattern {
				continue
			}
			other, used := first[use.Key]
			if !used {
				first[use.Key] = use
				continue
			}
			if other.Structure != use.Structure {
				p.mount(use.Mount, "the key %s is its %s (a %s) and the %s of %s (a %s); use two keys",
					use.Key, use.Role, use.Structure, other.Role, other.Mount, other.Structure)
			}
		}
	}
}

// checkDelaySets: what is due goes back to the one stream or list that a set belongs to.
func checkDelaySets(p *problems, mounts []*mount) {
	first := map[string]*mount{}
	for _, mt := range mounts {
		set := mt.source.DelaySet
		if set == "" {
			continue
		}
		other, used := first[set]
		if !used {
			first[set] = mt
			continue
		}
		if other.source.Key != mt.source.Key {
			p.mount(mt.name(), "the delay set %s belongs to %s %s of %s already; give %s %s a set of its own",
				set, other.source.Structure, other.source.Key, other.name(), mt.source.Structure, mt.source.Key)
		}
	}
}

// checkCycles: a dead letter that leads back to its source would go round for ever. A dead letter that is its own
// source is reported elsewhere.
func checkCycles(p *problems, mounts []*mount) {
	next := map[string][]*mount{}
	for _, mt := range mounts {
		if mt.deadLetter != "" && mt.deadLetter != mt.source.Key {
			next[mt.source.Key] = append(next[mt.source.Key], mt)
		}
	}
	reported := map[string]bool{}
	for _, start := range mounts {
		var path []*mount
		onPath := map[string]bool{}
		var walk func(key string) bool
		walk = func(key string) bool {
			onPath[key] = true
			for _, mt := range next[key] {
				path = append(path, mt)
				if mt.deadLetter == start.source.Key {
					return true
				}
				if !onPath[mt.deadLetter] && walk(mt.deadLetter) {
					return true
				}
				path = path[:len(path)-1]
			}
			return false
		}
		if reported[start.source.Key] || !walk(start.source.Key) {
			continue
		}
		keys := make([]string, 0, len(path)+1)
		for _, mt := range path {
			reported[mt.source.Key] = true
			keys = append(keys, mt.source.Key)
		}
		p.mount(path[0].name(), "its dead letter leads back to its source: %s; let the last one end elsewhere",
			strings.Join(append(keys, start.source.Key), " → "))
	}
}
