package asyncapi

// Schema is a JSON Schema of draft 07, which AsyncAPI builds on, as far as Go types need it. The zero Schema accepts
// everything.
type Schema struct {
	// Ref excludes all others: draft 07 has whatever stands beside it ignored.
	Ref              string             `json:"$ref,omitempty"`
	Description      string             `json:"description,omitempty"`
	Deprecated       bool               `json:"deprecated,omitempty"`
	Type             any                `json:"type,omitempty"` // a name, or a list of names
	Format           string             `json:"format,omitempty"`
	Pattern          string             `json:"pattern,omitempty"`
	ContentEncoding  string             `json:"contentEncoding,omitempty"`
	Const            string             `json:"const,omitempty"`
	Enum             []any              `json:"enum,omitempty"`
	EnumNames        []string           `json:"x-enum-varnames,omitempty"`
	Minimum          *int64             `json:"minimum,omitempty"`
	Maximum          *int64             `json:"maximum,omitempty"`
	Items            any                `json:"items,omitempty"` // a *Schema, or a []*Schema with one for each element
	MinItems         *int64             `json:"minItems,omitempty"`
	MaxItems         *int64             `json:"maxItems,omitempty"`
	Properties       map[string]*Schema `json:"properties,omitempty"`
	Required         []string           `json:"required,omitempty"`
	PropertyNames    *Schema            `json:"propertyNames,omitempty"`
	AdditionalValues *Schema            `json:"additionalProperties,omitempty"`
	AllOf            []*Schema          `json:"allOf,omitempty"`
	AnyOf            []*Schema          `json:"anyOf,omitempty"`
	Extension        *goType            `json:"x-millrace,omitempty"`
}

// goType is the extension of a component.
type goType struct {
	GoType string `json:"goType"`
}

// orNull returns the schema that also accepts null.
func orNull(s *Schema) *Schema {
	if s.Ref != "" || len(s.Enum) > 0 {
		return &Schema{AnyOf: []*Schema{s, {Type: "null"}}}
	}
	if name, ok := s.Type.(string); ok {
		s.Type = []string{name, "null"}
	}
	return s
}

// described returns the schema with a comment on it.
func described(s *Schema, c comment) *Schema {
	if c == (comment{}) {
		return s
	}
	if s.Ref != "" {
		s = &Schema{AllOf: []*Schema{s}}
	}
	if c.text != "" && s.Description != "" {
		c.text += "\n\n"
	}
	s.Description = c.text + s.Description
	s.Deprecated = c.deprecated
	return s
}
