package gen_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/millrace-go/millrace/gen"
	"github.com/millrace-go/millrace/gen/directive"
	"github.com/millrace-go/millrace/gen/model"
)

// module writes files into an empty module that needs no other one.
func module(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.com/m\n\ngo 1.26.0\n"
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func handler(pkg, directive string) string {
	return "package " + pkg + "\n\nimport \"context\"\n\n" + directive + "\nfunc H(context.Context, int) error { return nil }\n"
}

func run(t *testing.T, dir string) gen.Report {
	t.Helper()
	report, err := gen.Run(t.Context(), gen.Config{Dir: dir, Patterns: []string{"./..."}})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestRunReportsWhatItDid(t *testing.T) {
	dir := module(t, map[string]string{
		"a/a.go": handler("a", "//stream:subscriber stream=s"),
		"b/b.go": handler("b", "//stream:subscriber stream=s"),
		"c/c.go": handler("c", ""),
	})
	files := []string{filepath.Join("a", "stream_gen.go"), filepath.Join("b", "stream_gen.go")}
	if r := run(t, dir); !slices.Equal(r.Written, files) || len(r.Removed)+len(r.Findings) > 0 {
		t.Errorf("first run: %+v", r)
	}

	// Up to date: not even the time of the last change moves.
	long := time.Now().Add(-time.Hour).Truncate(time.Second)
	for _, f := range files {
		if err := os.Chtimes(filepath.Join(dir, f), long, long); err != nil {
			t.Fatal(err)
		}
	}
	if r := run(t, dir); len(r.Written)+len(r.Removed)+len(r.Findings) > 0 {
		t.Errorf("second run: %+v", r)
	}
	for _, f := range files {
		if info, err := os.Stat(filepath.Join(dir, f)); err != nil || !info.ModTime().Equal(long) {
			t.Errorf("%s was touched: %v", f, err)
		}
	}

	// A finding in one package holds back the removal in the other.
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("a/a.go", handler("a", ""))
	write("b/b.go", handler("b", "//stream:subscriber stream=s x=y"))
	r := run(t, dir)
	if len(r.Written)+len(r.Removed) > 0 || len(r.Findings) != 1 || r.Findings[0].Pos.Filename != filepath.Join("b", "b.go") {
		t.Errorf("with a finding: %+v", r)
	}
	write("b/b.go", handler("b", "//stream:subscriber stream=t"))
	if r := run(t, dir); !slices.Equal(r.Removed, files[:1]) || !slices.Equal(r.Written, files[1:]) {
		t.Errorf("last run: %+v", r)
	}
}

func TestRunThatIsCanceledWritesNothing(t *testing.T) {
	dir := module(t, map[string]string{"a.go": handler("a", "//stream:subscriber stream=s")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := gen.Run(ctx, gen.Config{Dir: dir})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "stream_gen.go")); !os.IsNotExist(err) {
		t.Errorf("there is a file: %v", err)
	}
}

// TestLoadGivesTheModel is for what is generated from the model elsewhere.
func TestLoadGivesTheModel(t *testing.T) {
	dir := module(t, map[string]string{"a/a.go": `package a

import "context"

type Order struct{ ID int }

type Desk struct{}

// Refund pays back.
//
//stream:subscriber stream=refunds group=billing task=refund
func (d *Desk) Refund(context.Context, *Order) error { return nil }
`})
	result, err := gen.Load(t.Context(), gen.Config{Dir: dir, Patterns: []string{"./..."}})
	if err != nil || len(result.Findings) > 0 || len(result.Packages) != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	p := result.Packages[0]
	if p.Path != "example.com/m/a" || p.Name != "a" || p.Dir != filepath.Join(dir, "a") || p.Types.Scope().Lookup("Order") == nil || len(p.Files) != 1 {
		t.Errorf("package %+v", p)
	}
	s := p.Subscriptions[0]
	if s.Var != "DeskRefundSubscription" || s.Type != "Desk" || s.Func != "Refund" || s.Shape != model.Method || !s.ReturnsError {
		t.Errorf("subscription %+v", s)
	}
	if s.Payload.String() != "*example.com/m/a.Order" || s.Doc != "Refund pays back.\n" || s.Pos.Line != 12 || s.Pos.Column != 16 {
		t.Errorf("payload %s, doc %q, at %v", s.Payload, s.Doc, s.Pos)
	}
	if want := (directive.Subscriber{Stream: "refunds", Group: "billing", Task: "refund", Name: "a.Desk.Refund"}); s.Spec != want {
		t.Errorf("spec %+v", s.Spec)
	}
	if _, err := os.Stat(filepath.Join(dir, "a", "stream_gen.go")); !os.IsNotExist(err) {
		t.Errorf("Load wrote a file: %v", err)
	}
}
