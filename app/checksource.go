package app

import (
	"strings"

	"github.com/millrace-go/millrace/broker"
)

// checkSource looks at what the mount reads: streamgen refuses most of this, but a Spec may be written by hand.
func (mt *mount) checkSource(p *problems) {
	spec, source, name := mt.subscription.Spec(), &mt.source, mt.name()
	switch named := namedSources(mt); len(named) {
	case 0:
		p.mount(name, "it has no source; add stream=KEY, list=KEY, channel=NAME or pattern=GLOB to the directive")
		return
	case 1:
	default:
		p.mount(name, "it names a %s and a %s; one directive reads one source", named[0].structure, named[1].structure)
		return
	}
	stream := source.Structure == broker.StructureStream
	keeps := stream || source.Reliable
	if stream && source.Group == "" {
		p.mount(name, "no group; add group=NAME to the directive, or DefaultGroup(name) to the broker")
	}
	if keeps && strings.Contains(source.Key, "}") && !hasHashTag(source.Key) {
		p.mount(name, "the %s key %q holds a } but no hash tag, so its auxiliary keys would live in another cluster slot; rename it, or give it a tag as in {name}", source.Structure, source.Key)
	}
	refuse := func(given bool, key, on string) {
		if given {
			p.mount(name, "%s means nothing on a %s; it belongs to a %s, leave it out", key, source.Structure, on)
		}
	}
	if !stream {
		refuse(spec.Group != "", "group="+spec.Group, "stream")
		refuse(spec.Claim != 0, "claim="+spec.Claim.String(), "stream")
		refuse(spec.Reclaim != 0, "reclaim="+spec.Reclaim.String(), "stream")
		refuse(spec.Start != "", "start="+spec.Start, "stream")
		refuse(spec.Task != "", "task="+spec.Task, "stream")
		refuse(source.Foreign, "foreign", "stream")
	}
	refuse(spec.Reliable && source.Structure != broker.StructureList, "reliable", "list")
	refuse(spec.Sharded && source.Structure != broker.StructureChannel, "sharded", "channel")
	if spec.DelaySet != "" && !keeps {
		p.mount(name, "delay-set=%s has nothing to come back to: a message of this %s is gone once it is read; read a stream or a reliable list, or leave it out", spec.DelaySet, source.Structure)
	}
	if source.Foreign && spec.DelaySet != "" {
		p.mount(name, "delay-set=%s would lead back to a foreign stream, to which nothing is ever written; leave it out", spec.DelaySet)
	}
	if spec.Task != "" && spec.Reclaim != 0 {
		p.mount(name, "task=%s and reclaim=%s exclude each other: what is reclaimed is of any task; leave one out", spec.Task, spec.Reclaim)
	}
	if spec.Task != "" && source.Foreign {
		p.mount(name, "task=%s and foreign exclude each other: an unknown task is put off by a copy, and nothing is ever written to a foreign stream; leave one out", spec.Task)
	}
	switch pattern := source.Structure == broker.StructurePattern; {
	case pattern && !mt.policy.hasOutRetry:
		p.mount(name, "the pattern %s names no single channel that a retry could go to; add the option OutRetry(channel)", source.Key)
	case pattern && mt.policy.outRetry == "":
		p.mount(name, `OutRetry("") names no channel; give one`)
	case !pattern && mt.policy.hasOutRetry:
		p.mount(name, "OutRetry(%q) is for patterns; the copies of this %s go back to it, leave the option out", mt.policy.outRetry, source.Structure)
	}
}
