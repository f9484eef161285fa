package directive

import (
	"go/token"
	"slices"

	"github.com/millrace-go/millrace/gen/diag"
)

// fits says beside which structures a key may stand. A key that is not here may stand beside all of them.
var fits = []struct {
	key        string
	structures []string
	why        string
}{
	{"group", onStream, "consumer groups belong to streams"},
	{"claim", onStream, "only entries of a stream stay pending"},
	{"reclaim", onStream, "only entries of a stream stay pending"},
	{"start", onStream, "only a stream keeps what was read before"},
	{"delay-set", onQueues, "what a channel sends is not kept"},
	{"task", onStream, "handlers share a stream and its group by task"},
	{"foreign", onStream, "only entries of a stream stay where they are"},
	{"reliable", []string{"list"}, "an in-flight list belongs to a list"},
	{"sharded", []string{"channel"}, "SSUBSCRIBE takes the name of a channel"},
	{"block", onQueues, "what a channel sends comes by itself"},
}

var (
	onStream = []string{"stream"}
	onQueues = []string{"stream", "list"}
)

// combine checks the keys against each other. Each of them is right by itself.
func (p *parser) combine() {
	if p.structure == "" {
		p.found(diag.NoStructure, p.d.Pos, "the directive does not say what to read: add stream=KEY, list=KEY, channel=NAME or pattern=GLOB")
		return
	}
	for _, f := range fits {
		if pos, ok := p.d.at[f.key]; ok && !slices.Contains(f.structures, p.structure) {
			p.unfit(pos, f.key, f.why, f.structures)
		}
	}
	s := &p.d.Subscriber
	fields := s.Codec == "fields"
	if pos, ok := p.d.at["codec"]; ok && fields && s.Stream == "" {
		p.unfit(pos, "codec=fields", "only entries of a stream have fields", onStream)
	}
	if pos, ok := p.d.at["delay-set"]; ok && s.List != "" && !s.Reliable {
		e := p.found(diag.MissingPartner, pos, "delay-set beside list: delays are kept for a list that is reliable; add reliable, or leave delay-set out")
		e.Edit = &Edit{pos, pos, "reliable "}
	} else if pos, ttl := p.d.at["delay-ttl"]; ttl && !ok {
		if slices.Contains(onQueues, p.structure) {
			p.found(diag.MissingPartner, pos, "delay-ttl is the expiry of a delay set: add delay-set=KEY, or leave it out")
		} else {
			p.unfit(pos, "delay-ttl", "what a channel sends is not kept", onQueues)
		}
	}
	if s.Stream != "" {
		p.exclude()
	}
}

// exclude reports keys of a stream that cannot both be meant.
func (p *parser) exclude() {
	s := &p.d.Subscriber
	if pos, ok := p.d.at["delay-set"]; ok {
		switch {
		case s.Foreign:
			p.found(diag.Contradiction, pos, "delay-set beside foreign: nothing is copied from a foreign stream, a retry stays pending there; leave one out")
		case s.Codec == "fields":
			p.found(diag.Contradiction, pos, "delay-set beside codec=fields: it implies foreign, and nothing is copied from a foreign stream; leave delay-set out, or take another codec")
		}
	}
	if pos, ok := p.d.at["task"]; ok {
		switch {
		case s.Foreign:
			p.found(diag.Contradiction, pos, "task beside foreign: a message of an unknown task is put off as a copy, and nothing is ever written to a foreign stream; leave one out")
		case s.Codec == "fields":
			p.found(diag.Contradiction, pos, "task beside codec=fields: it implies foreign, and a message of an unknown task is put off as a copy; leave task out, or take another codec")
		case s.Reclaim != 0:
			p.found(diag.Contradiction, pos, "task beside reclaim: what is reclaimed is of any task; leave one out")
		}
	}
	if pos, ok := p.d.at["reclaim"]; ok && s.Claim != 0 {
		p.found(diag.Contradiction, pos, "reclaim beside claim: a claiming subscription takes back what is idle by itself; leave one out")
	}
}

// unfit reports a key beside a structure that does not have it.
func (p *parser) unfit(pos token.Pos, name, why string, structures []string) {
	k, _ := findKey(structures[0])
	p.found(diag.WrongStructure, pos, "%s beside %s: %s; leave %s out, or read %s", name, p.structure, why, name, k.usage)
}
