package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/unitchecker"
	"golang.org/x/tools/go/packages"

	"github.com/millrace-go/millrace/gen/analyzer"
)

// checkBroken stands in for unitchecker where a package does not compile. That gives up there, with a message about a
// variable that is not declared, just when the analyzer knows why: the generated file is missing or broken. checkBroken
// returns false, having done nothing, where the package compiles, where the analyzer has nothing to say, and where this
// is no call to analyze a package. Else findings says whether it has any for the exit code to tell.
func checkBroken(args []string) (findings, done bool, err error) {
	if len(args) == 0 || !strings.HasSuffix(args[len(args)-1], ".cfg") || slices.Contains(args, "-fix") {
		return false, false, nil // what does not compile is not fixed
	}
	content, err := os.ReadFile(args[len(args)-1])
	if err != nil {
		return false, false, err
	}
	var cfg unitchecker.Config
	if err := json.Unmarshal(content, &cfg); err != nil {
		return false, false, err
	}
	if cfg.VetxOnly {
		return false, false, nil
	}
	pkg, ok := loadBroken(&cfg)
	if !ok {
		return false, false, nil
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{analyzer.Analyzer}, []*packages.Package{pkg}, nil)
	if err != nil {
		return false, false, err
	}
	if root := graph.Roots[0]; root.Err != nil || len(root.Diagnostics) == 0 {
		return false, false, root.Err
	}
	if !slices.Contains(args, "-json") {
		return true, true, graph.PrintText(os.Stderr, -1)
	}
	// The go command asks for JSON, and decides itself what it comes to.
	out := os.Stdout
	if cfg.Stdout != "" {
		if out, err = os.Create(cfg.Stdout); err != nil {
			return false, false, err
		}
	}
	return false, true, errors.Join(graph.PrintJSON(out), out.Close())
}

// loadBroken reads a package that does not compile, as far as it goes. It returns false where it does compile, and where
// the go command has not compiled all that it imports, without which nothing is certain.
func loadBroken(cfg *unitchecker.Config) (*packages.Package, bool) {
	pkg := &packages.Package{
		ID: cfg.ID, PkgPath: cfg.ImportPath, IllTyped: true,
		Fset: token.NewFileSet(), TypesSizes: types.SizesFor("gc", build.Default.GOARCH), TypesInfo: &types.Info{},
		OtherFiles: cfg.NonGoFiles, IgnoredFiles: cfg.IgnoredFiles,
	}
	broken := false
	for _, path := range cfg.GoFiles {
		f, err := parser.ParseFile(pkg.Fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if f == nil {
			return nil, false
		}
		broken = broken || err != nil
		pkg.Syntax = append(pkg.Syntax, f)
	}
	for _, f := range pkg.Syntax {
		for _, spec := range f.Imports {
			if !compiled(cfg, spec) {
				return nil, false
			}
		}
	}
	config := types.Config{
		Importer: importerOf(cfg, pkg.Fset), Sizes: pkg.TypesSizes, GoVersion: cfg.GoVersion,
		Error: func(err error) {
			broken = true
			if e, ok := errors.AsType[types.Error](err); ok {
				pkg.TypeErrors = append(pkg.TypeErrors, e)
			}
		},
	}
	pkg.Types, _ = config.Check(cfg.ImportPath, pkg.Fset, pkg.Syntax, pkg.TypesInfo)
	pkg.Name = pkg.Types.Name()
	return pkg, broken
}

func compiled(cfg *unitchecker.Config, spec *ast.ImportSpec) bool {
	path, err := strconv.Unquote(spec.Path.Value)
	return err == nil && (path == "unsafe" || cfg.PackageFile[cfg.ImportMap[path]] != "")
}

// importerOf reads what the compiler has exported from the packages that are imported.
func importerOf(cfg *unitchecker.Config, fset *token.FileSet) types.Importer {
	exported := importer.ForCompiler(fset, cfg.Compiler, func(path string) (io.ReadCloser, error) {
		return os.Open(cfg.PackageFile[path])
	})
	return mapped{cfg.ImportMap, exported}
}

// mapped looks for what a file calls by one path under another, as it is with vendored packages.
type mapped struct {
	paths map[string]string
	from  types.Importer
}

func (m mapped) Import(path string) (*types.Package, error) {
	return m.from.Import(cmp.Or(m.paths[path], path))
}
