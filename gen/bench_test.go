package gen_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/millrace-go/millrace/gen"
)

// large is a module of so many packages that import net/http, the first few of them with a directive.
func large(b *testing.B, packages, directives int) string {
	b.Helper()
	files := map[string]string{}
	for i := range packages {
		directive := ""
		if i < directives {
			directive = "//stream:subscriber stream=s group=g"
		}
		files[fmt.Sprintf("p%d/p.go", i)] = fmt.Sprintf("package p%d\n\nimport (\n\t\"context\"\n\t\"net/http\"\n)\n\n"+
			"type Payload struct{ Header http.Header }\n\n%s\nfunc H(context.Context, *Payload) error { return nil }\n", i, directive)
	}
	return module(b, files)
}

func generate(b *testing.B, dir string) {
	b.Helper()
	report, err := gen.Run(b.Context(), gen.Config{Dir: dir, Patterns: []string{"./..."}})
	if err != nil || len(report.Findings) > 0 {
		b.Fatal(err, report.Findings)
	}
}

// BenchmarkRun20PackagesWithDirectives should stay below 2 s on two cores.
func BenchmarkRun20PackagesWithDirectives(b *testing.B) {
	dir := large(b, 20, 20)
	for b.Loop() {
		generate(b, dir)
	}
}

// BenchmarkRun20PackagesWithoutBuildCache should stay below 5 s on two cores.
func BenchmarkRun20PackagesWithoutBuildCache(b *testing.B) {
	dir := large(b, 20, 20)
	n := 0
	root := b.TempDir()
	for b.Loop() {
		n++
		b.Setenv("GOCACHE", filepath.Join(root, fmt.Sprint(n)))
		generate(b, dir)
	}
}

// BenchmarkRun300PackagesWithOneDirective should stay below 1.5 s on two cores.
func BenchmarkRun300PackagesWithOneDirective(b *testing.B) {
	dir := large(b, 300, 1)
	for b.Loop() {
		generate(b, dir)
	}
}
