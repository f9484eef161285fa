package asyncapi

import (
	"cmp"
	"go/types"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// field is a part of a struct as a codec sees it.
type field struct {
	*types.Var
	name  string
	depth int
	// tagged fields go before others of the same name at the same depth.
	tagged bool
	// omitted is true where the codec leaves it out when it is empty, absent where a pointer above it may be nil.
	omitted, absent bool
	// quoted numbers are written as text.
	quoted bool
}

// structure is the schema of a struct. owner is the name of its type.
func (s *schemas) structure(u *types.Struct, owner string, d dialect) *Schema {
	fields := visible(u, d)
	elements := make([]*Schema, len(fields))
	schema := &Schema{Type: "object", Properties: map[string]*Schema{}}
	for i, f := range fields {
		elements[i] = s.field(f, owner, d)
		schema.Properties[f.name] = elements[i]
		if !isPointer(f.Type()) && !f.omitted && !f.absent {
			schema.Required = append(schema.Required, f.name)
		}
	}
	slices.Sort(schema.Required)
	if d == cborDialect && isArray(u) {
		n := int64(len(fields))
		array := &Schema{Type: "array", MinItems: &n, MaxItems: &n}
		if n > 0 {
			array.Items = elements
		}
		return array
	}
	return schema
}

func (s *schemas) field(f field, owner string, d dialect) *Schema {
	before := s.at
	s.at = place{f.Var, owner}
	defer func() { s.at = before }()
	var schema *Schema
	switch pointer := isPointer(f.Type()); {
	case f.quoted && pointer:
		schema = orNull(s.quoted(f.Type()))
	case f.quoted:
		schema = s.quoted(f.Type())
	case f.omitted && !pointer:
		schema = s.notNull(f.Type(), d) // an empty slice is left out, so it is never null
	default:
		schema = s.of(f.Type(), d)
	}
	return described(schema, s.comments.of(f.Var))
}

// quoted is the schema of a field with the option "string" in its tag.
func (s *schemas) quoted(t types.Type) *Schema {
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	if named, ok := t.(*types.Named); ok {
		if _, own := ownForm(named, jsonDialect); own {
			return s.notNull(t, jsonDialect)
		}
	}
	b, ok := t.Underlying().(*types.Basic)
	switch {
	case !ok:
		return s.notNull(t, jsonDialect)
	case b.Info()&types.IsBoolean != 0:
		return &Schema{Type: "string", Enum: []any{"true", "false"}}
	case b.Info()&types.IsUnsigned != 0:
		return &Schema{Type: "string", Pattern: natural}
	case b.Info()&types.IsInteger != 0:
		return &Schema{Type: "string", Pattern: integerPattern}
	}
	return &Schema{Type: "string"}
}

// visible returns the fields that a codec reads, in their order. Those of embedded structs are seen as the struct's own,
// but not where one that is less deep has the name, or where two at the same depth do.
func visible(root *types.Struct, d dialect) []field {
	type level struct {
		*types.Struct
		key    string
		absent bool
	}
	var all []field
	seen := map[string]bool{}
	count := map[string]int{} // how often a type is embedded at this depth
	for depth, current := 0, []level{{Struct: root}}; len(current) > 0; depth++ {
		var next []level
		embeddedNext := map[string]int{}
		for _, l := range current {
			for i := range l.NumFields() {
				f, embedded := tagged(l.Field(i), reflect.StructTag(l.Tag(i)), d)
				f.depth, f.absent = depth, l.absent
				if embedded == nil {
					if f.name != "" {
						all = append(all, f)
					}
					if f.name != "" && count[l.key] > 1 {
						all = append(all, f) // the two hide each other
					}
					continue
				}
				key := types.TypeString(embedded, nil)
				if embeddedNext[key]++; embeddedNext[key] == 1 && !seen[key] {
					next = append(next, level{embedded.Underlying().(*types.Struct), key, l.absent || isPointer(f.Type())})
				}
			}
		}
		for key := range embeddedNext {
			seen[key] = true
		}
		current, count = next, embeddedNext
	}
	return dominant(all)
}

// dominant leaves of all fields with one name that which the codecs choose, if any.
func dominant(all []field) []field {
	byName := map[string][]field{}
	for _, f := range all {
		byName[f.name] = append(byName[f.name], f)
	}
	rank := func(f field) int { return f.depth*2 + map[bool]int{true: 0, false: 1}[f.tagged] }
	return slices.DeleteFunc(all, func(f field) bool {
		best := slices.MinFunc(byName[f.name], func(a, b field) int { return cmp.Compare(rank(a), rank(b)) })
		equals := 0
		for _, other := range byName[f.name] {
			if rank(other) == rank(best) {
				equals++
			}
		}
		return equals > 1 || rank(f) != rank(best)
	})
}

// tagged reads a field's tag. The name is empty where the codec does not see the field, and embedded is the struct whose
// fields it sees in its place.
func tagged(v *types.Var, tags reflect.StructTag, d dialect) (f field, embedded types.Type) {
	f.Var = v
	tag := tags.Get("json")
	if own := tags.Get("cbor"); d == cborDialect && own != "" {
		tag = own
	}
	if tag == "-" {
		return f, nil
	}
	name, rest, _ := strings.Cut(tag, ",")
	options := strings.Split(rest, ",")
	if d == jsonDialect && !isValidName(name) {
		name = ""
	}
	t := types.Unalias(v.Type())
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	_, isStruct := t.Underlying().(*types.Struct)
	switch {
	case v.Anonymous() && isStruct && name == "":
		return f, t
	case !v.Exported() && !(v.Anonymous() && isStruct):
		return f, nil
	}
	f.name, f.tagged = name, name != "" || d == cborDialect && tag != ""
	if name == "" {
		f.name = v.Name()
	}
	f.omitted = slices.Contains(options, "omitempty") || slices.Contains(options, "omitzero")
	f.quoted = d == jsonDialect && slices.Contains(options, "string")
	return f, nil
}

// isValidName is the rule of encoding/json, which takes the Go name in place of any other.
func isValidName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// isArray reports whether the struct is one that CBOR writes as an array: _ struct{} `cbor:",toarray"`.
func isArray(u *types.Struct) bool {
	for i := range u.NumFields() {
		if _, options, _ := strings.Cut(reflect.StructTag(u.Tag(i)).Get("cbor"), ","); u.Field(i).Name() == "_" {
			return slices.Contains(strings.Split(options, ","), "toarray")
		}
	}
	return false
}

func isPointer(t types.Type) bool {
	_, ok := t.Underlying().(*types.Pointer)
	return ok
}
