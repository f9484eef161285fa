package analyzer

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/millrace-go/millrace/gen/directive"
	"github.com/millrace-go/millrace/gen/internal/genfile"
	"github.com/millrace-go/millrace/gen/internal/load"
)

// unit is one package as the driver shows it: alone, with its tests, or the tests alone where they are a package of
// their own.
type unit struct {
	pass *analysis.Pass
	pkg  *load.Package
	// generated is the syntax of the generated file, nil where the driver shows none.
	generated *ast.File
	// tests is true where any of the files is a test.
	tests bool
	// bodies are the function bodies, which streamgen does not look into.
	bodies []*ast.BlockStmt
}

func read(pass *analysis.Pass) (*unit, error) {
	src := &load.Source{Path: pass.Pkg.Path(), Name: pass.Pkg.Name(), Fset: pass.Fset, Types: pass.Pkg}
	u := &unit{pass: pass, pkg: &load.Package{Source: src}}
	for _, f := range pass.Files {
		// Where cgo or another tool has made the file from one that somebody wrote, this is the name of that.
		path := pass.Fset.Position(f.Package).Filename
		if !f.Package.IsValid() {
			path = pass.Fset.File(f.FileStart).Name() // cut off before the package clause
		}
		if u.pkg.Dir == "" && filepath.Ext(path) == ".go" {
			u.pkg.Dir = filepath.Dir(path)
		}
		switch {
		case strings.HasSuffix(path, "_test.go"):
			u.tests = true
			src.Outside = append(src.Outside, load.Outside{Path: path, File: f, Comments: comments(f)})
		case genfile.Is(path):
			if err := u.readGenerated(path, f); err != nil {
				return nil, err
			}
		default:
			src.Files = append(src.Files, u.withoutBodies(f))
		}
	}
	for _, path := range pass.IgnoredFiles {
		if filepath.Ext(path) != ".go" {
			continue
		}
		content, err := pass.ReadFile(path)
		if err != nil {
			return nil, err
		}
		src.Outside = append(src.Outside, load.ReadOutside(pass.Fset, path, content))
	}
	src.SortFiles()
	u.readErrors()
	return u, nil
}

func (u *unit) readGenerated(path string, f *ast.File) error {
	content, err := u.pass.ReadFile(u.pass.Fset.File(f.FileStart).Name())
	if err != nil {
		return err
	}
	g := &load.Generated{Path: path, Content: content, Ours: genfile.Ours(content)}
	u.pkg.Generated, u.generated = g, f
	src := u.pkg.Source
	if g.Ours {
		src.Outside = append(src.Outside, load.ReadGenerated(u.pass.Fset, g))
	} else {
		src.Files = append(src.Files, u.withoutBodies(f))
	}
	return nil
}

// withoutBodies returns the file as streamgen sees it. The driver's own is not ours to change.
func (u *unit) withoutBodies(f *ast.File) *ast.File {
	c := *f
	c.Decls = slices.Clone(f.Decls)
	for i, decl := range c.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
			u.bodies = append(u.bodies, fn.Body)
			bare := *fn
			bare.Body = nil
			c.Decls[i] = &bare
		}
	}
	return &c
}

func comments(f *ast.File) []*ast.Comment {
	var all []*ast.Comment
	for _, group := range f.Comments {
		all = append(all, group.List...)
	}
	return all
}

// readErrors finds what keeps the package from being understood. A driver hands on what the type check found; that a
// file did not parse it does not say.
func (u *unit) readErrors() {
	src := u.pkg.Source
	for _, e := range u.pass.TypeErrors {
		if !load.IsProblem(e) || slices.ContainsFunc(u.bodies, func(b *ast.BlockStmt) bool { return b.Pos() <= e.Pos && e.Pos < b.End() }) {
			continue
		}
		position := u.pass.Fset.Position(e.Pos)
		if g := u.pkg.Generated; g != nil && g.Ours && position.Filename == g.Path {
			continue
		}
		src.TypeErrors = append(src.TypeErrors, load.Problem{Pos: e.Pos, Position: position, Message: e.Msg})
	}
	if !slices.ContainsFunc(src.Files, hasDirective) {
		return
	}
	for _, f := range src.Files {
		content, err := u.pass.ReadFile(u.pass.Fset.File(f.FileStart).Name())
		if err != nil {
			continue // the driver has read it, so what it holds is in the syntax
		}
		var list scanner.ErrorList
		path := u.pass.Fset.File(f.FileStart).Name()
		if _, err := parser.ParseFile(token.NewFileSet(), path, content, parser.SkipObjectResolution); errors.As(err, &list) {
			for _, e := range list {
				src.SyntaxErrors = append(src.SyntaxErrors, load.Problem{Position: e.Pos, Message: e.Msg})
			}
		}
	}
}

func hasDirective(f *ast.File) bool {
	return slices.ContainsFunc(comments(f), func(c *ast.Comment) bool { return directive.Mentions([]byte(c.Text)) })
}

// pos finds where a position lies in the driver's files. A line directive may have given it the name of another file and
// taken its column, so that neither leads there.
func (u *unit) pos(p token.Position) token.Pos {
	found := token.NoPos
	if !p.IsValid() {
		return found
	}
	u.pass.Fset.Iterate(func(f *token.File) bool {
		if p.Offset <= f.Size() {
			at := f.Pos(p.Offset)
			have := f.Position(at)
			have.Column = max(have.Column, 1)
			if have == p {
				found = at
			}
		}
		return !found.IsValid()
	})
	return found
}
