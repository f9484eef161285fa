package streamrt

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// planFields reports everything that keeps t from being filled. streamgen applies the same rules to the source.
func planFields(t reflect.Type) (*fieldsPlan, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("codec=fields fills a struct or a pointer to one, and %s is neither", t)
	}
	p := planner{root: t, owners: map[string]string{}}
	p.structure(t, nil, "")
	if len(p.steps) == 0 && len(p.errs) == 0 && t.NumField() > 0 {
		return nil, fmt.Errorf("codec=fields has nothing to fill: %s has no exported field", t)
	}
	plan := &fieldsPlan{steps: p.steps, names: map[string]bool{}}
	for _, step := range p.steps {
		plan.names[step.name] = true
	}
	return plan, errors.Join(p.errs...)
}

// planner walks a struct and what is embedded in it.
type planner struct {
	root  reflect.Type
	steps []fieldStep
	// owners has the Go field of every name.
	owners map[string]string
	errs   []error
}

func (p *planner) refuse(path, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("codec=fields cannot fill %s of %s: %s", path, p.root, fmt.Sprintf(format, args...)))
}

func (p *planner) structure(t reflect.Type, index []int, prefix string) {
	for i := range t.NumField() {
		f := t.Field(i)
		p.field(f, append(index[:len(index):len(index)], i), prefix+f.Name)
	}
}

func (p *planner) field(f reflect.StructField, index []int, path string) {
	tag, tagged := f.Tag.Lookup("stream")
	if tag == "-" {
		return
	}
	name, option, _ := strings.Cut(tag, ",")
	step := fieldStep{name: name, index: index}
	if name == "" {
		step.name, step.anyCase = f.Name, true
	}
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
		step.optional = t
	}
	kind := kindOf(t)
	switch {
	case f.Anonymous && kind == noValue && t.Kind() == reflect.Struct && tag == "":
		if step.optional != nil {
			p.refuse(path, "it is embedded by pointer; embed the struct itself")
			return
		}
		p.structure(t, index, path+".")
		return
	case !f.IsExported():
		if tagged || f.Anonymous {
			p.refuse(path, `it is not exported; export it, or leave it out with stream:"-"`)
		}
		return
	case kind == noValue:
		p.refuse(path, `%s is no flat value; give the type a method UnmarshalText, or leave the field out with stream:"-"`, f.Type)
		return
	}
	if step.parse = parserFor(kind, option); step.parse == nil {
		p.refuse(path, "its tag has the option %q; a time.Time takes unix or unixms, a time.Duration s or ms, others none", option)
		return
	}
	if owner, taken := p.owners[step.name]; taken {
		p.refuse(path, "the name %q belongs to %s already; give one of them a name of its own in a stream tag", step.name, owner)
		return
	}
	p.owners[step.name] = path
	p.steps = append(p.steps, step)
}
