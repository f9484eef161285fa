// Package load finds the packages that carry directives and type-checks those, and only those.
//
// Two things make it fast and sturdy. Packages are listed and their bytes scanned first, so that a tree of hundreds pays
// only for the few that matter; and function bodies are cut away before the type check, which needs signatures alone.
// The generated files are hidden from it: whether they are missing, stale or broken, the outcome is the same.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/millrace-go/millrace/gen/internal/genfile"
)

// Package is one package of the patterns.
type Package struct {
	// Dir is the absolute path of the package's folder.
	Dir string
	// Generated is the stream_gen.go that exists there, nil where none does.
	Generated *Generated
	// Source is nil where nothing in the package looks like a directive.
	Source *Source
}

// Generated is a file of the generator's name on disk.
type Generated struct {
	Path    string
	Content []byte
	// Ours is false where somebody else wrote it.
	Ours bool
}

// Source is a package whose files were read.
type Source struct {
	// Path is the import path, Name the package clause.
	Path, Name string
	Fset       *token.FileSet
	// Files are the files of this build, without the generated one, by name.
	Files []*ast.File
	// Outside are the other files of the folder: tests, what build constraints keep out of this build, and the generated
	// file.
	Outside []Outside
	// Types is always there, however broken the source is.
	Types *types.Package
	// SyntaxErrors keep the files from being understood; TypeErrors may or may not matter.
	SyntaxErrors []Problem
	TypeErrors   []Problem
}

// Outside is a file that is in the folder and not in the build.
type Outside struct {
	Path string
	// File is what parses of it, nil for the generated one.
	File *ast.File
	// Comments are all of those of a file that may hold a directive.
	Comments []*ast.Comment
}

// Problem is what the compiler has to say about a place.
type Problem struct {
	// Pos is NoPos where only Position is known.
	Pos      token.Pos
	Position token.Position
	Message  string
}

// Packages lists the packages that match the patterns as seen from dir, and reads those with directives. It returns
// them by folder. An error means that nothing can be said about anybody's source: a pattern that matches nothing, a
// missing go command.
func Packages(ctx context.Context, dir string, patterns []string) ([]*Package, error) {
	listed, err := list(ctx, dir, patterns)
	if err != nil {
		return nil, err
	}
	pkgs := make([]*Package, 0, len(listed))
	scans := map[string]*scan{} // by import path
	for _, l := range listed {
		s, err := scanDir(l.Dir, l.GoFiles...)
		if err != nil {
			return nil, err
		}
		p := &Package{Dir: l.Dir, Generated: s.generated}
		pkgs = append(pkgs, p)
		if s.mentions {
			s.pkg = p
			scans[l.PkgPath] = s
		}
	}
	if len(scans) > 0 {
		if err := check(ctx, dir, scans); err != nil {
			return nil, err
		}
	}
	passedOver, err := unbuilt(dir, patterns, listed)
	if err != nil {
		return nil, err
	}
	pkgs = append(pkgs, passedOver...)
	slices.SortFunc(pkgs, func(a, b *Package) int { return strings.Compare(a.Dir, b.Dir) })
	return pkgs, nil
}

// list asks the go command for the packages of the main modules. What belongs to other modules is not ours to write to.
func list(ctx context.Context, dir string, patterns []string) ([]*packages.Package, error) {
	// Mode has nothing that needs imports: the go command then only looks at folders.
	cfg := &packages.Config{Context: ctx, Dir: dir, Mode: packages.NeedName | packages.NeedFiles | packages.NeedModule}
	listed, err := packages.Load(cfg, patterns...)
	if err != nil {
		// go/packages does not wrap the error of a context that ended.
		return nil, cmp.Or(ctx.Err(), goCommandError(err))
	}
	var problems []error
	kept := listed[:0]
	for _, p := range listed {
		switch {
		case p.ID == noPackage && slices.ContainsFunc(patterns, func(s string) bool { return filepath.Ext(s) == ".go" }):
			problems = append(problems, errors.New("the patterns name files: name packages, such as . or ./..."))
		case p.ID == noPackage && len(p.Errors) > 0:
			for _, e := range p.Errors {
				problems = append(problems, errors.New(e.Msg))
			}
		case p.Dir == "" || len(p.Errors) > 0 && !hasGoFiles(p.Dir):
			for _, e := range p.Errors {
				problems = append(problems, fmt.Errorf("%s: %s", p.ID, e.Msg))
			}
			if len(p.Errors) == 0 {
				problems = append(problems, fmt.Errorf("%s: the go command knows no folder of this package", p.ID))
			}
		case p.Module != nil && p.Module.Main:
			kept = append(kept, p)
		}
	}
	if len(problems) == 0 && len(kept) == 0 {
		problems = append(problems, fmt.Errorf("%s: no packages of the main module match", strings.Join(patterns, " ")))
	}
	return kept, errors.Join(problems...)
}

// noPackage is what go/packages makes of files that are named one by one, and of some errors about all that the go
// command says: a module or a workspace that is not where go.mod or go.work looks for it.
const noPackage = "command-line-arguments"

// goCommandError leaves of a failed call what the go command itself said.
func goCommandError(err error) error {
	if _, said, ok := strings.Cut(err.Error(), "stderr: "); ok && strings.TrimSpace(said) != "" {
		return errors.New(strings.TrimSpace(said))
	}
	return err
}

func hasGoFiles(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && slices.ContainsFunc(entries, isGoFile)
}

// isGoFile leaves out what the go command never looks at, and what is no file.
func isGoFile(e os.DirEntry) bool {
	name := e.Name()
	return filepath.Ext(name) == ".go" && !strings.HasPrefix(name, "_") && !strings.HasPrefix(name, ".") &&
		(e.Type().IsRegular() || e.Type()&os.ModeSymlink != 0)
}

// isGenerated is for files of packages that were not scanned: the dependencies'.
func isGenerated(path string, content []byte) bool { return genfile.Is(path) && genfile.Ours(content) }
