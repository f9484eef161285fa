package docs_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the Go blocks of the guides from the files that they are cut from")

// TestBlocks holds every Go block of the guides to a compiled file. In the guide a line
//
//	<!-- cut: path/to/file.go#marker -->
//
// stands right before the block; in the file "// cut:marker" and "// cut:end" stand around the code. Generated files hold
// no markers: there the marker var:Name cuts one variable with its comment. Run
//
//	go test ./docs -run TestBlocks -update
//
// to write the code into the guides.
func TestBlocks(t *testing.T) {
	guides, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, guide := range append(guides, filepath.Join("..", "README.md")) {
		t.Run(filepath.Base(guide), func(t *testing.T) {
			raw, err := os.ReadFile(guide)
			if err != nil {
				t.Fatal(err)
			}
			text := string(raw)
			fresh, errs := fill(text, func(path, marker string) (string, error) {
				source, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(path)))
				if err != nil {
					return "", err
				}
				return cut(string(source), marker)
			})
			for _, err := range errs {
				t.Error(err)
			}
			if fresh == text {
				return
			}
			if !*update {
				t.Errorf("%s differs from the files that it is cut from, first here:\n%s\n"+
					"run go test ./docs -run TestBlocks -update", guide, firstDifference(text, fresh))
				return
			}
			if err := os.WriteFile(guide, []byte(fresh), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

var cutLine = regexp.MustCompile(`^<!-- cut: (\S+\.go)#(\S+) -->$`)

// fill returns the guide with each Go block replaced by its cut, and one error for each block that has none.
func fill(guide string, lookUp func(path, marker string) (string, error)) (string, []error) {
	var out []string
	var errs []error
	lines := strings.Split(guide, "\n")
	for i := 0; i < len(lines); i++ {
		out = append(out, lines[i])
		fence, info := fenceOf(lines[i])
		if fence == "" {
			continue
		}
		end := i + 1
		for end < len(lines) && strings.TrimRight(lines[end], " ") != fence {
			end++
		}
		body := lines[i+1 : end]
		if word, _, _ := strings.Cut(info, " "); word == "go" {
			var m []string
			if i > 0 {
				m = cutLine.FindStringSubmatch(lines[i-1])
			}
			if m == nil {
				errs = append(errs, fmt.Errorf("line %d: a Go block that is cut from nowhere: put <!-- cut: file.go#marker --> "+
					"on the line before it", i+1))
			} else if code, err := lookUp(m[1], m[2]); err != nil {
				errs = append(errs, fmt.Errorf("line %d: %w", i, err))
			} else {
				body = strings.Split(code, "\n")
			}
		}
		out = append(out, body...)
		if end < len(lines) {
			out = append(out, lines[end])
		} else {
			errs = append(errs, fmt.Errorf("line %d: the block does not end", i+1))
		}
		i = end
	}
	return strings.Join(out, "\n"), errs
}

// fenceOf splits a line that opens a block into its fence and what stands behind it.
func fenceOf(line string) (fence, info string) {
	info = strings.TrimLeft(line, "`")
	fence = line[:len(line)-len(info)]
	if len(fence) < 3 {
		return "", ""
	}
	return fence, strings.TrimSpace(info)
}

// cut returns the code between the lines "// cut:marker" and "// cut:end", without blank lines around it and without the
// indentation that all of it shares.
func cut(source, marker string) (string, error) {
	var found [][]string
	lines := strings.Split(source, "\n")
	if name, ok := strings.CutPrefix(marker, "var:"); ok {
		return cutVar(lines, name)
	}
	for i, line := range lines {
		if strings.TrimSpace(line) != "// cut:"+marker {
			continue
		}
		rest := lines[i+1:]
		end := -1
		for j, line := range rest {
			if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "// cut:") {
				if trimmed == "// cut:end" {
					end = j
				}
				break
			}
		}
		if end < 0 {
			return "", fmt.Errorf("the cut %q has no // cut:end before the next cut", marker)
		}
		found = append(found, rest[:end])
	}
	if len(found) != 1 {
		return "", fmt.Errorf("the cut %q stands %d times in the file, want once", marker, len(found))
	}
	return dedent(found[0]), nil
}

// cutVar returns the declaration of a variable of a formatted file, which ends with the next line that is not indented,
// and the comment above it.
func cutVar(lines []string, name string) (string, error) {
	for i, line := range lines {
		if !strings.HasPrefix(line, "var "+name+" = ") {
			continue
		}
		first, last := i, i+1
		for first > 0 && strings.HasPrefix(lines[first-1], "//") {
			first--
		}
		for last < len(lines) && strings.HasPrefix(lines[last], "\t") {
			last++
		}
		return strings.Join(lines[first:min(last+1, len(lines))], "\n"), nil
	}
	return "", fmt.Errorf("the file has no variable %s", name)
}

func dedent(lines []string) string {
	text := strings.Trim(strings.Join(lines, "\n"), "\n")
	lines = strings.Split(text, "\n")
	tabs := -1
	for _, line := range lines {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if n := len(line) - len(strings.TrimLeft(line, "\t")); tabs < 0 || n < tabs {
			tabs = n
		}
	}
	for i, line := range lines {
		lines[i] = strings.TrimRight(line[min(max(tabs, 0), len(line)):], " \t")
	}
	return strings.Join(lines, "\n")
}

// firstDifference shows the first line in which two texts differ.
func firstDifference(have, want string) string {
	h, w := strings.Split(have, "\n"), strings.Split(want, "\n")
	for i := range max(len(h), len(w)) {
		line := func(lines []string) string {
			if i < len(lines) {
				return lines[i]
			}
			return "(the end)"
		}
		if line(h) != line(w) {
			return fmt.Sprintf("line %d\n  is      %s\n  should  %s", i+1, line(h), line(w))
		}
	}
	return ""
}

func TestCut(t *testing.T) {
	const source = "package p\n\n// cut:outer\n\nfunc f() {\n\t// cut:inner\n\tif true {\n\n\t\tg()\n\t}\n\t// cut:end\n}\n" +
		"\n// v is new.\nvar v = n(\n\t1,\n)\n" +
		"\n// cut:open\n\n// cut:twice\nx\n// cut:end\n// cut:twice\ny\n// cut:end\n// cut:top\n\n//stream:subscriber a=b\nfunc h() {}\n\n// cut:end\n"
	for _, tt := range []struct{ marker, want, err string }{
		{"inner", "if true {\n\n\tg()\n}", ""},
		{"top", "//stream:subscriber a=b\nfunc h() {}", ""},
		{"outer", "", "no // cut:end before the next cut"},
		{"open", "", "no // cut:end"},
		{"twice", "", "stands 2 times"},
		{"absent", "", "stands 0 times"},
		{"var:v", "// v is new.\nvar v = n(\n\t1,\n)", ""},
		{"var:w", "", "no variable w"},
	} {
		got, err := cut(source, tt.marker)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("cut %s = %q, %v", tt.marker, got, err)
		}
	}
}

func TestFill(t *testing.T) {
	lookUp := func(path, marker string) (string, error) {
		if path != "a/b.go" || marker != "m" {
			return "", fmt.Errorf("asked for %s#%s", path, marker)
		}
		return "new()\nand()", nil
	}
	const marked = "# T\n\n<!-- cut: a/b.go#m -->\n```go\nold()\n```\n\n```sh\ngo run .\n```\nend\n"
	got, errs := fill(marked, lookUp)
	if want := strings.Replace(marked, "old()", "new()\nand()", 1); got != want || len(errs) > 0 {
		t.Errorf("got %q, %v", got, errs)
	}
	if again, _ := fill(got, lookUp); again != got {
		t.Errorf("a second run changes it: %q", again)
	}
	for guide, want := range map[string]string{
		"text\n```go\nx()\n```\n":                        "line 2: a Go block that is cut from nowhere",
		"<!-- cut: a/b.go#m -->\n\n```go\nx()\n```\n":    "cut from nowhere",
		"<!-- cut: a/b.go#n -->\n```go\nx()\n```\n":      "line 1: asked for a/b.go#n",
		"<!-- cut: a/b.go#m -->\n```go\nx()\n":           "does not end",
		"```go ignore\nx()\n```\n":                       "cut from nowhere",
		"````md\n```go\nx()\n```\n````\n\n```go\ny\n```": "line 7: a Go block",
	} {
		got, errs := fill(guide, lookUp)
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%q: %v, want %q", guide, errs, want)
		}
		if !strings.Contains(guide, "does not end") && strings.Count(got, "```") != strings.Count(guide, "```") {
			t.Errorf("%q lost a fence: %q", guide, got)
		}
	}
}
