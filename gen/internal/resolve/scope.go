package resolve

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-go/millrace/gen/internal/load"
)

const (
	modulePath  = "github.com/millrace-go/millrace"
	runtimePath = modulePath + "/runtime"
	outcomePath = modulePath + "/outcome"
)

// scope is every name that a generated declaration must not have, with the place of one declaration of it.
type scope map[string]token.Pos

func (s scope) lookup(name string) (token.Pos, bool) {
	pos, ok := s[name]
	return pos, ok
}

// declarations collects the names of all files of the package's folder: a build on another platform, or of the tests,
// must not be the first to notice a collision, and must not give another file either.
func declarations(src *load.Source) scope {
	s := scope{}
	files := slices.Clone(src.Files)
	for _, o := range src.Outside {
		if o.File != nil {
			files = append(files, o.File)
		}
	}
	for _, f := range files {
		if f.Name.Name == src.Name {
			s.addFile(f)
		}
	}
	for _, f := range src.Files {
		for _, spec := range f.Imports {
			s.addDotImport(spec, src.Types)
		}
	}
	return s
}

// addDotImport reserves what a file imports with a dot: Go refuses a declaration of the same name in any other file.
func (s scope) addDotImport(spec *ast.ImportSpec, pkg *types.Package) {
	importPath, err := strconv.Unquote(spec.Path.Value)
	if err != nil || spec.Name == nil || spec.Name.Name != "." {
		return
	}
	for _, imported := range pkg.Imports() {
		if imported.Path() != importPath {
			continue
		}
		for _, name := range imported.Scope().Names() {
			if _, ok := s[name]; !ok && token.IsExported(name) {
				s[name] = spec.Pos()
			}
		}
	}
}

func (s scope) addFile(f *ast.File) {
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				s.add(decl.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					s.add(spec.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						s.add(name)
					}
				case *ast.ImportSpec:
					s.addImport(spec)
				}
			}
		}
	}
}

func (s scope) add(name *ast.Ident) {
	if _, ok := s[name.Name]; !ok && name.Name != "_" {
		s[name.Name] = name.Pos()
	}
}

// addImport reserves the name of an import, which no package-level variable may share. The runtime itself is left out:
// a file that imports it as streamrt is no reason for the generated one to call it anything else.
func (s scope) addImport(spec *ast.ImportSpec) {
	importPath, err := strconv.Unquote(spec.Path.Value)
	if err != nil || importPath == runtimePath {
		return
	}
	if spec.Name != nil {
		if spec.Name.Name != "." {
			s.add(spec.Name)
		}
		return
	}
	// The package's own name may differ from its path; the guess only has to be right for what could collide.
	base := path.Base(importPath)
	if i := strings.LastIndexByte(base, '.'); i > 0 {
		base = base[:i]
	}
	if _, ok := s[base]; !ok && token.IsIdentifier(base) {
		s[base] = spec.Pos()
	}
}
