package asyncapi

import (
	"encoding/json"
	"go/types"
	"slices"

	"github.com/millrace-go/millrace/gen/internal/flat"
)

// flat is the schema of the struct that codec=fields fills: names and texts, as XADD takes them. The struct is known to
// be one that the codec accepts.
func (s *schemas) flat(t types.Type) *Schema {
	t, _ = pointee(t)
	named, ok := t.(*types.Named)
	if !ok {
		return s.flatStruct(t, "the payload")
	}
	return s.component(named, fieldsDialect, func(fill *Schema) {
		extension := fill.Extension
		*fill = *s.flatStruct(t, types.TypeString(named, (*types.Package).Name))
		fill.Extension = extension
	})
}

// flatStruct has the fields of a struct. Those that the codec insists on are required: an entry without them is malformed.
func (s *schemas) flatStruct(t types.Type, owner string) *Schema {
	before := s.at
	defer func() { s.at = before }()
	schema := &Schema{Type: "object", Properties: map[string]*Schema{}}
	fields, _ := flat.Fields(t)
	for _, f := range fields {
		s.at = place{f.Var, owner}
		schema.Properties[f.Name] = described(s.text(f), s.comments.of(f.Var))
		if !f.Optional {
			schema.Required = append(schema.Required, f.Name)
		}
	}
	slices.Sort(schema.Required)
	return schema
}

const (
	wholePattern = `^[-+]?[0-9]+$`
	natural      = `^[0-9]+$`
	floatPattern = `^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$`
)

// text is the schema of a value in a flat field, which is always text.
func (s *schemas) text(f flat.Field) *Schema {
	switch f.Kind {
	case flat.Time:
		switch f.Option {
		case "unix":
			return &Schema{Type: "string", Pattern: wholePattern, Description: "Seconds since 1970."}
		case "unixms":
			return &Schema{Type: "string", Pattern: wholePattern, Description: "Milliseconds since 1970."}
		}
		return &Schema{Type: "string", Format: "date-time"}
	case flat.Duration:
		switch f.Option {
		case "s":
			return &Schema{Type: "string", Pattern: wholePattern, Description: "A duration in seconds."}
		case "ms":
			return &Schema{Type: "string", Pattern: wholePattern, Description: "A duration in milliseconds."}
		}
		return &Schema{Type: "string", Description: "A duration such as 1m30s."}
	case flat.Bytes:
		return bytesIn(fieldsDialect)
	case flat.Basic:
		return s.flatBasic(f.Elem)
	}
	return &Schema{Type: "string"}
}

func (s *schemas) flatBasic(t types.Type) *Schema {
	b := t.Underlying().(*types.Basic)
	schema := &Schema{Type: "string"}
	switch info := b.Info(); {
	case b.Kind() == types.Invalid:
		s.broken = append(s.broken, s.at)
	case info&types.IsBoolean != 0:
		schema.Enum = []any{"true", "false", "1", "0"}
	case info&types.IsUnsigned != 0:
		schema.Pattern = natural
	case info&types.IsInteger != 0:
		schema.Pattern = wholePattern
	case info&types.IsFloat != 0:
		schema.Pattern = floatPattern
	}
	named, ok := t.(*types.Named)
	if !ok {
		return schema
	}
	addEnum(schema, named)
	for i, v := range schema.Enum {
		schema.Pattern = ""
		if n, ok := v.(json.Number); ok {
			schema.Enum[i] = n.String()
		}
	}
	return schema
}
