package asyncapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/millrace-go/millrace/gen"
)

// describe returns the document of the packages, as bytes and decoded.
func describe(t *testing.T, dir string, patterns ...string) ([]byte, map[string]any) {
	t.Helper()
	document, report, err := gen.AsyncAPI(t.Context(), gen.AsyncAPIConfig{Config: gen.Config{Dir: dir, Patterns: patterns}})
	if err != nil || len(report.Findings) > 0 {
		t.Fatal(err, report.Findings)
	}
	var decoded map[string]any
	if err := json.Unmarshal(document, &decoded); err != nil {
		t.Fatal(err)
	}
	return document, decoded
}

// TestDocumentsFollowTheRules holds documents to the specification of AsyncAPI 3.0.
func TestDocumentsFollowTheRules(t *testing.T) {
	for _, pattern := range []string{"./gen/internal/asyncapi/testdata/shop", "./examples/...", "./outcome"} {
		t.Run(pattern, func(t *testing.T) {
			_, document := describe(t, "../../..", pattern)
			for _, broken := range rules(document) {
				t.Error(broken)
			}
		})
	}
}

// TestTheRulesFindMistakes changes a good document in one place at a time.
func TestTheRulesFindMistakes(t *testing.T) {
	good, _ := describe(t, "testdata/shop", ".")
	for _, change := range []struct{ from, to, broken string }{
		{`"asyncapi": "3.0.0"`, `"asyncapi": "2.6.0"`, "asyncapi is 2.6.0"},
		{`"version": "0.0.0"`, `"other": "0.0.0"`, "/info has other"},
		{`"version": "0.0.0"`, `"version": 1`, "/info/version is no text"},
		{`"address": "orders"`, `"location": "orders"`, "has location"},
		{`"address": "orders"`, `"address": "orders?"`, "address is no address"},
		{`"address": "orders"`, `"address": "{orders}"`, "parameters are [], the address has [orders]"},
		{`"channel": {
        "$ref": "#/channels/stream.orders"`, `"channel": {
        "$ref": "#/channels/stream.other"`, "leads nowhere"},
		{`"$ref": "#/channels/stream.orders/messages/Order"`, `"$ref": "#/channels/stream.clicks/messages/bytes"`, "is not of the channel"},
		{`"$ref": "#/components/schemas/shop.Order"`, `"$ref": "#/components/schemas/shop.Missing"`, "leads nowhere"},
		{`"action": "receive"`, `"action": "subscribe"`, "action is subscribe"},
		{`"contentType": "application/cbor"`, `"contentType": "cbor"`, "contentType is cbor"},
		{`"pattern": "^[0-9]+$"`, `"pattern": "^[0-9+$"`, "schema"},
		{`"type": "integer"`, `"type": "int"`, "no type: int"},
	} {
		if !strings.Contains(string(good), change.from) {
			t.Fatalf("the document has no %s", change.from)
		}
		var changed map[string]any
		if err := json.Unmarshal([]byte(strings.Replace(string(good), change.from, change.to, 1)), &changed); err != nil {
			t.Fatal(err)
		}
		if broken := rules(changed); !strings.Contains(strings.Join(broken, "\n"), change.broken) {
			t.Errorf("%s: found %q, want %q", change.to, broken, change.broken)
		}
	}
}

// ruler looks through one document.
type ruler struct {
	root   map[string]any
	broken []string
}

// rules returns what is wrong with a document: an object with a field that the specification does not have, or without
// one that it demands, a reference that leads nowhere or elsewhere than it may, an address that is none, a schema that
// is none.
func rules(document map[string]any) []string {
	r := &ruler{root: document}
	r.object("", document, "asyncapi! info! id servers defaultContentType channels operations components")
	if v := document["asyncapi"]; v != "3.0.0" {
		r.failf("asyncapi is %v", v)
	}
	info := asObject(document["info"])
	r.object("/info", info, "title! version! description termsOfService contact license tags externalDocs")
	r.text("/info", info, "title", "version")
	channels := asObject(document["channels"])
	for name, c := range channels {
		r.channel("/channels/"+name, asObject(c))
	}
	for name, o := range asObject(document["operations"]) {
		r.operation("/operations/"+name, asObject(o))
	}
	components := asObject(document["components"])
	r.object("/components", components, "schemas messages parameters channels operations")
	for name, s := range asObject(components["schemas"]) {
		if !regexp.MustCompile(`^[A-Za-z0-9._-]+$`).MatchString(name) {
			r.failf("/components/schemas/%s is no name of a component", name)
		}
		r.schema("/components/schemas/"+name, s)
	}
	slices.Sort(r.broken)
	return r.broken
}

func (r *ruler) failf(format string, args ...any) {
	r.broken = append(r.broken, fmt.Sprintf(format, args...))
}

func asObject(v any) map[string]any {
	object, _ := v.(map[string]any)
	return object
}

// object checks the fields of an object: those with a ! have to be there, others than those may not be.
func (r *ruler) object(at string, object map[string]any, fields string) {
	known := map[string]bool{}
	for _, field := range strings.Fields(fields) {
		name, required := strings.CutSuffix(field, "!")
		known[name] = true
		if _, ok := object[name]; required && !ok {
			r.failf("%s has no %s", at, name)
		}
	}
	for name := range object {
		if !known[name] && !regexp.MustCompile(`^x-[\w.-]+$`).MatchString(name) {
			r.failf("%s has %s", at, name)
		}
	}
}

func (r *ruler) text(at string, object map[string]any, fields ...string) {
	for _, field := range fields {
		if v, ok := object[field]; ok {
			if s, ok := v.(string); !ok || s == "" {
				r.failf("%s/%s is no text", at, field)
			}
		}
	}
}

func (r *ruler) channel(at string, c map[string]any) {
	r.object(at, c, "address! messages! title summary description servers parameters tags externalDocs bindings")
	r.text(at, c, "title", "description")
	var used []string
	if address, ok := c["address"].(string); ok {
		if address == "" || strings.ContainsAny(address, "?#") {
			r.failf("%s: address is no address: %s", at, address)
		}
		for _, m := range regexp.MustCompile(`\{([^{}]*)\}`).FindAllStringSubmatch(address, -1) {
			used = append(used, m[1])
		}
	} else if c["address"] != nil {
		r.failf("%s: address is no text", at)
	}
	parameters := asObject(c["parameters"])
	if given := slices.Sorted(maps.Keys(parameters)); !slices.Equal(given, slices.Sorted(slices.Values(used))) {
		r.failf("%s: parameters are %v, the address has %v", at, given, used)
	}
	for name, p := range parameters {
		r.object(at+"/parameters/"+name, asObject(p), "enum default description examples location")
	}
	for name, v := range asObject(c["messages"]) {
		at, m := at+"/messages/"+name, asObject(v)
		r.object(at, m, "headers payload correlationId contentType name title summary description tags externalDocs bindings examples traits")
		r.text(at, m, "name", "contentType")
		if content, _ := m["contentType"].(string); !regexp.MustCompile(`^[a-z]+/[a-z0-9.+-]+$`).MatchString(content) {
			r.failf("%s: contentType is %s", at, content)
		}
		r.schema(at+"/payload", m["payload"])
		if headers, ok := m["headers"]; ok {
			r.schema(at+"/headers", headers)
			if resolved := r.followed(at+"/headers", asObject(headers)); resolved["type"] != "object" {
				r.failf("%s: headers are of type %v", at, resolved["type"])
			}
		}
	}
}

func (r *ruler) operation(at string, o map[string]any) {
	r.object(at, o, "action! channel! title summary description security tags externalDocs bindings traits messages reply")
	r.text(at, o, "title", "summary", "description")
	if action := o["action"]; action != "send" && action != "receive" {
		r.failf("%s: action is %v", at, action)
	}
	channel := r.reference(at+"/channel", o["channel"], "#/channels/")
	messages, _ := o["messages"].([]any)
	if len(messages) == 0 {
		r.failf("%s has no messages", at)
	}
	for _, m := range messages {
		if ref := r.reference(at+"/messages", m, "#/channels/"); !strings.HasPrefix(ref, channel+"/messages/") {
			r.failf("%s: message %s is not of the channel %s", at, ref, channel)
		}
	}
}

// reference checks a Reference Object, which has nothing but its $ref here, and returns that.
func (r *ruler) reference(at string, v any, prefix string) string {
	object := asObject(v)
	ref, _ := object["$ref"].(string)
	if len(object) != 1 || !strings.HasPrefix(ref, prefix) {
		r.failf("%s is no reference: %v", at, v)
	}
	r.resolve(at, ref)
	return ref
}

// resolve follows a reference within the document, by the rules of JSON pointers in a URI.
func (r *ruler) resolve(at, ref string) any {
	fragment, err := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if err != nil || !strings.HasPrefix(ref, "#/") {
		r.failf("%s: %s is no reference", at, ref)
		return nil
	}
	var value any = r.root
	for _, key := range strings.Split(fragment, "/")[1:] {
		part, ok := asObject(value)[strings.NewReplacer("~1", "/", "~0", "~").Replace(key)]
		if !ok {
			r.failf("%s: %s leads nowhere", at, ref)
			return nil
		}
		value = part
	}
	return value
}

func (r *ruler) followed(at string, schema map[string]any) map[string]any {
	if ref, ok := schema["$ref"].(string); ok {
		return asObject(r.resolve(at, ref))
	}
	return schema
}

// schema checks that a schema is one, and that all its references lead to components. A $ref stands alone: in draft 07
// what stands beside it counts for nothing.
func (r *ruler) schema(at string, v any) {
	if _, ok := v.(map[string]any); !ok {
		r.failf("%s is no schema: %v", at, v)
		return
	}
	text, err := json.Marshal(v)
	if err == nil {
		err = new(jsonschema.Schema).UnmarshalJSON(text)
	}
	if err == nil {
		_, err = compile(r.root, v)
	}
	if err != nil {
		r.failf("%s is no schema: %v", at, err)
	}
	r.references(at, v)
}

var types = []string{"null", "boolean", "object", "array", "number", "string", "integer"}

func (r *ruler) references(at string, v any) {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			r.references(at, element)
		}
	case map[string]any:
		if _, ok := v["$ref"].(string); ok {
			r.reference(at, v, "#/components/schemas/")
			return
		}
		for name, part := range v {
			if s, ok := part.(string); ok && name == "type" && !slices.Contains(types, s) {
				r.failf("%s has no type: %s", at, s)
			}
			r.references(at+"/"+name, part)
		}
	}
}

// compile makes a schema of the document ready to check values: as draft 07, with the components where that draft has
// definitions.
func compile(document map[string]any, schema any) (*jsonschema.Resolved, error) {
	text, err := json.Marshal(map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#", "allOf": []any{schema},
		"definitions": asObject(document["components"])["schemas"],
	})
	if err != nil {
		return nil, err
	}
	s := new(jsonschema.Schema)
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), "#/components/schemas/", "#/definitions/")), s); err != nil {
		return nil, err
	}
	return s.Resolve(nil)
}
