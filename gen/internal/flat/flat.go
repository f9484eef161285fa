// Package flat has the rules by which codec=fields reads the fields of a stream entry, which are flat texts, into a struct.
package flat

import (
	"fmt"
	"go/types"
	"reflect"
	"strings"
)

// Field is a field of a struct, or of one that is embedded in it, that the codec fills.
type Field struct {
	*types.Var
	// Name is that of the field in the entry.
	Name string
	// Kind says how its text is read, and Option is what the tag has to say on that.
	Kind   Kind
	Option string
	// Elem is the field's type without the pointer that makes it optional.
	Elem     types.Type
	Optional bool
}

// Fields returns what the codec fills of the payload, and why it cannot fill the rest. The runtime applies the same rules
// to the type when the subscription is bound, in the same words; here they are known before anything runs.
func Fields(payload types.Type) (fields []Field, problems []string) {
	root := types.Unalias(payload)
	if p, ok := root.Underlying().(*types.Pointer); ok {
		root = types.Unalias(p.Elem())
	}
	s, ok := root.Underlying().(*types.Struct)
	if !ok {
		return nil, []string{fmt.Sprintf("codec=fields fills a struct or a pointer to one, and %s is neither", typeName(root))}
	}
	w := walk{root: typeName(root), owners: map[string]string{}}
	w.structure(s, "")
	if len(w.fields) == 0 && len(w.problems) == 0 && s.NumFields() > 0 {
		return nil, []string{fmt.Sprintf("codec=fields has nothing to fill: %s has no exported field", w.root)}
	}
	return w.fields, w.problems
}

// typeName writes a type as reflection does, which knows a package by its name.
func typeName(t types.Type) string { return types.TypeString(t, (*types.Package).Name) }

// walk goes through a struct and what is embedded in it.
type walk struct {
	root     string
	owners   map[string]string // the Go field of every name
	fields   []Field
	problems []string
}

func (w *walk) refuse(path, format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf("codec=fields cannot fill %s of %s: %s", path, w.root, fmt.Sprintf(format, args...)))
}

func (w *walk) structure(s *types.Struct, prefix string) {
	for i := range s.NumFields() {
		w.field(s.Field(i), reflect.StructTag(s.Tag(i)), prefix+s.Field(i).Name())
	}
}

func (w *walk) field(f *types.Var, tags reflect.StructTag, path string) {
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
	kind := kindOf(t)
	switch {
	case f.Anonymous() && kind == None && isStruct && tag == "":
		if pointer {
			w.refuse(path, "it is embedded by pointer; embed the struct itself")
			return
		}
		w.structure(s, path+".")
		return
	case !f.Exported():
		if tagged || f.Anonymous() {
			w.refuse(path, `it is not exported; export it, or leave it out with stream:"-"`)
		}
		return
	case kind == None:
		w.refuse(path, `%s is no flat value; give the type a method UnmarshalText, or leave the field out with stream:"-"`, typeName(types.Unalias(f.Type())))
		return
	}
	if option != "" && !kind.takes(option) {
		w.refuse(path, "its tag has the option %q; a time.Time takes unix or unixms, a time.Duration s or ms, others none", option)
		return
	}
	if owner, taken := w.owners[name]; taken {
		w.refuse(path, "the name %q belongs to %s already; give one of them a name of its own in a stream tag", name, owner)
		return
	}
	w.owners[name] = path
	w.fields = append(w.fields, Field{f, name, kind, option, t, pointer})
}
