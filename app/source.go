package app

import (
	"github.com/millrace-go/millrace/broker"
)

// sourceOf is the mount's source as the directive names it.
func (mt *mount) sourceOf() broker.Source {
	spec := mt.subscription.Spec()
	source := broker.Source{
		Group:    spec.Group,
		Reliable: spec.Reliable,
		Sharded:  spec.Sharded,
		Foreign:  spec.Foreign || mt.subscription.Codec() == codecFields,
		// Tasks and later versions of the library's own envelope may be known to another process only.
		Defers:   spec.Task != "" || spec.Reliable,
		OutRetry: mt.policy.outRetry,
		Claim:    spec.Claim,
		Reclaim:  spec.Reclaim,
		Start:    spec.Start,
		DelaySet: spec.DelaySet,
		DelayTTL: spec.DelayTTL,
		Block:    spec.Block,
	}
	for _, named := range namedSources(mt) {
		source.Structure, source.Key = named.structure, named.key
	}
	return source
}

// codecFields reads the flat fields of entries that somebody else writes, and so marks a stream as foreign.
const codecFields = "fields"

type namedSource struct {
	structure broker.Structure
	key       string
}

// namedSources are the sources that the directive names; there should be one.
func namedSources(mt *mount) []namedSource {
	spec := mt.subscription.Spec()
	var named []namedSource
	for _, s := range []namedSource{
		{broker.StructureStream, spec.Stream},
		{broker.StructureList, spec.List},
		{broker.StructureChannel, spec.Channel},
		{broker.StructurePattern, spec.Pattern},
	} {
		if s.key != "" {
			named = append(named, s)
		}
	}
	return named
}

// resolve fills in what the broker decides. It does no I/O.
func (mt *mount) resolve() {
	mt.source = mt.on.broker.Resolve(mt.sourceOf())
	if mt.policy.deadLetter != "" {
		mt.deadLetter = mt.on.broker.ResolveKey(mt.policy.deadLetter)
	}
}

// uses lists the keys of the mount, for the broker to look at. A dead letter goes the way the message came in.
func (mt *mount) uses() []broker.KeyUse {
	structure := mt.source.Structure
	if structure == broker.StructurePattern {
		structure = broker.StructureChannel
	}
	uses := []broker.KeyUse{{Mount: mt.name(), Role: roleSource, Key: mt.source.Key, Structure: mt.source.Structure}}
	if mt.deadLetter != "" {
		uses = append(uses, broker.KeyUse{Mount: mt.name(), Role: roleDeadLetter, Key: mt.deadLetter, Structure: structure})
	}
	if mt.source.DelaySet != "" {
		uses = append(uses, broker.KeyUse{Mount: mt.name(), Role: roleDelaySet, Key: mt.source.DelaySet, Structure: broker.StructureSortedSet})
	}
	return uses
}
