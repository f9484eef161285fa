package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// event is one line of go test -json, as `go doc test2json` describes it.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build-output and build-fail
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

// test identifies a test; the empty name stands for the package itself.
type test struct{ pkg, name string }

// parent is the test that the subtest belongs to.
func (t test) parent() (test, bool) {
	i := strings.LastIndexByte(t.name, '/')
	if i < 0 {
		return test{}, false
	}
	return test{t.pkg, t.name[:i]}, true
}

// summary counts what is worth counting once: tests without subtests, and what failed without a failing subtest.
type summary struct {
	out    io.Writer
	output map[test][]string // of what has not passed
	ended  map[test]string   // how: pass, fail or skip
	inner  map[test]bool     // has subtests
	broken map[test]bool     // has a failed subtest, or, a package, a failed test
	builds map[string]string // output of builds by import path
	bad    []test            // what failed, in the order in which it ended
}

func newSummary(out io.Writer) *summary {
	return &summary{
		out: out, output: map[test][]string{}, ended: map[test]string{},
		inner: map[test]bool{}, broken: map[test]bool{}, builds: map[string]string{},
	}
}

func (s *summary) add(e event) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "run":
		if p, ok := t.parent(); ok {
			s.inner[p] = true
		}
	case "output":
		s.output[t] = append(s.output[t], e.Output)
	case "build-output":
		s.builds[e.ImportPath] += e.Output
	case "pass", "fail", "skip":
		s.end(t, e)
	}
}

func (s *summary) end(t test, e event) {
	s.ended[t] = e.Action
	if t.name == "" {
		s.endPackage(t, e)
		return
	}
	switch e.Action {
	case "pass":
		delete(s.output, t)
	case "fail":
		s.bad = append(s.bad, t)
		if p, ok := t.parent(); ok {
			s.broken[p] = true
		}
		s.broken[test{t.pkg, ""}] = true
	}
}

// endPackage prints the package's line. One that failed without a failing test (it did not build, its TestMain failed,
// the process died) counts as a failure of its own.
func (s *summary) endPackage(t test, e event) {
	switch e.Action {
	case "skip":
		// no test files: nothing to say
	case "pass":
		fmt.Fprintf(s.out, "ok    %s  %.1fs\n", t.pkg, e.Elapsed)
	case "fail":
		fmt.Fprintf(s.out, "FAIL  %s  %.1fs\n", t.pkg, e.Elapsed)
		if text := s.builds[e.FailedBuild]; text != "" {
			s.output[t] = append(s.output[t], text)
			delete(s.builds, e.FailedBuild)
		}
		if !s.broken[t] {
			s.bad = append(s.bad, t)
		}
	}
}

// finish prints everything that waits for the end. failed says that go test did not exit with 0.
func (s *summary) finish(failed bool) {
	passed, skipped := 0, 0
	reasons := map[string]int{}
	for t, how := range s.ended {
		if t.name == "" || s.inner[t] {
			continue
		}
		switch how {
		case "pass":
			passed++
		case "skip":
			skipped++
			reasons[reason(s.output[t])]++
		}
	}
	count := 0
	for _, t := range s.bad {
		if s.inner[t] && s.broken[t] {
			continue // its subtests are counted; its own words follow with them
		}
		count++
		s.printFailure(t)
	}
	if failed && count == 0 {
		// go test failed and no event says why: a pattern that matches nothing, a folder that does not parse.
		count++
		for path, text := range s.builds {
			fmt.Fprintf(s.out, "\n--- FAIL: %s\n%s", path, text)
		}
	}
	if skipped > 0 {
		fmt.Fprintln(s.out)
	}
	for _, text := range byCount(reasons) {
		fmt.Fprintf(s.out, "skipped %d: %s\n", reasons[text], text)
	}
	fmt.Fprintf(s.out, "\n%d passed, %d failed, %d skipped\n", passed, count, skipped)
}

// printFailure prints the output of a test, after that of the tests around it and, where the package died, of those that
// were running.
func (s *summary) printFailure(t test) {
	name := t.pkg
	if t.name != "" {
		name += " " + t.name
	}
	fmt.Fprintf(s.out, "\n--- FAIL: %s\n", name)
	var around []test
	for p, ok := t.parent(); ok; p, ok = p.parent() {
		around = append([]test{p}, around...)
	}
	if t.name == "" {
		around = append(around, s.unfinished(t.pkg)...)
	}
	for _, u := range append(around, t) {
		for _, line := range s.output[u] {
			if !isFrame(line) {
				fmt.Fprint(s.out, line)
			}
		}
	}
}

// unfinished lists the tests of a package that began and never ended.
func (s *summary) unfinished(pkg string) []test {
	var out []test
	for t := range s.output {
		if t.pkg == pkg && t.name != "" && s.ended[t] == "" {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b test) int { return cmp.Compare(a.name, b.name) })
	return out
}

// isFrame says that a line only tells that a test began or went on.
func isFrame(line string) bool {
	for _, prefix := range []string{"=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME ", "--- FAIL: "} {
		if strings.HasPrefix(strings.TrimLeft(line, " "), prefix) {
			return true
		}
	}
	return false
}

var position = regexp.MustCompile(`^\s*[^\s:]+\.go:\d+: `)

// reason is what a skipped test said last, without the position, on one line.
func reason(output []string) string {
	var words []string
	for _, line := range output {
		switch text := strings.TrimSpace(line); {
		case text == "", strings.HasPrefix(text, "=== "), strings.HasPrefix(text, "--- "):
		case position.MatchString(line):
			words = []string{strings.TrimSpace(position.ReplaceAllString(line, ""))}
		default:
			words = append(words, text)
		}
	}
	if len(words) == 0 {
		return "no reason given"
	}
	return strings.Join(words, " ")
}

// byCount sorts reasons, the most frequent first.
func byCount(reasons map[string]int) []string {
	var out []string
	for text := range reasons {
		out = append(out, text)
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	})
	return out
}
