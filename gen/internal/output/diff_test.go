package output_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-go/millrace/gen/internal/output"
)

func TestDiff(t *testing.T) {
	numbers := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintln(&b, i)
		}
		return b.String()
	}
	for _, c := range []struct{ name, before, after, want string }{
		{"equal", "a\n", "a\n", ""},
		{"created", "", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"emptied", "a\n", "", "@@ -1 +0,0 @@\n-a\n"},
		{"changed", "a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		{"no newline at the end", "a\nb", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"},
		{"three lines of context", numbers(1, 20), numbers(1, 9) + "x\n" + numbers(11, 20), "@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+x\n 11\n 12\n 13\n"},
		{"near together", numbers(1, 20), "0\n" + numbers(1, 6) + numbers(8, 20), "@@ -1,10 +1,10 @@\n+0\n 1\n 2\n 3\n 4\n 5\n 6\n-7\n 8\n 9\n 10\n"},
		{"far apart", numbers(1, 8), "0\n" + numbers(1, 7) + "8", "@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n@@ -5,4 +6,4 @@\n 5\n 6\n 7\n-8\n+8\n\\ No newline at end of file\n"},
	} {
		got := output.Diff(filepath.Join("a", "f.go"), []byte(c.before), []byte(c.after))
		if want := "--- a/f.go\n+++ a/f.go\n" + c.want; got != want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, want)
		}
	}
	for before, after := range map[string][2][]byte{
		"--- /dev/null\n+++ f\n@@ -0,0 +1 @@\n+a\n": {nil, []byte("a\n")},
		"--- f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n": {[]byte("a\n"), nil},
	} {
		if got := output.Diff("f", after[0], after[1]); got != before {
			t.Errorf(" got %s\nwant %s", got, before)
		}
	}
}

// TestDiffIsWhatGitApplies gives arbitrary diffs to somebody else's program.
func TestDiffIsWhatGitApplies(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git applies the diffs, and it is not installed")
	}
	dir := t.TempDir()
	text := rapid.Custom(func(t *rapid.T) string {
		s := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "\n"}), 0, 30).Draw(t, "lines"), "")
		if rapid.Bool().Draw(t, "cut") {
			s = strings.TrimSuffix(s, "\n")
		}
		return s
	})
	checks := 0
	rapid.Check(t, func(rt *rapid.T) {
		before, after := text.Draw(rt, "before"), text.Draw(rt, "after")
		if before == "" || after == "" || before == after || checks >= 40 {
			return // git has its own forms for empty files; and a process a check is slow
		}
		checks++
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(before), 0o666); err != nil {
			rt.Fatal(err)
		}
		cmd := exec.Command(git, "apply", "-p0", "-")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		cmd.Stdin = strings.NewReader(output.Diff("f", []byte(before), []byte(after)))
		if out, err := cmd.CombinedOutput(); err != nil {
			rt.Fatalf("git: %v\n%s", err, out)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(got) != after {
			rt.Fatalf("from %q git made %q, want %q, %v", before, got, after, err)
		}
	})
}
