package resolve

import (
	"go/ast"
	"go/token"
	"strings"

	"github.com/millrace-go/millrace/gen/diag"
	"github.com/millrace-go/millrace/gen/directive"
	"github.com/millrace-go/millrace/gen/internal/genfile"
)

// handler is a function with its directive.
type handler struct {
	decl      *ast.FuncDecl
	directive directive.Directive
}

// name is the handler as a message and the doc comment call it: Func, or Type.Method.
func (h handler) name() string {
	if t := receiverName(h.decl); t != "" {
		return t + "." + h.decl.Name.Name
	}
	return h.decl.Name.Name
}

// place is the handler's name, which findings about the function as a whole point at.
func (h handler) place() place { return place{h.decl.Name.Pos(), h.decl.Name.End()} }

// token is the token of the directive that gives key.
func (h handler) token(key string) place {
	return place{h.directive.KeyPos(key), h.directive.KeyEnd(key)}
}

// receiverName returns the receiver's type name as it is written, "" for a function.
func receiverName(decl *ast.FuncDecl) string {
	if decl.Recv == nil || len(decl.Recv.List) == 0 {
		return ""
	}
	t := ast.Unparen(decl.Recv.List[0].Type)
	if star, ok := t.(*ast.StarExpr); ok {
		t = ast.Unparen(star.X)
	}
	switch x := t.(type) {
	case *ast.IndexExpr:
		t = x.X
	case *ast.IndexListExpr:
		t = x.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// collect finds every directive of the package and the function that it belongs to.
func (r *resolver) collect() []handler {
	var handlers []handler
	for _, f := range r.src.Files {
		handlers = append(handlers, r.collectFile(f)...)
	}
	for _, o := range r.src.Outside {
		code, why := diag.OutsideBuild, "build constraints keep this file out of the package, so its handler could not be mounted everywhere; move the handler"
		switch {
		case strings.HasSuffix(o.Path, "_test.go"):
			code, why = diag.InTest, "a test file is not part of the package that others import; move the handler"
		case genfile.Is(o.Path):
			code, why = diag.InGenerated, "the next run writes this file anew; move the handler"
		}
		for _, c := range o.Comments {
			if _, errs, ours := directive.Parse(c.Slash, c.Text); ours {
				r.reportDirective(errs)
				r.report(code, place{c.Pos(), c.End()}, "no subscription is generated here: %s", why)
			}
		}
	}
	return handlers
}

func (r *resolver) collectFile(f *ast.File) []handler {
	var handlers []handler
	owners := owners(f)
	for _, group := range f.Comments {
		owner := owners[group]
		first := token.NoPos
		for _, c := range group.List {
			d, errs, ours := directive.Parse(c.Slash, c.Text)
			if !ours {
				continue
			}
			r.reportDirective(errs)
			switch at := (place{c.Pos(), c.End()}); {
			case owner.decl == nil:
				r.report(diag.NotOnFunction, at, "%s: it belongs in the doc comment of a function, directly above its func", owner.complaint())
			case first.IsValid():
				r.add(diag.SecondDirective, at, []diag.Related{{Pos: r.position(first), Message: "the first"}},
					"a second directive on %s: a function has one; write another function that calls this one", owner.decl.Name.Name)
			case len(errs) == 0:
				handlers = append(handlers, handler{owner.decl, d})
			}
			if !first.IsValid() {
				first = c.Slash
			}
		}
	}
	return handlers
}

// owner is what a comment group documents: a function, something else, or nothing.
type owner struct {
	decl *ast.FuncDecl
	kind string
}

func (o owner) complaint() string {
	if o.kind == "" {
		return "the directive stands apart from any declaration"
	}
	return "the directive is on " + o.kind
}

var genDeclKinds = map[token.Token]string{
	token.IMPORT: "an import",
	token.CONST:  "a constant",
	token.TYPE:   "a type",
	token.VAR:    "a variable",
}

// owners maps the doc comments of a file to what they document.
func owners(f *ast.File) map[*ast.CommentGroup]owner {
	m := map[*ast.CommentGroup]owner{}
	if f.Doc != nil {
		m[f.Doc] = owner{kind: "the package clause"}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		add := func(o owner, docs ...*ast.CommentGroup) {
			for _, doc := range docs {
				if doc != nil {
					m[doc] = o
				}
			}
		}
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(owner{decl: n}, n.Doc)
		case *ast.GenDecl:
			add(owner{kind: genDeclKinds[n.Tok]}, n.Doc)
		case *ast.TypeSpec:
			add(owner{kind: "a type"}, n.Doc, n.Comment)
		case *ast.ValueSpec:
			add(owner{kind: "a variable or constant"}, n.Doc, n.Comment)
		case *ast.ImportSpec:
			add(owner{kind: "an import"}, n.Doc, n.Comment)
		case *ast.Field:
			add(owner{kind: "a field or an interface method"}, n.Doc, n.Comment)
		}
		return true
	})
	return m
}
