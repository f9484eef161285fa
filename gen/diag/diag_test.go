package diag_test

import (
	"encoding/json"
	"go/token"
	"path/filepath"
	"testing"

	"github.com/millrace-go/millrace/gen/diag"
)

func at(file string, line, col, offset int) token.Position {
	return token.Position{Filename: file, Line: line, Column: col, Offset: offset}
}

func TestListSortsAndDropsRepetitions(t *testing.T) {
	var l diag.List
	l.Add(diag.Diagnostic{Pos: at("b.go", 1, 1, 0), Message: "third,\n\tgo on"})
	l.Add(diag.Diagnostic{Code: diag.NearMiss, Pos: at("a.go", 10, 2, 7), Message: "second"})
	l.Add(diag.Diagnostic{Code: diag.NearMiss, Pos: at("a.go", 10, 2, 0), Message: "second"})
	l.Add(diag.Diagnostic{Code: diag.UnknownKey, Pos: at("a.go", 10, 2, 7), Message: "a second one", Suggest: "x"})
	l.Add(diag.Diagnostic{Pos: at("a.go", 9, 3, 0), Message: "first"})
	l.Add(diag.Diagnostic{Pos: token.Position{Filename: "c.go"}, Message: "whole file", Related: []diag.Related{{Message: "other", Pos: token.Position{Filename: "d.go"}}}})
	var got string
	for _, d := range l.Sorted() {
		got += d.String() + "\n"
	}
	want := "a.go:9:3: first\na.go:10:2: second [S101]\na.go:10:2: a second one; did you mean \"x\"? [S103]\n" +
		"b.go:1:1: third, go on\nc.go:1:1: whole file (other: d.go:1:1)\n"
	if got != want {
		t.Errorf(" got %q\nwant %q", got, want)
	}
}

func TestASuggestionWithQuotesIsPrintedAsItIsWritten(t *testing.T) {
	for suggest, want := range map[string]string{
		`stream=a`:      `m; did you mean "stream=a"?`,
		`"stream=a b"`:  "m; did you mean `\"stream=a b\"`?",
		"`stream=\"a\"": "m; did you mean \"`stream=\\\"a\\\"\"?",
	} {
		if got := (diag.Diagnostic{Message: "m", Suggest: suggest}).Text(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestJSONCarriesTheFinding(t *testing.T) {
	d := diag.Diagnostic{
		Code: diag.UnknownKey, Pos: at(filepath.Join("a", "a.go"), 5, 30, 80), End: at(filepath.Join("a", "a.go"), 5, 35, 85),
		Message: "m", Suggest: "s",
		Related: []diag.Related{{Pos: at("b.go", 1, 2, 3), Message: "r"}},
		Fixes: []diag.Fix{{Message: "f", Edits: []diag.Edit{
			{Pos: at(filepath.Join("a", "a.go"), 5, 30, 80), End: at(filepath.Join("a", "a.go"), 5, 35, 85), New: "<stream>"},
		}}},
	}
	for want, d := range map[string]diag.Diagnostic{
		`{"code":"S103","file":"a/a.go","line":5,"column":30,"endLine":5,"endColumn":35,"message":"m","suggestion":"s",` +
			`"related":[{"file":"b.go","line":1,"column":2,"message":"r"}],"fixes":[{"message":"f","edits":[` +
			`{"file":"a/a.go","line":5,"column":30,"offset":80,"endLine":5,"endColumn":35,"endOffset":85,"text":"\u003cstream\u003e"}]}]}`: d,
		`{"code":"S001","file":"b.go","line":1,"column":2,"message":"m"}`: {Code: diag.SyntaxError, Pos: at("b.go", 1, 2, 3), Message: "m"},
	} {
		if got, err := json.Marshal(d); err != nil || string(got) != want {
			t.Errorf("%v\n got %s\nwant %s", err, got, want)
		}
	}
}

func TestRelativeNamesEveryFileFromTheFolder(t *testing.T) {
	root := t.TempDir()
	in := func(name string) token.Position {
		return token.Position{Filename: filepath.Join(root, name), Line: 1, Column: 1}
	}
	d := diag.Diagnostic{
		Message: "declared at " + filepath.Join(root, "a.go") + ":1",
		Pos:     in("a.go"), End: in("a.go"), Related: []diag.Related{{Pos: in("b.go")}},
		Fixes: []diag.Fix{{Edits: []diag.Edit{{Pos: in("c.go"), End: in("c.go")}}}},
	}
	got := d.Relative(root)
	for _, p := range []token.Position{got.Pos, got.End, got.Related[0].Pos, got.Fixes[0].Edits[0].Pos, got.Fixes[0].Edits[0].End} {
		if filepath.Dir(p.Filename) != "." {
			t.Errorf("%s is not relative", p.Filename)
		}
	}
	if got.Message != "declared at a.go:1" {
		t.Errorf("message %q", got.Message)
	}
	if d.Related[0].Pos != in("b.go") || d.Fixes[0].Edits[0].Pos != in("c.go") {
		t.Errorf("the finding itself was changed: %+v", d)
	}
	for path, want := range map[string]string{
		filepath.Join(root, "a", "b.go"):       filepath.Join("a", "b.go"),
		filepath.Join(root, "..", "x", "b.go"): filepath.Join("..", "x", "b.go"),
	} {
		if got := diag.Relative(root, path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestEveryCodeHasATitle(t *testing.T) {
	titles := map[string]diag.Code{}
	for _, c := range diag.Codes() {
		if other, taken := titles[c.Title()]; taken || c.Title() == "" {
			t.Errorf("%s is called %q, as %s is", c, c.Title(), other)
		}
		titles[c.Title()] = c
	}
}
