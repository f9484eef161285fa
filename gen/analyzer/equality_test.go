package analyzer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"github.com/millrace-go/millrace/gen"
	"github.com/millrace-go/millrace/gen/analyzer"
	"github.com/millrace-go/millrace/gen/diag"
)

// scripts returns the sources of streamgen's own scripts as folders of one module. Those that bring a go.mod are about
// modules, not packages; packages that import each other in a circle the go command refuses before it vets them.
func scripts(t *testing.T) (names []string, files map[string]string) {
	t.Helper()
	archives, err := filepath.Glob(filepath.Join("..", "testdata", "script", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(archive.Files, func(f txtar.File) bool { return filepath.Base(f.Name) == "go.mod" }) {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		if name == "load_import_cycle" {
			continue
		}
		names = append(names, name)
		for _, f := range archive.Files {
			if filepath.Ext(f.Name) == ".go" {
				files[name+"/"+f.Name] = strings.ReplaceAll(string(f.Data), `"example.com/m/`, `"example.com/m/`+name+"/")
			}
		}
	}
	return names, files
}

// missing are the words for an import that is not there: the go command's, and the type checker's.
var missing = regexp.MustCompile(`no required module provides package .*; to add it: go get [^ ]*|could not import .*\)`)

// TestTheFindingsAreThoseOfStreamgen runs both over the sources of streamgen's own scripts.
func TestTheFindingsAreThoseOfStreamgen(t *testing.T) {
	names, files := scripts(t)
	dir := module(t, files)
	got, shown := vet(t, dir)
	result, err := gen.Load(t.Context(), gen.Config{Dir: dir, Patterns: []string{"./..."}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for _, d := range result.Findings {
		folder := filepath.Dir(d.Pos.Filename)
		if _, err := os.Stat(filepath.Join(dir, folder)); err == nil && !shown[folder] {
			continue // nothing of it is built, so that a driver has no package to show
		}
		name, _, _ := strings.Cut(filepath.ToSlash(d.Pos.Filename), "/")
		text := strings.ReplaceAll(d.String(), folder+string(filepath.Separator), "")
		want[name] = append(want[name], missing.ReplaceAllString(text, "no such import"))
	}
	refusals := 0
	for _, name := range names {
		if len(want[name]) > 0 {
			refusals++
		}
		slices.Sort(want[name])
		if !slices.Equal(want[name], got[name]) {
			t.Errorf("%s\nstreamgen finds\n\t%s\nstreamvet finds\n\t%s", name, strings.Join(want[name], "\n\t"), strings.Join(got[name], "\n\t"))
		}
	}
	if refusals < 100 {
		t.Errorf("only %d of %d scripts have findings", refusals, len(names))
	}
}

// vet runs the analyzer over the module in dir, tests included. It returns what it finds by first folder, and the folders
// of the packages that it was shown.
func vet(t *testing.T, dir string) (found map[string][]string, shown map[string]bool) {
	t.Helper()
	pkgs, err := packages.Load(&packages.Config{Context: t.Context(), Dir: dir, Mode: packages.LoadAllSyntax, Tests: true}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{analyzer.Analyzer}, pkgs, nil)
	if err != nil {
		t.Fatal(err)
	}
	found, shown = map[string][]string{}, map[string]bool{}
	for _, root := range graph.Roots {
		if root.Err != nil {
			t.Errorf("%s: %v", root.Package, root.Err)
		}
		for _, f := range root.Package.GoFiles {
			shown[diag.Relative(dir, filepath.Dir(f))] = true
		}
		for _, d := range root.Diagnostics {
			if d.Category == "stale" {
				continue
			}
			at := root.Package.Fset.Position(d.Pos)
			path := diag.Relative(dir, at.Filename)
			name, _, _ := strings.Cut(filepath.ToSlash(path), "/")
			found[name] = append(found[name],
				fmt.Sprintf("%s:%d:%d: %s", filepath.Base(path), at.Line, max(at.Column, 1), missing.ReplaceAllString(d.Message, "no such import")))
			if !strings.HasSuffix(d.Message, "["+d.Category+"]") || !strings.Contains(d.URL, "#"+strings.ToLower(d.Category)+"-") {
				t.Errorf("category %s, URL %s: %s", d.Category, d.URL, d.Message)
			}
		}
	}
	for name := range found {
		slices.Sort(found[name])
		found[name] = slices.Compact(found[name])
	}
	return found, shown
}
