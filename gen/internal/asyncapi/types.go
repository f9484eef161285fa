package asyncapi

import (
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// dialect is how a codec reads Go types.
type dialect int

const (
	jsonDialect dialect = iota
	cborDialect
	fieldsDialect
)

// suffix keeps the schemas of one type in several dialects apart. It is there whether or not there are several, so that
// a new handler changes no names.
var suffix = map[dialect]string{cborDialect: ".cbor", fieldsDialect: ".fields"}

// schemas makes schemas of types. Named types become components, once each.
type schemas struct {
	comments comments
	// byType has the components by full type name and dialect.
	byType map[string]*component
	// at is the field that is looked at, and broken are those whose types do not compile.
	at     place
	broken []place
}

// place is a field and the name of the type that has it.
type place struct {
	field *types.Var
	owner string
}

// component is a schema that others refer to.
type component struct {
	schema *Schema
	// name is short, full says the import path as well.
	name, full string
	// refs get their Ref when all components are known.
	refs []*Schema
}

// component returns a reference to the component of a type, which fill makes when it is the first.
func (s *schemas) component(t *types.Named, d dialect, fill func(*Schema)) *Schema {
	full := types.TypeString(t, nil)
	key := full + suffix[d]
	c := s.byType[key]
	if c == nil {
		short := types.TypeString(t, (*types.Package).Name)
		c = &component{
			schema: &Schema{Extension: &goType{full}},
			name:   tidy(short) + suffix[d], full: tidy(strings.ReplaceAll(full, "/", ".")) + suffix[d],
		}
		s.byType[key] = c // before it is filled: a type may lead back to itself
		fill(c.schema)
		described(c.schema, s.comments.of(t.Obj()))
	}
	ref := &Schema{Ref: key} // until it has its name
	c.refs = append(c.refs, ref)
	return ref
}

var odd = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// spelled are the parts of type arguments that tell types apart and have no letters.
var spelled = strings.NewReplacer("[]", "list.", "*", "pointer.", "map[", "map.")

// tidy makes Page[shop.Item] into Page_shop.Item.
func tidy(name string) string {
	return strings.Trim(odd.ReplaceAllString(spelled.Replace(name), "_"), "_")
}

// named gives the components their names and returns them by these. Where two have the same short name, both have the
// full one.
func (s *schemas) named() map[string]*Schema {
	count := map[string]int{}
	for _, c := range s.byType {
		count[c.name]++
	}
	out := map[string]*Schema{}
	for _, key := range slices.Sorted(maps.Keys(s.byType)) {
		c := s.byType[key]
		name := c.name
		if count[name] > 1 {
			name = c.full
		}
		name = free(out, name)
		out[name] = c.schema
		for _, ref := range c.refs {
			ref.Ref = "#/components/schemas/" + name
		}
	}
	return out
}

// of returns the schema of a type as json or cbor write it, which accepts null where a nil value is written so.
func (s *schemas) of(t types.Type, d dialect) *Schema {
	t = types.Unalias(t)
	schema := s.notNull(t, d)
	switch t.Underlying().(type) {
	case *types.Pointer, *types.Slice, *types.Map:
		return orNull(schema)
	case *types.Struct:
		if d == cborDialect && schema.Format == "date-time" { // the zero time
			return orNull(schema)
		}
	}
	return schema
}

// notNull is of without null.
func (s *schemas) notNull(t types.Type, d dialect) *Schema {
	t, ok := pointee(t)
	if !ok {
		return &Schema{}
	}
	named, ok := t.(*types.Named)
	if !ok {
		return s.underlying(t, "the payload", d)
	}
	if known, ok := wellKnown(named); ok {
		return known
	}
	return s.component(named, d, func(fill *Schema) {
		extension := fill.Extension
		switch own, ok := ownForm(named, d); {
		case ok:
			*fill = *own
		default:
			*fill = *s.underlying(named.Underlying(), types.TypeString(named, (*types.Package).Name), d)
			addEnum(fill, named)
		}
		fill.Extension = extension
	})
}

// pointee follows pointers to what they are for. It is false where that is nothing, as with type P *P.
func pointee(t types.Type) (types.Type, bool) {
	var passed []types.Type
	for {
		t = types.Unalias(t)
		p, ok := t.Underlying().(*types.Pointer)
		if !ok {
			return t, true
		}
		if slices.Contains(passed, t) {
			return nil, false
		}
		passed = append(passed, t)
		t = p.Elem()
	}
}

// underlying is the schema of a type by what it is made of. owner is its name.
func (s *schemas) underlying(t types.Type, owner string, d dialect) *Schema {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		if u.Kind() == types.Invalid && s.at.field != nil {
			s.broken = append(s.broken, s.at)
		}
		return basic(u)
	case *types.Slice:
		if isByte(u.Elem(), d) {
			return bytesIn(d)
		}
		return &Schema{Type: "array", Items: s.of(u.Elem(), d)}
	case *types.Array:
		if d == cborDialect && isByte(u.Elem(), d) {
			return bytesIn(d)
		}
		n := u.Len()
		return &Schema{Type: "array", Items: s.of(u.Elem(), d), MinItems: &n, MaxItems: &n}
	case *types.Map:
		return &Schema{Type: "object", PropertyNames: s.keys(u.Key(), d), AdditionalValues: s.of(u.Elem(), d)}
	case *types.Struct:
		return s.structure(u, owner, d)
	}
	return &Schema{} // an interface holds anything
}

// keys is the schema of the names of a map, nil where any will do.
func (s *schemas) keys(t types.Type, d dialect) *Schema {
	t = types.Unalias(t)
	b, ok := t.Underlying().(*types.Basic)
	switch named, isNamed := t.(*types.Named); {
	case isNamed && hasMethod(named, "MarshalText", "UnmarshalText"), !ok:
		return nil
	case b.Info()&types.IsUnsigned != 0:
		return &Schema{Pattern: natural}
	case b.Info()&types.IsInteger != 0:
		return &Schema{Pattern: integerPattern}
	case isNamed && len(constants(named)) > 0:
		return s.notNull(named, d)
	}
	return nil
}

// wellKnown are the types of the standard library that every codec knows, or that write something other than they look
// like.
func wellKnown(t *types.Named) (*Schema, bool) {
	if t.Obj().Pkg() == nil {
		return &Schema{}, true // error, comparable
	}
	switch t.Obj().Pkg().Path() + "." + t.Obj().Name() {
	case "time.Time":
		return &Schema{Type: "string", Format: "date-time"}, true
	case "time.Duration":
		return &Schema{Type: "integer", Description: "A duration in nanoseconds."}, true
	case "encoding/json.RawMessage":
		return &Schema{}, true
	case "encoding/json.Number":
		return &Schema{Type: "number"}, true
	case "math/big.Int":
		return &Schema{Type: "integer"}, true
	}
	return nil, false
}

// ownForm is the schema of a type that writes or reads itself. Text is known to be a string; of everything else only
// the type's methods know what it looks like.
func ownForm(t *types.Named, d dialect) (*Schema, bool) {
	if types.IsInterface(t) {
		return nil, false
	}
	own := []string{"MarshalJSON", "UnmarshalJSON"}
	if d == cborDialect {
		own = []string{"MarshalCBOR", "UnmarshalCBOR"}
	}
	switch {
	case hasMethod(t, append(own, "ProtoReflect")...):
		return &Schema{Description: "What it looks like is known to the methods of its Go type alone."}, true
	case d == cborDialect && hasMethod(t, "MarshalBinary", "UnmarshalBinary"):
		return bytesIn(d), true
	case hasMethod(t, "MarshalText", "UnmarshalText"):
		return &Schema{Type: "string"}, true
	}
	return nil, false
}

func hasMethod(t *types.Named, names ...string) bool {
	set := types.NewMethodSet(types.NewPointer(t))
	for i := range set.Len() {
		if slices.Contains(names, set.At(i).Obj().Name()) {
			return true
		}
	}
	return false
}

// isByte reports whether slices of the type are written as bytes and not as an array.
func isByte(t types.Type, d dialect) bool {
	b, ok := t.Underlying().(*types.Basic)
	if !ok || b.Kind() != types.Uint8 {
		return false
	}
	named, ok := types.Unalias(t).(*types.Named)
	if !ok {
		return true
	}
	_, own := ownForm(named, d)
	return !own
}

func isByteSlice(t types.Type) bool {
	slice, ok := t.Underlying().(*types.Slice)
	return ok && isByte(slice.Elem(), jsonDialect)
}

func bytesIn(d dialect) *Schema {
	if d == jsonDialect {
		return &Schema{Type: "string", ContentEncoding: "base64"}
	}
	return &Schema{Type: "string", ContentEncoding: "binary"}
}

// bounds of the integers that a JSON number holds exactly everywhere. Larger ones have no bounds but 0.
var bounds = map[types.BasicKind][2]int64{
	types.Int8: {-1 << 7, 1<<7 - 1}, types.Int16: {-1 << 15, 1<<15 - 1}, types.Int32: {-1 << 31, 1<<31 - 1},
	types.Uint8: {0, 1<<8 - 1}, types.Uint16: {0, 1<<16 - 1}, types.Uint32: {0, 1<<32 - 1},
}

func basic(b *types.Basic) *Schema {
	switch info := b.Info(); {
	case info&types.IsBoolean != 0:
		return &Schema{Type: "boolean"}
	case info&types.IsString != 0:
		return &Schema{Type: "string"}
	case info&types.IsFloat != 0:
		return &Schema{Type: "number"}
	case info&types.IsInteger != 0:
		s := &Schema{Type: "integer"}
		if within, ok := bounds[b.Kind()]; ok {
			s.Minimum, s.Maximum = &within[0], &within[1]
		} else if info&types.IsUnsigned != 0 {
			s.Minimum = new(int64)
		}
		return s
	}
	return &Schema{}
}

const integerPattern = "^-?[0-9]+$"
