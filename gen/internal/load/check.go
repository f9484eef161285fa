package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Tests stays off: with test variants the go command compiles what the tests need, which takes many times as long as
// everything else here together.
const checkMode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
	packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedModule

// check type-checks the scanned packages from source and fills in their Source.
func check(ctx context.Context, dir string, scans map[string]*scan) error {
	roots := map[string]bool{}
	overlay := map[string][]byte{}
	for _, s := range scans {
		roots[s.pkg.Dir] = true
		if g := s.generated; g != nil && g.Ours {
			overlay[g.Path] = []byte("package " + s.name() + "\n")
		}
	}
	cfg := &packages.Config{
		Context: ctx,
		Dir:     dir,
		Mode:    checkMode,
		Fset:    token.NewFileSet(),
		Overlay: overlay,
		ParseFile: func(fset *token.FileSet, path string, src []byte) (*ast.File, error) {
			// What the cgo tool makes of a file lies in the build cache, under a name without a suffix. It keeps the comments,
			// and line directives lead back to where they were written.
			return parse(fset, path, src, roots[filepath.Dir(path)] || filepath.Ext(path) == "")
		},
	}
	loaded, err := packages.Load(cfg, slices.Sorted(maps.Keys(scans))...)
	if err != nil {
		return cmp.Or(ctx.Err(), goCommandError(err))
	}
	for _, p := range loaded {
		s := scans[p.PkgPath]
		switch {
		case s == nil && len(p.Errors) > 0:
			return errors.New(p.Errors[0].Msg)
		case s == nil:
			return fmt.Errorf("load packages: the go command returned %s, which was not asked for", p.ID)
		}
		s.pkg.Source = source(p, s, cfg.Fset)
	}
	for path, s := range scans {
		if s.pkg.Source == nil {
			return fmt.Errorf("load packages: the go command did not return %s", path)
		}
	}
	return nil
}

// parse cuts the bodies away. init and main keep empty ones, which the type check insists on.
func parse(fset *token.FileSet, path string, src []byte, comments bool) (*ast.File, error) {
	mode := parser.SkipObjectResolution
	if comments {
		mode |= parser.ParseComments
	}
	if isGenerated(path, src) {
		clause, err := parser.ParseFile(fset, path, src, parser.PackageClauseOnly)
		if err != nil {
			return nil, nil //nolint:nilerr // a dependency's, cut off before its package clause
		}
		return clause, nil
	}
	tree, err := parser.ParseFile(fset, path, src, mode)
	if tree != nil {
		for _, decl := range tree.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			switch {
			case !ok || fn.Body == nil:
			case fn.Recv == nil && (fn.Name.Name == "init" || fn.Name.Name == "main"):
				fn.Body.List = nil
			default:
				fn.Body = nil
			}
		}
	}
	return tree, err
}

func source(p *packages.Package, s *scan, fset *token.FileSet) *Source {
	src := &Source{Path: p.PkgPath, Name: s.name(), Fset: fset, Types: p.Types}
	for _, f := range p.Syntax {
		if path := fset.Position(f.Package).Filename; s.generated == nil || !s.generated.Ours || path != s.generated.Path {
			src.Files = append(src.Files, f)
		}
	}
	src.SortFiles()
	src.Outside = s.outside(fset, src.Files)
	for _, e := range p.Errors {
		if e.Kind == packages.ParseError {
			src.SyntaxErrors = append(src.SyntaxErrors, Problem{Position: position(e.Pos), Message: e.Msg})
		}
	}
	for _, e := range p.TypeErrors {
		if IsProblem(e) {
			src.TypeErrors = append(src.TypeErrors, Problem{Pos: e.Pos, Position: e.Fset.Position(e.Pos), Message: e.Msg})
		}
	}
	for _, f := range src.Files {
		for _, spec := range f.Imports {
			src.explainImport(p, spec)
		}
	}
	return src
}

// SortFiles puts the files in the order of their names.
func (src *Source) SortFiles() {
	name := func(f *ast.File) string { return src.Fset.Position(f.Package).Filename }
	slices.SortFunc(src.Files, func(a, b *ast.File) int { return strings.Compare(name(a), name(b)) })
}

// IsProblem reports whether the error stands for itself and is not of our own making: soft errors are about unused imports
// and missing bodies, both of which cutting bodies away brings about, and what begins with a tab continues the error
// before it.
func IsProblem(e types.Error) bool { return !e.Soft && !strings.HasPrefix(e.Msg, "\t") }

// explainImport puts the go command's words, which say what to do, in the place of the type checker's, which do not. The
// go command reports them on the package that is missing, not where it is imported.
func (src *Source) explainImport(p *packages.Package, spec *ast.ImportSpec) {
	path, err := strconv.Unquote(spec.Path.Value)
	dep := p.Imports[path]
	if err != nil || dep == nil || len(dep.GoFiles) > 0 || len(dep.Errors) == 0 {
		return
	}
	at := spec.Path.Pos()
	src.TypeErrors = slices.DeleteFunc(src.TypeErrors, func(e Problem) bool { return e.Pos == at })
	for _, e := range dep.Errors {
		if e.Kind == packages.ListError {
			src.TypeErrors = append(src.TypeErrors, Problem{Pos: at, Position: src.Fset.Position(at), Message: e.Msg})
		}
	}
}

// position reads file:line:col, the form in which packages hands positions on.
func position(s string) token.Position {
	pos := token.Position{Filename: s}
	numbers := []*int{&pos.Column, &pos.Line}
	for i := 0; i < 2; i++ {
		at := strings.LastIndexByte(pos.Filename, ':')
		n, err := strconv.Atoi(pos.Filename[at+1:])
		if at < 0 || err != nil {
			break
		}
		*numbers[i], pos.Filename = n, pos.Filename[:at]
	}
	if pos.Line == 0 { // file:line
		pos.Line, pos.Column = pos.Column, 0
	}
	return pos
}
