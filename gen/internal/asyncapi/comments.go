package asyncapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// comment is what stands above a declaration, or behind it.
type comment struct {
	text       string
	deprecated bool
}

// deprecation is Go's way to say that a declaration is: a paragraph that begins so.
var deprecation = regexp.MustCompile(`(?m)(\A|\n\n)Deprecated: `)

// comments reads the comments of types and fields. Packages are loaded without those of their dependencies, where half
// of all payloads are declared, so a file is read again when the first declaration in it is asked for.
type comments struct {
	fset  *token.FileSet
	files map[string]map[int]comment // by path and offset of the name
}

// of returns the comment of a type or a field.
func (c *comments) of(obj types.Object) comment {
	at := c.fset.PositionFor(obj.Pos(), false) // where the bytes are, whatever line directives say
	if obj.Pkg() == nil || at.Filename == "" || isStandard(obj.Pkg(), at.Filename) {
		return comment{}
	}
	found, ok := c.files[at.Filename]
	if !ok {
		found = read(at.Filename)
		c.files[at.Filename] = found
	}
	return found[at.Offset]
}

// isStandard reports whether the file belongs to Go itself: its comments change with the toolchain, and what is in the
// document must not.
func isStandard(pkg *types.Package, path string) bool {
	root, ok := strings.CutSuffix(filepath.ToSlash(filepath.Dir(path)), "/src/"+pkg.Path())
	if !ok {
		return false
	}
	_, err := os.Stat(filepath.Join(root, "src", "builtin", "builtin.go"))
	return err == nil
}

func read(path string) map[int]comment {
	found := map[int]comment{}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return found // it was loaded a moment ago, and what does not parse there has no types
	}
	add := func(at token.Pos, groups ...*ast.CommentGroup) {
		for _, g := range groups {
			if text := strings.TrimSpace(g.Text()); text != "" {
				found[fset.PositionFor(at, false).Offset] = comment{text, deprecation.MatchString(text)}
				return
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return false
		case *ast.GenDecl:
			if n.Tok == token.TYPE && !n.Lparen.IsValid() {
				spec := n.Specs[0].(*ast.TypeSpec)
				add(spec.Name.Pos(), n.Doc, spec.Comment)
			}
		case *ast.TypeSpec:
			add(n.Name.Pos(), n.Doc, n.Comment)
		case *ast.Field:
			for _, name := range n.Names {
				add(name.Pos(), n.Doc, n.Comment)
			}
		}
		return true
	})
	return found
}
