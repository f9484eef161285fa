package docs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// listed is what go list says of one package.
type listed struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// list asks the go command about every package of the module.
func list(t *testing.T) []listed {
	t.Helper()
	seeSources(t)
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var pkgs []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// seeSources opens every folder of the repository, so that go test knows what this test depends on and does not answer
// from its cache after a file has changed: it cannot see what the go command reads.
func seeSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && len(d.Name()) > 2 && d.Name()[0] == '.' {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestImports(t *testing.T) {
	for _, finding := range check(list(t), rooms, fences) {
		t.Error(finding)
	}
}

// check returns one sentence for each package without a row and each import that its row or a fence forbids.
func check(pkgs []listed, rooms []room, fences []fence) []string {
	var findings []string
	for _, p := range pkgs {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		i := slices.IndexFunc(rooms, func(r room) bool { return matches(r.path, name) })
		if i < 0 {
			findings = append(findings, fmt.Sprintf("package %s is in no room: move it where it belongs, or add a row with "+
				"what it may import and why it exists to rooms in docs/rooms_test.go, and to the table in CONTRIBUTING.md", name))
			continue
		}
		r := rooms[i]
		findings = append(findings, inside(name, "", p.Imports, r.imports)...)
		tests := slices.Concat(p.TestImports, p.XTestImports)
		findings = append(findings, inside(name, " in a test", tests, slices.Concat(r.imports, r.tests))...)
		for _, f := range fences {
			findings = append(findings, f.check(name, p)...)
		}
	}
	return findings
}

// inside returns the imports of this module that are not allowed.
func inside(name, where string, imports, allowed []string) []string {
	var findings []string
	for _, path := range imports {
		other, ours := strings.CutPrefix(path, module+"/")
		if !ours || other == name || anyMatches(allowed, other) {
			continue
		}
		findings = append(findings, fmt.Sprintf("%s imports %s%s: its row in docs/rooms_test.go allows %s",
			name, other, where, orNothing(allowed)))
	}
	slices.Sort(findings)
	return slices.Compact(findings)
}

func (f fence) check(name string, p listed) []string {
	var findings []string
	add := func(verb, path string) {
		findings = append(findings, fmt.Sprintf("%s %s %s: %s (fences in docs/rooms_test.go)", name, verb, path, f.why))
	}
	importer := anyMatches(f.importers, name)
	if path, ok := f.first(p.Imports); ok && !importer {
		add("imports", path)
	} else if path, ok := f.first(p.Deps); ok && !anyMatches(f.linkers, name) {
		add("links", path)
	}
	if path, ok := f.first(slices.Concat(p.TestImports, p.XTestImports)); ok && !importer && !f.testsToo {
		add("imports in a test", path)
	}
	return findings
}

// first is the first path that lies behind the fence.
func (f fence) first(paths []string) (string, bool) {
	for _, path := range paths {
		if path == f.module || strings.HasPrefix(path, f.module+"/") {
			return path, true
		}
	}
	return "", false
}

func orNothing(allowed []string) string {
	if len(allowed) == 0 {
		return "nothing of this module"
	}
	return strings.Join(allowed, " ")
}

func TestEveryRowHasAReason(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rooms {
		if r.why == "" {
			t.Errorf("the row of %s does not say why it exists", r.path)
		}
		if seen[r.path] {
			t.Errorf("%s has two rows", r.path)
		}
		seen[r.path] = true
	}
	for _, f := range fences {
		if f.why == "" {
			t.Errorf("the fence of %s has no reason", f.module)
		}
		for _, path := range append(f.importers, f.linkers...) {
			if !slices.ContainsFunc(rooms, func(r room) bool { return r.path == path }) {
				t.Errorf("the fence of %s names %s, which has no row", f.module, path)
			}
		}
	}
}

func TestCheckFindsEachKindOfBreach(t *testing.T) {
	m := func(names ...string) []string {
		var out []string
		for _, n := range names {
			out = append(out, module+"/"+n)
		}
		return out
	}
	tests := []struct {
		name string
		pkg  listed
		want string // "" means that it is allowed
	}{
		{"a new package", listed{ImportPath: module + "/util"}, "package util is in no room"},
		{
			"a leaf that imports a room",
			listed{ImportPath: module + "/outcome", Imports: m("broker")},
			"outcome imports broker: its row in docs/rooms_test.go allows nothing of this module",
		},
		{
			"an arrow the wrong way",
			listed{ImportPath: module + "/broker", Imports: m("app")},
			"broker imports app",
		},
		{
			"a test that reaches too far",
			listed{ImportPath: module + "/gen", XTestImports: m("app")},
			"gen imports app in a test",
		},
		{
			"a live test of a service",
			listed{ImportPath: module + "/app", XTestImports: append(m("app", "broker/redistest"), "github.com/redis/go-redis/v9")},
			"",
		},
		{
			"a pattern",
			listed{ImportPath: module + "/broker/redisbroker", Imports: m("broker/redisbroker/internal/script")},
			"",
		},
		{
			"an app with a client",
			listed{ImportPath: module + "/app", Imports: []string{"github.com/redis/go-redis/v9"}},
			"app imports github.com/redis/go-redis/v9",
		},
		{
			"an app that links a client",
			listed{ImportPath: module + "/app", Deps: []string{"context", "github.com/redis/go-redis/v9/internal/pool"}},
			"app links github.com/redis/go-redis/v9/internal/pool",
		},
		{
			"a runtime that links a client",
			listed{ImportPath: module + "/runtime", Deps: []string{"github.com/redis/go-redis/v9"}},
			"runtime links github.com/redis/go-redis/v9",
		},
		{
			"an outcome that links a client",
			listed{ImportPath: module + "/outcome", Deps: []string{"github.com/redis/go-redis/v9"}},
			"outcome links github.com/redis/go-redis/v9",
		},
		{
			"a broker that links the in-process server",
			listed{ImportPath: module + "/broker/redisbroker", Deps: []string{"github.com/alicebob/miniredis/v2"}},
			"broker/redisbroker links github.com/alicebob/miniredis/v2",
		},
		{
			"a test with its own in-process server",
			listed{ImportPath: module + "/broker/redisbroker", TestImports: []string{"github.com/alicebob/miniredis/v2"}},
			"broker/redisbroker imports in a test github.com/alicebob/miniredis/v2",
		},
		{
			"the harness on the in-process server",
			listed{ImportPath: module + "/app/apptest", Deps: []string{"github.com/alicebob/miniredis/v2"}},
			"",
		},
		{
			"a harness that links Docker",
			listed{ImportPath: module + "/app/apptest", Deps: []string{"github.com/testcontainers/testcontainers-go"}},
			"app/apptest links github.com/testcontainers/testcontainers-go",
		},
		{
			"a stage with a code printer",
			listed{ImportPath: module + "/gen/internal/resolve", Imports: []string{"github.com/dave/jennifer/jen"}},
			"gen/internal/resolve imports github.com/dave/jennifer/jen",
		},
		{
			"a module whose name only begins alike",
			listed{ImportPath: module + "/app", Imports: []string{"github.com/redis/go-redis-mock"}},
			"",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := check([]listed{tt.pkg}, rooms, fences)
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("refused: %q", got)
			case tt.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], tt.want)):
				t.Errorf("got %q, want one that begins with %q", got, tt.want)
			}
		})
	}
}
