package gen_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/millrace-go/millrace/gen"
	"github.com/millrace-go/millrace/gen/diag"
)

// entry is a section of docs/diagnostics.md.
type entry struct {
	code  diag.Code
	title string
	// example has the finding, fixed has not.
	example, fixed string
}

var (
	heading = regexp.MustCompile(`(?m)^## (S\d{3}): (.*)$`)
	block   = regexp.MustCompile("(?s)```golang\n(.*?)\n```")
)

func catalogue(t *testing.T) []entry {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "diagnostics.md"))
	if err != nil {
		t.Fatal(err)
	}
	var entries []entry
	sections := heading.FindAllStringSubmatchIndex(string(text), -1)
	for i, m := range sections {
		end := len(text)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}
		e := entry{code: diag.Code(text[m[2]:m[3]]), title: string(text[m[4]:m[5]])}
		blocks := block.FindAllStringSubmatch(string(text[m[1]:end]), -1)
		if len(blocks) != 2 {
			t.Fatalf("%s has %d blocks, want the example and the example without the finding", e.code, len(blocks))
		}
		e.example, e.fixed = blocks[0][1], blocks[1][1]
		entries = append(entries, e)
	}
	return entries
}

// TestTheCatalogueHasEveryCode holds the sections of docs/diagnostics.md to the codes, and the codes to the sections.
func TestTheCatalogueHasEveryCode(t *testing.T) {
	var got, want []string
	for _, e := range catalogue(t) {
		got = append(got, fmt.Sprintf("%s: %s", e.code, e.title))
	}
	for _, c := range diag.Codes() {
		want = append(want, fmt.Sprintf("%s: %s", c, c.Title()))
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/diagnostics.md has\n%s\nthe codes are\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestTheCatalogueIsTrue runs every example: it has findings of its code and no other, and what stands behind it as the
// way out has none.
func TestTheCatalogueIsTrue(t *testing.T) {
	entries := catalogue(t)
	files := map[string]string{}
	for _, e := range entries {
		put(files, "bad/"+string(e.code), e.example)
		put(files, "good/"+string(e.code), e.fixed)
	}
	report, err := gen.Run(t.Context(), gen.Config{Dir: stubbed(t, files), Patterns: []string{"./..."}})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]diag.Diagnostic{}
	for _, d := range report.Findings {
		dir := filepath.ToSlash(filepath.Dir(d.Pos.Filename))
		found[dir] = append(found[dir], d)
	}
	for _, e := range entries {
		if fixed := found["good/"+string(e.code)]; len(fixed) > 0 {
			t.Errorf("%s: what is shown as the way out has %v", e.code, fixed)
		}
		example := found["bad/"+string(e.code)]
		if len(example) == 0 {
			t.Errorf("%s: its example has no finding", e.code)
		}
		for _, d := range example {
			if d.Code != e.code {
				t.Errorf("%s: its example has %v", e.code, d)
			}
		}
	}
}

// put writes an example as a package: as it stands where it names its files, else with what every example may use.
func put(files map[string]string, dir, example string) {
	const head = "package refunds\n\nimport \"context\"\n\ntype Order struct{ ID int }\n\n"
	archive := txtar.Parse([]byte(example + "\n"))
	if len(archive.Files) == 0 {
		files[dir+"/refunds.go"] = head + example + "\n"
	}
	for _, f := range archive.Files {
		files[dir+"/"+f.Name] = string(f.Data)
	}
}

// stubbed writes a module that sees stand-ins for the packages of this one.
func stubbed(t *testing.T, files map[string]string) string {
	t.Helper()
	stub, err := filepath.Abs(filepath.Join("testdata", "stub"))
	if err != nil {
		t.Fatal(err)
	}
	dir := module(t, files)
	mod := "module example.com/m\n\ngo 1.26.0\n\nrequire github.com/millrace-go/millrace v0.0.0\n\n" +
		"replace github.com/millrace-go/millrace => " + stub + "\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}
