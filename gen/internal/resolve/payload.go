package resolve

import (
	"fmt"
	"go/types"
	"reflect"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/gen/diag"
	"github.com/millrace-go/millrace/gen/internal/flat"
)

// typeName writes a type as reflection does, which knows a package by its name.
func typeName(t types.Type) string { return types.TypeString(t, (*types.Package).Name) }

// checkPayload holds the payload to the codec, and reports whether it fits.
func (r *resolver) checkPayload(h handler, sig signature) bool {
	switch codec := h.directive.Codec; codec {
	case "raw":
		if !isBytes(sig.payload) {
			r.report(diag.RawPayload, h.token("codec"), "codec=raw hands over the bytes as they are, but the payload of %s is %s: take []byte, or leave codec=raw out",
				h.name(), types.TypeString(sig.payload, types.RelativeTo(r.src.Types)))
			return false
		}
	case "fields":
		_, problems := flat.Fields(sig.payload)
		for _, problem := range problems {
			r.report(diag.FieldsPayload, h.token("codec"), "%s", problem)
		}
		return len(problems) == 0
	default:
		c := lossCheck{codec: codec, seen: map[types.Type]bool{}}
		c.visit(sig.payload, "", typeName(types.Unalias(sig.payload)))
		for _, loss := range c.losses {
			var related []diag.Related
			if loss.field != nil && loss.field.Pkg() == r.src.Types {
				related = []diag.Related{{Pos: r.position(loss.field.Pos()), Message: loss.field.Name()}}
			}
			at := h.decl.Type.Params.List[len(h.decl.Type.Params.List)-1].Type
			r.add(diag.LostPayload, place{at.Pos(), at.End()}, related, "the payload of %s: %s", h.name(), loss.why)
		}
		return len(c.losses) == 0
	}
	return true
}

func isBytes(t types.Type) bool {
	return types.Identical(t.Underlying(), types.NewSlice(types.Typ[types.Byte]))
}

// loss is a part of a payload that no message ever fills.
type loss struct {
	field *types.Var // nil for the payload itself
	why   string
}

// lossCheck looks through a payload for what encoding/json and CBOR leave empty without a word, or can only refuse.
type lossCheck struct {
	// codec is that of the directive, "" where the mount decides.
	codec  string
	field  *types.Var
	seen   map[types.Type]bool
	losses []loss
}

func (c *lossCheck) lose(format string, args ...any) {
	c.losses = append(c.losses, loss{c.field, fmt.Sprintf(format, args...)})
}

// visit looks at a type. path is the field that has it, "" at the payload itself; owner is the type of that.
func (c *lossCheck) visit(t types.Type, path, owner string) {
	t = types.Unalias(t)
	what := strings.TrimPrefix(path+" of "+owner, " of ")
	if i, ok := t.Underlying().(*types.Interface); ok && !i.Empty() && c.codec != "" {
		c.lose("%s is an interface with methods, and a message does not say what to make: take a type that has them", what)
	}
	if c.decodesItself(t) {
		return
	}
	if _, named := t.(*types.Named); named {
		if c.seen[t] {
			return
		}
		c.seen[t] = true
	}
	wayOut := "take what it stands for"
	if path != "" {
		wayOut += `, or leave the field out with json:"-"`
	}
	switch u := t.Underlying().(type) {
	case *types.Chan:
		c.lose("%s is a channel, which no message can fill: %s", what, wayOut)
	case *types.Signature:
		c.lose("%s is a function, which no message can fill: %s", what, wayOut)
	case *types.Basic:
		if u.Info()&types.IsComplex != 0 || u.Kind() == types.UnsafePointer {
			c.lose("%s is %s, which no message can fill: %s", what, typeName(t), wayOut)
		}
	case *types.Pointer:
		c.visit(u.Elem(), path, owner)
	case *types.Slice:
		c.visit(u.Elem(), path, owner)
	case *types.Array:
		c.visit(u.Elem(), path, owner)
	case *types.Map:
		if c.codec == "json" && !isNameInJSON(u.Key()) {
			c.lose("%s has keys of type %s, which JSON has not: take string or an integer for them, or a type with the methods MarshalText and UnmarshalText", what, typeName(types.Unalias(u.Key())))
		}
		c.visit(u.Elem(), path, owner)
	case *types.Struct:
		if visible, hidden := c.structure(u, typeName(t)); !visible && hidden {
			if path == "" {
				method := "UnmarshalJSON"
				if c.codec == "cbor" {
					method = "UnmarshalCBOR"
				}
				c.lose("%s has no exported field, so every message would leave it empty: export its fields, or give it a method %s", what, method)
			} else {
				c.lose("%s is of type %s, which has no exported field, so it would stay empty: %s", what, typeName(t), wayOut)
			}
		}
	}
}

// isNameInJSON reports whether encoding/json fills maps with such keys. Other codecs of a mount may fill others.
func isNameInJSON(key types.Type) bool {
	b, ok := key.Underlying().(*types.Basic)
	return ok && (b.Kind() == types.Invalid || b.Info()&(types.IsString|types.IsInteger) != 0) || flat.UnmarshalsText(key)
}

// structure looks at the fields of a struct. visible is true where a message can reach one, or where one was left out on
// purpose; hidden where one is not exported.
func (c *lossCheck) structure(s *types.Struct, owner string) (visible, hidden bool) {
	before := c.field
	defer func() { c.field = before }()
	for i := range s.NumFields() {
		f := s.Field(i)
		tag, tagged := c.tag(reflect.StructTag(s.Tag(i)))
		t := types.Unalias(f.Type())
		p, pointer := t.(*types.Pointer)
		if pointer {
			t = types.Unalias(p.Elem())
		}
		embedded, isStruct := t.Underlying().(*types.Struct)
		isStruct = isStruct && f.Anonymous()
		c.field = f
		switch {
		case tag == "-":
			visible = true
		case isStruct && pointer && !f.Exported():
			visible = true
			c.lose("%s of %s is embedded by pointer and not exported, so that no codec can set it: embed the struct itself", f.Name(), owner)
		case isStruct && !pointer && tag == "" && !c.decodesItself(t):
			v, h := c.structure(embedded, typeName(t))
			visible, hidden = visible || v, hidden || h
		case isStruct && !f.Exported(): // as a whole, under the name in its tag
			visible = true
			c.visit(t, f.Name(), owner)
		case !f.Exported():
			blank := f.Name() == "_" // its tag is for the struct, as in _ struct{} `cbor:",toarray"`
			hidden = hidden || !blank
			if tagged && !blank {
				c.lose("%s of %s has a tag, but is not exported, so it would stay empty: export it, or remove the tag", f.Name(), owner)
			}
		default:
			visible = true
			c.visit(f.Type(), f.Name(), owner)
		}
	}
	return visible, hidden
}

// tag returns the name in the tag that the codec reads.
func (c *lossCheck) tag(tags reflect.StructTag) (name string, tagged bool) {
	keys := []string{"json", "cbor"}
	switch c.codec {
	case "json":
		keys = keys[:1]
	case "cbor":
		slices.Reverse(keys)
	}
	for _, key := range keys {
		if tag, ok := tags.Lookup(key); ok {
			name, _, comma := strings.Cut(tag, ",")
			if comma && name == "-" {
				return "", true // named "-"
			}
			return name, true
		}
	}
	return "", false
}

// decodesItself reports whether the type has a method by which the codec fills it, and so fields of no interest. Where
// the mount decides on the codec, any such method counts: it may be one for protocol buffers.
func (c *lossCheck) decodesItself(t types.Type) bool {
	if isNamed(t, "time", "Time") || isNamed(t, "math/big", "Int") {
		return true
	}
	if types.IsInterface(t) {
		return true
	}
	methods := map[string][]string{
		"json": {"UnmarshalJSON", "UnmarshalText"},
		"cbor": {"UnmarshalCBOR", "UnmarshalBinary", "UnmarshalText"},
	}[c.codec]
	if _, pointer := t.(*types.Pointer); !pointer {
		t = types.NewPointer(t)
	}
	set := types.NewMethodSet(t)
	for i := range set.Len() {
		name := set.At(i).Obj().Name()
		if slices.Contains(methods, name) {
			return true
		}
		if c.codec == "" && (strings.HasPrefix(name, "Unmarshal") || strings.HasPrefix(name, "Decode") || name == "GobDecode" || name == "ProtoReflect") {
			return true
		}
	}
	return false
}
