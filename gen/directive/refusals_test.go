package directive_test

import (
	"flag"
	"fmt"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-go/millrace/gen/diag"
	"github.com/millrace-go/millrace/gen/directive"
)

var update = flag.Bool("update", false, "rewrite testdata/refused.txt")

// TestParseRefuses holds every bad line to what testdata/refused.txt says of it: one problem a line, marked where it
// is, with the code, the message and, behind an arrow, the line as the edit leaves it.
func TestParseRefuses(t *testing.T) {
	path := filepath.Join("testdata", "refused.txt")
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(string(golden)) {
		text := strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(text, "/") {
			continue
		}
		_, errs, ours := directive.Parse(base, text)
		if !ours || len(errs) == 0 {
			t.Errorf("%s: ours %v, errors %v", text, ours, errs)
			continue
		}
		if !directive.Mentions([]byte("package p\n\n" + text + "\n")) {
			t.Errorf("%s: the byte scan overlooks it", text)
		}
		fmt.Fprintln(&got, text)
		for _, e := range errs {
			fmt.Fprintln(&got, explain(text, e))
			checkEdit(t, text, e)
		}
		fmt.Fprintln(&got)
	}
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got.String() != string(golden) {
		t.Errorf("%s differs, first at\n%s\nrun go test ./gen/directive -update and read what changed", path, firstDifference(got.String(), string(golden)))
	}
}

// explain marks what the error is about in the line below it.
func explain(text string, e directive.Problem) string {
	from, to := int(e.Pos-base), int(e.End-base)
	margin := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, text[:from])
	out := fmt.Sprintf("%s%s %s", margin, strings.Repeat("^", to-from), diag.Diagnostic{Code: e.Code, Message: e.Message, Suggest: e.Suggest}.Text())
	if e.Edit != nil {
		out += "\n=> " + apply(text, *e.Edit)
	}
	return out
}

func apply(text string, edit directive.Edit) string {
	return text[:edit.Pos-base] + edit.New + text[edit.End-base:]
}

// checkEdit holds the edit to what it is for: the problem is gone afterwards. Only where a line has the same slip several
// times over, it may take an edit for each, of which every one leaves less.
func checkEdit(t *testing.T, text string, e directive.Problem) {
	t.Helper()
	if e.Pos < base || e.End < e.Pos || e.End > base+token.Pos(len(text)) {
		t.Fatalf("%q: the problem is said to be from %d to %d", text, e.Pos-base, e.End-base)
	}
	if e.Edit == nil {
		return
	}
	if e.Edit.Pos < base || e.Edit.End < e.Edit.Pos || e.Edit.End > base+token.Pos(len(text)) {
		t.Fatalf("%q: the edit goes from %d to %d", text, e.Edit.Pos-base, e.Edit.End-base)
	}
	mended := apply(text, *e.Edit)
	_, errs, ours := directive.Parse(base, mended)
	if !ours {
		t.Errorf("%q: the edit leaves no directive: %q", text, mended)
	}
	for _, after := range errs {
		if after.Code == e.Code && after.Pos == e.Pos && after.Message == e.Message && len(mended) >= len(text) {
			t.Errorf("%q: after the edit it says the same of %q: %s", text, mended, e.Message)
		}
	}
}

func firstDifference(a, b string) string {
	for i, line := range strings.Split(a, "\n") {
		if other := strings.Split(b, "\n"); i >= len(other) || other[i] != line {
			return fmt.Sprintf("line %d: %s", i+1, line)
		}
	}
	return "its end"
}
