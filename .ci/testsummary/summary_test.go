package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a module with one folder a package and returns its folder. The key is the folder and file, the value the
// content.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.test/m\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// summarize runs the program in dir and returns what it printed, its last line and its exit code.
func summarize(t *testing.T, dir string, args ...string) (out, last string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(args, dir, &stdout, &stderr)
	out = stdout.String()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	t.Logf("exit code %d\n%s%s", code, out, stderr.String())
	return out, lines[len(lines)-1], code
}

const mixed = `package a

import "testing"

func TestPass(t *testing.T) {}

func TestTable(t *testing.T) {
	t.Log("around the table")
	t.Run("good", func(t *testing.T) {})
	t.Run("bad", func(t *testing.T) { t.Error("seven is not eight") })
	t.Run("absent", func(t *testing.T) { t.Skip("no server: install one") })
}

func TestAbsent(t *testing.T) { t.Log("looking"); t.Skip("no server: install one") }

func TestOther(t *testing.T) { t.SkipNow() }
`

func TestSummaryCountsLeavesAndNamesEachReasonOnce(t *testing.T) {
	t.Parallel()
	dir := module(t, map[string]string{
		"a/a_test.go": mixed,
		"b/b_test.go": "package b\n\nimport \"testing\"\n\nfunc TestFine(t *testing.T) { t.Log(\"silent\") }\n",
		"c/c.go":      "package c\n",
	})
	out, last, code := summarize(t, dir, "./...")
	if want := "3 passed, 1 failed, 3 skipped"; last != want {
		t.Errorf("last line %q, want %q", last, want)
	}
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	for _, want := range []string{
		"--- FAIL: example.test/m/a TestTable/bad\n", "seven is not eight", "around the table",
		"skipped 2: no server: install one\n", "skipped 1: no reason given\n", "ok    example.test/m/b",
	} {
		if strings.Count(out, want) != 1 {
			t.Errorf("%q stands %d times in the output", want, strings.Count(out, want))
		}
	}
	if strings.Contains(out, "silent") {
		t.Error("the output of a test that passed is shown")
	}
}

func TestSummaryOfSuccess(t *testing.T) {
	t.Parallel()
	dir := module(t, map[string]string{
		"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestFine(t *testing.T) {}\n",
	})
	if _, last, code := summarize(t, dir, "./..."); last != "1 passed, 0 failed, 0 skipped" || code != 0 {
		t.Errorf("%q, exit code %d", last, code)
	}
}

func TestSummaryCountsWhatFailsWithoutATest(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, says string }{
		"a build":    {"package a\n\nfunc TestX(t *testing.T) {}\n", "undefined: testing"},
		"a panic":    {"package a\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { panic(\"ouch\") }\n", "panic: ouch"},
		"a TestMain": {"package a\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) { println(\"no luck\"); os.Exit(3) }\n", "no luck"},
		"an exit":    {"package a\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestX(t *testing.T) { println(\"gone\"); os.Exit(0) }\n", "gone"},
		"a syntax":   {"package a\n\nfunc {\n", "expected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, last, code := summarize(t, module(t, map[string]string{"a/a_test.go": tt.file}), "./...")
			if last != "0 passed, 1 failed, 0 skipped" || code == 0 {
				t.Errorf("%q, exit code %d", last, code)
			}
			if !strings.Contains(out, tt.says) {
				t.Errorf("the output does not say %q", tt.says)
			}
		})
	}
}

func TestReason(t *testing.T) {
	got := reason([]string{
		"=== RUN   TestX\n", "    x_test.go:3: first\n", "    dir_test.go:12: no server:\n", "        install one\n",
		"--- SKIP: TestX (0.00s)\n",
	})
	if want := "no server: install one"; got != want {
		t.Errorf("reason is %q, want %q", got, want)
	}
}
