package app

import (
	"strings"

	"github.com/millrace-go/millrace/broker"
)

// checkTogether finds what is wrong between the mounts of one server. Each problem is reported once.
func checkTogether(p *problems, mounts []*mount) {
	for _, mt := range mounts {
		if mt.deadLetter != "" && mt.deadLetter == mt.source.Key {
			p.mount(mt.name(), "the dead letter %s is the source itself, so what is buried would be read again for ever; name another stream", mt.deadLetter)
		}
	}
	checkReaders(p, mounts)
	checkStructures(p, mounts)
	checkDelaySets(p, mounts)
	checkCycles(p, mounts)
}

// checkReaders: two mounts on one stream and group would take each other's messages.
func checkReaders(p *problems, mounts []*mount) {
	type reader struct {
		stream, group string
		reclaims      bool // it takes only what the other left, and may stand beside it
	}
	first := map[reader]*mount{}
	for _, mt := range mounts {
		r := reader{mt.source.Key, mt.source.Group, mt.source.Reclaim > 0}
		if r.stream == "" || r.group == "" {
			continue
		}
		if other, taken := first[r]; taken {
			p.mount(mt.name(), "%s reads stream %s with group %s, too, and each would get a part of the messages; give one of them another group", other.name(), r.stream, r.group)
			continue
		}
		first[r] = mt
	}
}

// checkStructures: one key cannot hold a stream and a sorted set.
func checkStructures(p *problems, mounts []*mount) {
	first := map[string]broker.KeyUse{}
	for _, mt := range mounts {
		for _, use := range mt.uses() {
			if use.Key == "" {
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

// checkDelaySets: what is due goes back to the one stream that a set belongs to.
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
			p.mount(mt.name(), "the delay set %s belongs to stream %s of %s already; give stream %s a set of its own",
				set, other.source.Key, other.name(), mt.source.Key)
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
