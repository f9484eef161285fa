package analyzer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/millrace-go/millrace/gen"
	"github.com/millrace-go/millrace/gen/analyzer"
)

// TestFindings runs over the packages of an archive: what they say in "// want" is found and nothing else, and the fixes
// of a file make what stands in its golden file.
func TestFindings(t *testing.T) {
	for _, name := range []string{"fixes", "places", "generated"} {
		t.Run(name, func(t *testing.T) {
			archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
			if err != nil {
				t.Fatal(err)
			}
			files := map[string]string{}
			for _, f := range archive.Files {
				files[f.Name] = string(f.Data)
			}
			analysistest.RunWithSuggestedFixes(t, module(t, files), analyzer.Analyzer, "./...")
		})
	}
}

// module writes files into a module that sees stand-ins for the packages of this one.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	stub, err := filepath.Abs(filepath.Join("..", "testdata", "stub"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files["go.mod"] = "module example.com/m\n\ngo 1.26.0\n\nrequire github.com/millrace-go/millrace v0.0.0\n\n" +
		"replace github.com/millrace-go/millrace => " + stub + "\n"
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const handler = "package p\n\nimport \"context\"\n\n//stream:subscriber stream=s\nfunc H(context.Context, int) error { return nil }\n"

// TestWhatStreamgenWritesIsCurrent looks at its files as they are, with the line ends of Windows, and where a test has
// taken the name of an import.
func TestWhatStreamgenWritesIsCurrent(t *testing.T) {
	dir := module(t, map[string]string{
		"plain/p.go": handler, "windows/p.go": handler,
		"alias/p.go": handler, "alias/p_test.go": "package p\n\nvar streamrt = 1\n",
	})
	report, err := gen.Run(t.Context(), gen.Config{Dir: dir, Patterns: []string{"./..."}})
	if err != nil || len(report.Written) != 3 {
		t.Fatalf("%+v, %v", report, err)
	}
	path := filepath.Join(dir, "windows", "stream_gen.go")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content = []byte("\ufeff" + strings.ReplaceAll(string(content), "\n", "\r\n"))
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	analysistest.Run(t, dir, analyzer.Analyzer, "./...")
}
