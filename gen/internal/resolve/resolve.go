// Package resolve turns the directives of a type-checked package into the model that files are generated from, and
// reports everything that stands against it.
package resolve

import (
	"fmt"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-go/millrace/gen/diag"
	"github.com/millrace-go/millrace/gen/directive"
	"github.com/millrace-go/millrace/gen/internal/genfile"
	"github.com/millrace-go/millrace/gen/internal/load"
	"github.com/millrace-go/millrace/gen/model"
)

// Resolve returns the model of p, or nil where p has no directive. The model is only good for generating where nothing
// was added to findings.
func Resolve(p *load.Package, findings *diag.List) *model.Package {
	src := p.Source
	if src == nil {
		return nil
	}
	r := &resolver{src: src, findings: findings, declared: declarations(src), generated: map[string]handler{}}
	if len(src.SyntaxErrors) > 0 {
		r.reportSyntax()
		return nil
	}
	handlers := r.collect()
	if len(handlers) == 0 {
		return nil
	}
	if g := p.Generated; g != nil && !g.Ours {
		findings.Add(diag.Diagnostic{
			Code: diag.ForeignFile, Pos: token.Position{Filename: g.Path},
			Message: genfile.Name + " was not written by streamgen, which does not overwrite it: rename or remove the file",
		})
	}
	r.checkClauses()
	r.checkTogether(handlers)
	pkg := &model.Package{Dir: p.Dir, Path: src.Path, Name: src.Name, Fset: src.Fset, Files: src.Files, Types: src.Types}
	for _, h := range handlers {
		if s, ok := r.subscription(h); ok {
			pkg.Subscriptions = append(pkg.Subscriptions, s)
		}
	}
	slices.SortFunc(pkg.Subscriptions, func(a, b model.Subscription) int { return strings.Compare(a.Var, b.Var) })
	pkg.Alias = r.alias(pkg.Subscriptions)
	return pkg
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

// place is somewhere in the source: from a position up to another, which may be NoPos.
type place struct{ from, to token.Pos }

func (r *resolver) report(code diag.Code, at place, format string, args ...any) {
	r.add(code, at, nil, format, args...)
}

func (r *resolver) add(code diag.Code, at place, related []diag.Related, format string, args ...any) {
	d := diag.Diagnostic{Code: code, Pos: r.position(at.from), Message: fmt.Sprintf(format, args...), Related: related}
	if at.to.IsValid() {
		d.End = r.position(at.to)
	}
	r.findings.Add(d)
}

// reportSyntax reports what does not parse and, in the other files, what is wrong with the text of directives. Half a
// file says little that is true, and half a package nothing about its functions.
func (r *resolver) reportSyntax() {
	broken := map[string]bool{}
	for _, e := range r.src.SyntaxErrors {
		broken[e.Position.Filename] = true
		r.findings.Add(diag.Diagnostic{Code: diag.SyntaxError, Pos: e.Position, Message: e.Message})
	}
	for _, f := range r.src.Files {
		if broken[r.position(f.Package).Filename] {
			continue
		}
		for _, group := range f.Comments {
			for _, c := range group.List {
				_, errs, _ := directive.Parse(c.Slash, c.Text)
				r.reportDirective(errs)
			}
		}
	}
}

// reportDirective hands on what is wrong with the text of a directive.
func (r *resolver) reportDirective(errs []directive.Problem) {
	for _, e := range errs {
		d := diag.Diagnostic{Code: e.Code, Pos: r.position(e.Pos), End: r.position(e.End), Message: e.Message, Suggest: e.Suggest}
		if e.Edit != nil {
			d.Fixes = r.fixes(*e.Edit)
		}
		r.findings.Add(d)
	}
}

func (r *resolver) fixes(e directive.Edit) []diag.Fix {
	// Where line directives say that a file was made from another, as cgo's are, offsets are those of a file that nobody
	// sees.
	if file := r.src.Fset.File(e.Pos); file == nil || file.Name() != r.position(e.Pos).Filename {
		return nil
	}
	message := "write " + e.New
	switch {
	case e.New == "":
		message = "remove it"
	case e.Pos == e.End:
		message = "add " + strings.TrimSpace(e.New)
	}
	return []diag.Fix{{Message: message, Edits: []diag.Edit{{Pos: r.position(e.Pos), End: r.position(e.End), New: e.New}}}}
}

// checkClauses is for the folder that holds two packages, of which the go command says neither where nor which is right.
func (r *resolver) checkClauses() {
	for _, f := range r.src.Files {
		if name := f.Name; name.Name != r.src.Name {
			r.report(diag.PackageClash, place{name.Pos(), name.End()}, "package %s in the folder of package %s: give the files of a folder one package clause", name.Name, r.src.Name)
		}
	}
}

// subscription builds the model of one handler and reports whether it is complete.
func (r *resolver) subscription(h handler) (model.Subscription, bool) {
	sig, ok := r.signature(h)
	if !ok {
		return model.Subscription{}, false
	}
	s := model.Subscription{
		Type:         sig.receiver,
		Func:         h.decl.Name.Name,
		Shape:        sig.shape,
		ReturnsError: sig.returnsError,
		Payload:      sig.payload,
		Doc:          h.decl.Doc.Text(),
		Pos:          r.position(h.decl.Name.Pos()),
		Directive:    r.position(h.directive.Pos),
		Spec:         h.directive.Subscriber,
	}
	if s.Spec.Name == "" {
		s.Spec.Name = r.src.Name + "." + strings.TrimPrefix(s.Type+"."+s.Func, ".")
	}
	s.Var = varName(s.Type, s.Func)
	fits, free := r.checkPayload(h, sig), r.claim(s.Var, h)
	return s, fits && free
}

// claim reserves the variable's name for the handler.
func (r *resolver) claim(name string, h handler) bool {
	if pos, ok := r.declared.lookup(name); ok {
		r.add(diag.NameTaken, h.place(), []diag.Related{{Pos: r.position(pos), Message: name}},
			"%s would generate %s, which is declared already: rename one of them", h.name(), name)
		return false
	}
	if other, ok := r.generated[name]; ok {
		r.add(diag.NameTwice, h.place(), []diag.Related{{Pos: r.position(other.decl.Name.Pos()), Message: other.name()}},
			"%s would generate %s, and so would %s: rename one of them", h.name(), name, other.name())
		return false
	}
	r.generated[name] = h
	return true
}

// alias picks the name of the runtime's import. It is declared in the generated file alone, yet Go refuses it where any
// file of the package, tests included, declares the name at package level.
func (r *resolver) alias(subs []model.Subscription) string {
	taken := func(name string) bool {
		_, declared := r.declared.lookup(name)
		return declared || slices.ContainsFunc(subs, func(s model.Subscription) bool { return s.Var == name })
	}
	name := "streamrt"
	for n := 2; taken(name); n++ {
		name = "streamrt" + strconv.Itoa(n)
	}
	return name
}
