// Package resolve turns the directives of a type-checked package into the model that files are generated from, and
// reports everything that stands against it.
package resolve

import (
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-go/millrace/gen/diag"
	"github.com/millrace-go/millrace/gen/internal/genfile"
	"github.com/millrace-go/millrace/gen/internal/load"
)

// Resolve returns the model of p, or nil where p has no directive. The model is only good for generating where nothing
// was added to findings.
func Resolve(p *load.Package, findings *diag.List) *Package {
	if p.Source == nil {
		return nil
	}
	if len(p.Source.SyntaxErrors) > 0 {
		for _, e := range p.Source.SyntaxErrors {
			findings.Add(e.Position, "%s", e.Message)
		}
		return nil // half a file says little that is true
	}
	r := &resolver{src: p.Source, findings: findings, declared: declarations(p.Source), generated: map[string]handler{}}
	handlers := r.collect()
	if len(handlers) == 0 {
		return nil
	}
	if g := p.Generated; g != nil && !g.Ours {
		findings.Add(token.Position{Filename: g.Path}, "%s was not written by streamgen, which does not overwrite it: rename or remove the file", genfile.Name)
	}
	r.checkClauses()
	model := &Package{Dir: p.Dir, Name: p.Source.Name}
	for _, h := range handlers {
		if s, ok := r.subscription(h); ok {
			model.Subscriptions = append(model.Subscriptions, s)
		}
	}
	slices.SortFunc(model.Subscriptions, func(a, b Subscription) int { return strings.Compare(a.Var, b.Var) })
	model.Alias = r.alias(model.Subscriptions)
	return model
}

type resolver struct {
	src      *load.Source
	findings *diag.List
	declared scope

	// generated has the handler behind every variable so far.
	generated map[string]handler
	// typeErrorsShown keeps the list that explains one bad signature from being repeated for the next.
	typeErrorsShown bool
}

func (r *resolver) position(pos token.Pos) token.Position { return r.src.Fset.Position(pos) }

func (r *resolver) errorf(pos token.Pos, format string, args ...any) {
	r.findings.Add(r.position(pos), format, args...)
}

// checkClauses is for the folder that holds two packages, of which the go command says neither where nor which is right.
func (r *resolver) checkClauses() {
	for _, f := range r.src.Files {
		if name := f.Name.Name; name != r.src.Name {
			r.errorf(f.Name.Pos(), "package %s in the folder of package %s: give the files of a folder one package clause", name, r.src.Name)
		}
	}
}

// subscription builds the model of one handler and reports whether it is complete.
func (r *resolver) subscription(h handler) (Subscription, bool) {
	sig, ok := r.signature(h)
	if !ok {
		return Subscription{}, false
	}
	s := Subscription{
		Type:         sig.receiver,
		Func:         h.decl.Name.Name,
		Shape:        sig.shape,
		ReturnsError: sig.returnsError,
		Spec:         h.directive.Subscriber,
	}
	if s.Spec.Codec == "raw" && !isBytes(sig.payload) {
		r.errorf(h.directive.KeyPos("codec"), "codec=raw hands over the bytes as they are, but the payload of %s is %s: take []byte, or leave codec=raw out",
			h.name(), types.TypeString(sig.payload, types.RelativeTo(r.src.Types)))
		return s, false
	}
	if s.Spec.Codec == "fields" {
		if problems := fieldProblems(sig.payload); len(problems) > 0 {
			for _, problem := range problems {
				r.errorf(h.directive.KeyPos("codec"), "%s", problem)
			}
			return s, false
		}
	}
	if s.Spec.Name == "" {
		s.Spec.Name = r.src.Name + "." + strings.TrimPrefix(s.Type+"."+s.Func, ".")
	}
	s.Var = varName(s.Type, s.Func)
	return s, r.claim(s.Var, h)
}

// claim reserves the variable's name for the handler.
func (r *resolver) claim(name string, h handler) bool {
	if pos, ok := r.declared.lookup(name); ok {
		at := r.position(pos)
		r.errorf(h.decl.Name.Pos(), "%s would generate %s, which %s:%d declares: rename one of them", h.name(), name, filepath.Base(at.Filename), at.Line)
		return false
	}
	if other, ok := r.generated[name]; ok {
		at := r.position(other.decl.Pos())
		r.errorf(h.decl.Name.Pos(), "%s would generate %s, and so would %s (%s:%d): rename one of them", h.name(), name, other.name(), filepath.Base(at.Filename), at.Line)
		return false
	}
	r.generated[name] = h
	return true
}

func isBytes(t types.Type) bool {
	return types.Identical(t.Underlying(), types.NewSlice(types.Typ[types.Byte]))
}

// alias picks the name of the runtime's import. It is declared in the generated file alone, yet Go refuses it where any
// file of the package, tests included, declares the name at package level.
func (r *resolver) alias(subs []Subscription) string {
	taken := func(name string) bool {
		_, declared := r.declared.lookup(name)
		return declared || slices.ContainsFunc(subs, func(s Subscription) bool { return s.Var == name })
	}
	name := "streamrt"
	for n := 2; taken(name); n++ {
		name = "streamrt" + strconv.Itoa(n)
	}
	return name
}
