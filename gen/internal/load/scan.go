package load

import (
	"cmp"
	"errors"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace-go/millrace/gen/directive"
	"github.com/millrace-go/millrace/gen/internal/genfile"
)

// scan is what the bytes of a package's folder tell.
type scan struct {
	pkg       *Package
	generated *Generated
	// files are all Go files of the folder, tests and other platforms' included, but not the generated one.
	files []file
	// built are the paths of those that the go command builds.
	built map[string]bool
	// mentions is true where any of them may hold a directive.
	mentions bool
}

type file struct {
	path    string
	content []byte
}

func scanDir(dir string, built ...string) (*scan, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	s := &scan{built: map[string]bool{}}
	for _, path := range built {
		s.built[path] = true
	}
	for _, e := range entries {
		if !isGoFile(e) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody has just removed it, or it is a link that leads nowhere
		}
		if err != nil {
			return nil, err
		}
		s.mentions = s.mentions || directive.Mentions(content)
		if genfile.Is(path) {
			s.generated = &Generated{Path: path, Content: content, Ours: genfile.Ours(content)}
			if s.generated.Ours {
				continue
			}
		}
		s.files = append(s.files, file{path, content})
	}
	return s, nil
}

// name returns the package clause of the files, the generated one not asked: after the package was renamed it still has
// the old name, and the go command cannot tell who is right. Files that are not built, such as programs of their own, are
// asked last.
func (s *scan) name() string {
	inTests, unbuilt := "", ""
	for _, f := range s.files {
		parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.content, parser.PackageClauseOnly)
		switch {
		case err != nil:
		case s.built[f.path]:
			return parsed.Name.Name
		case strings.HasSuffix(f.path, "_test.go"):
			inTests = cmp.Or(inTests, strings.TrimSuffix(parsed.Name.Name, "_test"))
		default:
			unbuilt = cmp.Or(unbuilt, parsed.Name.Name)
		}
	}
	return cmp.Or(inTests, unbuilt, "p") // nothing depends on the name of a package that has no source
}

// outside reads the files that are not in the build. Nobody asks whether they are correct.
func (s *scan) outside(fset *token.FileSet, inBuild []*ast.File) []Outside {
	seen := map[string]bool{}
	for _, f := range inBuild {
		seen[fset.Position(f.Package).Filename] = true
	}
	var out []Outside
	for _, f := range s.files {
		if seen[f.path] {
			continue
		}
		out = append(out, ReadOutside(fset, f.path, f.content))
	}
	if g := s.generated; g != nil && g.Ours {
		out = append(out, ReadGenerated(fset, g))
	}
	return out
}

// ReadOutside reads a file that is not in the build, of which half may be missing.
func ReadOutside(fset *token.FileSet, path string, content []byte) Outside {
	o := Outside{Path: path, Comments: comments(fset, file{path, content})}
	o.File, _ = parser.ParseFile(fset, path, content, parser.SkipObjectResolution)
	return o
}

// ReadGenerated reads the comments of the generated file.
func ReadGenerated(fset *token.FileSet, g *Generated) Outside {
	return Outside{Path: g.Path, Comments: comments(fset, file{g.Path, g.Content})}
}

// comments finds the comments of a file, however broken the code between them is.
func comments(fset *token.FileSet, f file) []*ast.Comment {
	if !directive.Mentions(f.content) {
		return nil
	}
	var sc scanner.Scanner
	sc.Init(fset.AddFile(f.path, -1, len(f.content)), f.content, func(token.Position, string) {}, scanner.ScanComments)
	var found []*ast.Comment
	for {
		switch pos, tok, text := sc.Scan(); tok {
		case token.EOF:
			return found
		case token.COMMENT:
			found = append(found, &ast.Comment{Slash: pos, Text: text})
		}
	}
}
