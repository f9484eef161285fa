package asyncapi

import (
	"cmp"
	"fmt"
	"go/doc"
	"go/types"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/millrace-go/millrace/gen/diag"
	"github.com/millrace-go/millrace/gen/directive"
	"github.com/millrace-go/millrace/gen/model"
)

// Describe returns the document of all subscriptions of the packages. It adds to findings where a payload has a type
// that does not compile: a schema without it would be wrong without a word.
func Describe(pkgs []*model.Package, info Info, findings *diag.List) ([]byte, error) {
	d := describer{
		document: document{
			AsyncAPI: "3.0.0", Info: info, DefaultContentType: contentTypes[""],
			Channels: map[string]*channel{}, Operations: map[string]*operation{},
		},
		channels: map[source]string{},
		messages: map[messageKey]string{},
		findings: findings,
		schemas:  schemas{byType: map[string]*component{}},
	}
	var paths []string
	var all []located
	for _, p := range pkgs {
		paths = append(paths, p.Path)
		for _, s := range p.Subscriptions {
			all = append(all, located{p, s})
		}
	}
	// Folders are in another order where modules of a workspace lie elsewhere.
	slices.SortFunc(all, func(a, b located) int {
		return cmp.Or(strings.Compare(a.pkg.Path, b.pkg.Path), strings.Compare(a.Var, b.Var))
	})
	if len(all) > 0 { // all were loaded together, and share their positions
		d.schemas.comments = comments{all[0].pkg.Fset, map[string]map[int]comment{}}
	}
	d.Info.Title = cmp.Or(info.Title, inCommon(paths), "Subscriptions")
	d.Info.Version = cmp.Or(info.Version, "0.0.0")
	d.addChannels(all)
	d.addOperations(all)
	d.Components.Schemas = d.schemas.named()
	d.Components.Schemas[headersName] = &Schema{Type: "object", Properties: headers}
	return d.encode()
}

// located is a subscription and its package.
type located struct {
	pkg *model.Package
	model.Subscription
}

type describer struct {
	document
	schemas  schemas
	channels map[source]string
	messages map[messageKey]string
	findings *diag.List
}

func sourceOf(s *directive.Subscriber) source {
	switch {
	case s.List != "":
		return source{Structure: "list", Key: s.List}
	case s.Channel != "":
		return source{Structure: "channel", Key: s.Channel, Sharded: s.Sharded}
	case s.Pattern != "":
		return source{Structure: "pattern", Key: s.Pattern}
	}
	return source{Structure: "stream", Key: s.Stream}
}

// addChannels makes a channel of each source. The name begins with the structure, so that it stays the same whatever
// other sources there are.
func (d *describer) addChannels(all []located) {
	var sources []source
	for _, s := range all {
		sources = append(sources, sourceOf(&s.Spec))
	}
	slices.SortFunc(sources, func(a, b source) int {
		return cmp.Or(strings.Compare(a.kind(), b.kind()), strings.Compare(a.Key, b.Key))
	})
	for _, s := range slices.Compact(sources) {
		name := free(d.Channels, id(s.kind()+"."+s.Key))
		d.channels[s] = name
		c := &channel{Title: s.kind() + " " + s.Key, Messages: map[string]*message{}, Extension: s}
		c.setAddress(s.Key)
		if s.Structure == "pattern" {
			c.Description = "Every channel whose name matches this glob."
		}
		d.Channels[name] = c
	}
}

func (s source) kind() string {
	if s.Sharded {
		return "sharded-channel"
	}
	return s.Structure
}

var braces = regexp.MustCompile(`\{([^{}]+)\}`)

// setAddress gives the channel its key as an address. Braces in an address stand around a parameter, so a hash tag is
// one whose only value is itself. What looks like a query or a fragment may not stand in an address at all.
func (c *channel) setAddress(key string) {
	if strings.ContainsAny(key, "?#") {
		return
	}
	c.Address = &key
	for _, m := range braces.FindAllStringSubmatch(key, -1) {
		if c.Parameters == nil {
			c.Parameters = map[string]parameter{}
		}
		c.Parameters[m[1]] = parameter{[]string{m[0]}, m[0], "The hash tag of the key. Its braces are part of it."}
	}
}

func (d *describer) addOperations(all []located) {
	count := map[string]int{}
	for _, s := range all {
		count[s.Spec.Name]++
	}
	for _, s := range all {
		handler := s.pkg.Path + "." + strings.TrimPrefix(s.Type+"."+s.Func, ".")
		name := s.Spec.Name
		if count[name] > 1 {
			name = strings.ReplaceAll(handler, "/", ".")
		}
		from := sourceOf(&s.Spec)
		on := d.channels[from]
		ref := "#/channels/" + on
		text := strings.TrimSpace(s.Doc)
		summary := new(doc.Package).Synopsis(text)
		op := &operation{
			Action: "receive", Title: s.Spec.Name, Summary: summary, Channel: reference{ref},
			Messages:  []reference{{ref + "/messages/" + d.message(on, s)}},
			Extension: extension(s, handler, from),
		}
		if strings.Join(strings.Fields(text), " ") != summary {
			op.Description = text
		}
		d.Operations[free(d.Operations, id(name))] = op
	}
}

func extension(s located, handler string, from source) subscription {
	spec := &s.Spec
	at := s.Directive
	return subscription{
		Handler: handler, Variable: s.Var, Name: spec.Name,
		Directive: fmt.Sprintf("%s:%d:%d", path.Join(s.pkg.Path, filepath.Base(at.Filename)), at.Line, at.Column),
		Structure: from.Structure, Group: spec.Group, Claim: short(spec.Claim), Reclaim: short(spec.Reclaim),
		Start: spec.Start, DelaySet: spec.DelaySet, DelayTTL: short(spec.DelayTTL), Task: spec.Task,
		Foreign: spec.Foreign || spec.Codec == "fields", Reliable: spec.Reliable, Sharded: spec.Sharded,
		Codec: spec.Codec, Block: short(spec.Block), Timeout: short(spec.Timeout),
	}
}

// short writes 36h for what Go writes as 36h0m0s.
func short(d time.Duration) string {
	if d == 0 {
		return ""
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// contentTypes are by codec. Without one in the directive it is JSON, unless the mount has another.
var contentTypes = map[string]string{
	"": "application/json", "json": "application/json", "cbor": "application/cbor", "raw": "application/octet-stream",
	"fields": "application/vnd.millrace.fields",
}

// dialects are by codec. One of the mount is taken for JSON.
var dialects = map[string]dialect{"cbor": cborDialect, "fields": fieldsDialect}

// messageKey is what makes two messages of a channel the same.
type messageKey struct{ channel, contentType, payload, task string }

// message returns the name of the message that a subscription takes from a channel.
func (d *describer) message(on string, s located) string {
	key := messageKey{on, contentTypes[s.Spec.Codec], types.TypeString(s.Payload, nil), s.Spec.Task}
	if p, ok := types.Unalias(s.Payload).Underlying().(*types.Pointer); ok {
		key.payload = types.TypeString(p.Elem(), nil)
	}
	if name, ok := d.messages[key]; ok {
		return name
	}
	m := &message{ContentType: key.contentType, Headers: headersOf(key.task)}
	messages := d.Channels[on].Messages
	m.Name = free(messages, id(cmp.Or(key.task, payloadName(s.Payload)+suffix[dialects[s.Spec.Codec]])))
	switch s.Spec.Codec {
	case "raw":
		m.Payload = &Schema{Type: "string", ContentEncoding: "binary"}
	case "fields":
		m.Payload, m.Headers = d.schemas.flat(s.Payload), nil
	default:
		m.Payload = d.schemas.notNull(s.Payload, dialects[s.Spec.Codec])
	}
	for _, b := range d.schemas.broken {
		d.findings.Add(diag.Diagnostic{
			Code: diag.TypeError, Pos: s.pkg.Fset.Position(b.field.Pos()),
			Message: fmt.Sprintf("the type of %s of %s does not compile, so that there is no schema of it", b.field.Name(), b.owner),
		})
	}
	d.schemas.broken = nil
	messages[m.Name] = m
	d.messages[key] = m.Name
	return m.Name
}

// payloadName is the name of a payload's type without its package.
func payloadName(t types.Type) string {
	t = types.Unalias(t)
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	if named, ok := t.(*types.Named); ok {
		return tidy(types.TypeString(named, func(*types.Package) string { return "" }))
	}
	switch b, ok := t.(*types.Basic); {
	case ok:
		return b.Name()
	case isByteSlice(t):
		return "bytes"
	}
	return "payload"
}
