package asyncapi

import (
	"encoding/json"
	"go/types"
	"reflect"
	"slices"
	"strings"
)

// flat is the schema of the struct that codec=fields fills: names and texts, as XADD takes them. The struct is known to
// be one that the codec accepts.
func (s *schemas) flat(t types.Type) *Schema {
	t = types.Unalias(t)
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	named, ok := t.(*types.Named)
	if !ok {
		return s.flatStruct(t.Underlying().(*types.Struct), "the payload")
	}
	return s.component(named, fieldsDialect, func(fill *Schema) {
		extension := fill.Extension
		*fill = *s.flatStruct(named.Underlying().(*types.Struct), types.TypeString(named, (*types.Package).Name))
		fill.Extension = extension
	})
}

func (s *schemas) flatStruct(u *types.Struct, owner string) *Schema {
	schema := &Schema{Type: "object", Properties: map[string]*Schema{}}
	s.addFlat(schema, u, owner)
	slices.Sort(schema.Required)
	return schema
}

// addFlat adds the fields of a struct. Those that the codec insists on are required: an entry without them is malformed.
func (s *schemas) addFlat(schema *Schema, u *types.Struct, owner string) {
	before := s.at
	defer func() { s.at = before }()
	for i := range u.NumFields() {
		f := u.Field(i)
		s.at = place{f, owner}
		name, option, _ := strings.Cut(reflect.StructTag(u.Tag(i)).Get("stream"), ",")
		t := types.Unalias(f.Type())
		pointer := isPointer(t)
		if p, ok := t.Underlying().(*types.Pointer); ok {
			t = types.Unalias(p.Elem())
		}
		value, ok := s.text(t, option)
		embedded, isStruct := t.Underlying().(*types.Struct)
		switch {
		case name == "-":
		case !ok && isStruct && f.Anonymous():
			s.addFlat(schema, embedded, owner)
		case ok && f.Exported():
			if name == "" {
				name = f.Name()
			}
			schema.Properties[name] = described(value, s.comments.of(f))
			if !pointer {
				schema.Required = append(schema.Required, name)
			}
		}
	}
}

const (
	wholePattern = `^[-+]?[0-9]+$`
	natural      = `^[0-9]+$`
	floatPattern = `^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$`
)

// text is the schema of a value in a flat field, which is always text. It is false for what is no such value.
func (s *schemas) text(t types.Type, option string) (*Schema, bool) {
	named, _ := t.(*types.Named)
	isTime := named != nil && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "time"
	switch {
	case isTime && named.Obj().Name() == "Time", named != nil && isTimeStruct(named):
		switch option {
		case "unix":
			return &Schema{Type: "string", Pattern: wholePattern, Description: "Seconds since 1970."}, true
		case "unixms":
			return &Schema{Type: "string", Pattern: wholePattern, Description: "Milliseconds since 1970."}, true
		}
		return &Schema{Type: "string", Format: "date-time"}, true
	case isTime && named.Obj().Name() == "Duration":
		switch option {
		case "s":
			return &Schema{Type: "string", Pattern: wholePattern, Description: "A duration in seconds."}, true
		case "ms":
			return &Schema{Type: "string", Pattern: wholePattern, Description: "A duration in milliseconds."}, true
		}
		return &Schema{Type: "string", Description: "A duration such as 1m30s."}, true
	case named != nil && !types.IsInterface(named) && hasMethod(named, "UnmarshalText"):
		return &Schema{Type: "string"}, true
	}
	switch u := t.Underlying().(type) {
	case *types.Slice:
		elem, ok := u.Elem().Underlying().(*types.Basic)
		return bytesIn(fieldsDialect), ok && elem.Kind() == types.Uint8
	case *types.Basic:
		if u.Kind() == types.Invalid {
			s.broken = append(s.broken, s.at)
		}
		schema := flatBasic(u)
		if named != nil {
			addEnum(schema, named)
			for i, v := range schema.Enum {
				if n, ok := v.(json.Number); ok {
					schema.Enum[i] = n.String()
				}
			}
			if len(schema.Enum) > 0 {
				schema.Pattern = ""
			}
		}
		return schema, true
	}
	return nil, false
}

func flatBasic(b *types.Basic) *Schema {
	schema := &Schema{Type: "string"}
	switch info := b.Info(); {
	case info&types.IsBoolean != 0:
		schema.Enum = []any{"true", "false", "1", "0"}
	case info&types.IsUnsigned != 0:
		schema.Pattern = natural
	case info&types.IsInteger != 0:
		schema.Pattern = wholePattern
	case info&types.IsFloat != 0:
		schema.Pattern = floatPattern
	}
	return schema
}

// isTimeStruct knows a type that was made of time.Time.
func isTimeStruct(t *types.Named) bool {
	u, ok := t.Underlying().(*types.Struct)
	if !ok || u.NumFields() == 0 || u.Field(0).Pkg() == nil {
		return false
	}
	time := u.Field(0).Pkg().Scope().Lookup("Time")
	return time != nil && u.Field(0).Pkg().Path() == "time" && types.Identical(time.Type().Underlying(), u)
}
