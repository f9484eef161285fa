package resolve

import (
	"fmt"
	"go/token"
	"go/types"
	"reflect"
	"strings"
)

// fieldProblems says what keeps codec=fields from filling the payload. The runtime applies the same rules to the type
// when the subscription is bound, in the same words; here they are known before anything runs.
func fieldProblems(payload types.Type) []string {
	root := types.Unalias(payload)
	if p, ok := root.Underlying().(*types.Pointer); ok {
		root = types.Unalias(p.Elem())
	}
	s, ok := root.Underlying().(*types.Struct)
	if !ok {
		return []string{fmt.Sprintf("codec=fields fills a struct or a pointer to one, and %s is neither", typeName(root))}
	}
	c := fieldCheck{root: typeName(root), owners: map[string]string{}}
	c.structure(s, "")
	if len(c.owners) == 0 && len(c.problems) == 0 && s.NumFields() > 0 {
		return []string{fmt.Sprintf("codec=fields has nothing to fill: %s has no exported field", c.root)}
	}
	return c.problems
}

// typeName writes a type as reflection does, which knows a package by its name.
func typeName(t types.Type) string { return types.TypeString(t, (*types.Package).Name) }

// fieldCheck walks a struct and what is embedded in it.
type fieldCheck struct {
	root     string
	owners   map[string]string // the Go field of every name
	problems []string
}

func (c *fieldCheck) refuse(path, format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf("codec=fields cannot fill %s of %s: %s", path, c.root, fmt.Sprintf(format, args...)))
}

func (c *fieldCheck) structure(s *types.Struct, prefix string) {
	for i := range s.NumFields() {
		c.field(s.Field(i), reflect.StructTag(s.Tag(i)), prefix+s.Field(i).Name())
	}
}

func (c *fieldCheck) field(f *types.Var, tags reflect.StructTag, path string) {
	tag, tagged := tags.Lookup("stream")
	if tag == "-" {
		return
	}
	name, option, _ := strings.Cut(tag, ",")
	if name == "" {
		name = f.Name()
	}
	t := types.Unalias(f.Type())
	p, pointer := t.Underlying().(*types.Pointer)
	if pointer {
		t = types.Unalias(p.Elem())
	}
	s, isStruct := t.Underlying().(*types.Struct)
	options, flat := flatOptions(t)
	switch {
	case f.Anonymous() && !flat && isStruct && tag == "":
		if pointer {
			c.refuse(path, "it is embedded by pointer; embed the struct itself")
			return
		}
		c.structure(s, path+".")
		return
	case !f.Exported():
		if tagged || f.Anonymous() {
			c.refuse(path, `it is not exported; export it, or leave it out with stream:"-"`)
		}
		return
	case !flat:
		c.refuse(path, `%s is no flat value; give the type a method UnmarshalText, or leave the field out with stream:"-"`, typeName(types.Unalias(f.Type())))
		return
	}
	if option != "" && !strings.Contains(options, "|"+option+"|") {
		c.refuse(path, "its tag has the option %q; a time.Time takes unix or unixms, a time.Duration s or ms, others none", option)
		return
	}
	if owner, taken := c.owners[name]; taken {
		c.refuse(path, "the name %q belongs to %s already; give one of them a name of its own in a stream tag", name, owner)
		return
	}
	c.owners[name] = path
}

// flatOptions reports whether a flat field can hold the type, and which options its tag may have. A type that does not
// compile is the compiler's business.
func flatOptions(t types.Type) (options string, ok bool) {
	const ofTime, ofDuration = "|unix|unixms|", "|s|ms|"
	switch {
	case isNamed(t, "time", "Time"):
		return ofTime, true
	case isNamed(t, "time", "Duration"):
		return ofDuration, true
	case hasUnmarshalText(t):
		return "", true
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		const cannot = types.IsComplex | types.IsUntyped
		return "", u.Kind() == types.Invalid || u.Info()&cannot == 0 && u.Kind() != types.Uintptr && u.Kind() != types.UnsafePointer
	case *types.Slice:
		elem, ok := u.Elem().Underlying().(*types.Basic)
		return "", ok && elem.Kind() == types.Uint8
	case *types.Struct:
		return ofTime, isTimeStruct(u)
	}
	return "", false
}

// isTimeStruct knows the struct of time.Time under another name.
func isTimeStruct(s *types.Struct) bool {
	if s.NumFields() == 0 {
		return false
	}
	pkg := s.Field(0).Pkg()
	if pkg == nil || pkg.Path() != "time" {
		return false
	}
	t := pkg.Scope().Lookup("Time")
	return t != nil && types.Identical(t.Type().Underlying(), s)
}

// hasUnmarshalText reports whether a pointer to t is an encoding.TextUnmarshaler.
func hasUnmarshalText(t types.Type) bool {
	if types.IsInterface(t) {
		return false // a pointer to an interface has no methods
	}
	return types.Implements(types.NewPointer(t), textUnmarshaler)
}

// textUnmarshaler is encoding.TextUnmarshaler, which the checked package need not import.
var textUnmarshaler = types.NewInterfaceType([]*types.Func{
	types.NewFunc(token.NoPos, nil, "UnmarshalText", types.NewSignatureType(nil, nil, nil,
		types.NewTuple(types.NewParam(token.NoPos, nil, "text", types.NewSlice(types.Typ[types.Byte]))),
		types.NewTuple(types.NewParam(token.NoPos, nil, "", types.Universe.Lookup("error").Type())), false)),
}, nil).Complete()
