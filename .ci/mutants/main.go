// Command mutants checks that the tests notice when a promise is broken. Each testdata/mutants/*.patch breaks one, and
// says in lines before the diff which tests have to turn red:
//
//	Breaks: what no longer holds
//	Test: ./broker/redisbroker TestACopyReplacesTheEntryInOneFencedStep/embedded
//
// Each patch is applied alone to a copy of the tree. The command fails for a patch that does not apply any more, for a
// mutant that does not build, and for one whose test stays green.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run() error {
	patches, err := filepath.Glob("testdata/mutants/*.patch")
	if err != nil {
		return err
	}
	if len(patches) == 0 {
		return errors.New("no testdata/mutants/*.patch here: run it at the top of the repository")
	}
	tree, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree) //nolint:errcheck // a temporary folder
	if err := copyTree(tree); err != nil {
		return err
	}
	var failed []string
	for _, path := range patches {
		start := time.Now()
		err := try(tree, path)
		verdict := "killed"
		if err != nil {
			verdict = err.Error()
			failed = append(failed, filepath.Base(path))
		}
		fmt.Printf("%-44s %5.1fs  %s\n", strings.TrimSuffix(filepath.Base(path), ".patch"), time.Since(start).Seconds(), verdict)
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d: %s", len(failed), len(patches), strings.Join(failed, ", "))
	}
	fmt.Printf("all %d mutants were killed\n", len(patches))
	return nil
}

// copyTree copies what git knows and what it does not ignore, as it stands in the folder.
func copyTree(to string) error {
	list, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		content, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted and not committed
		}
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(target, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// try applies one patch, runs its tests and takes the patch back.
func try(tree, path string) error {
	patch, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	tests := testsOf(string(patch))
	if len(tests) == 0 {
		return errors.New("names no test: write a line \"Test: ./package TestName\" before the diff")
	}
	if out, err := git(tree, patch, "apply", "--whitespace=nowarn", "-"); err != nil {
		return fmt.Errorf("does not apply any more: %s", out)
	}
	defer git(tree, patch, "apply", "--whitespace=nowarn", "--reverse", "-") //nolint:errcheck // it has just been applied
	for _, test := range tests {
		if err := mustFail(tree, test); err != nil {
			return err
		}
	}
	return nil
}

func git(tree string, input []byte, args ...string) (string, error) {
	command := exec.Command("git", args...) //nolint:gosec // the arguments are ours
	command.Dir = tree
	command.Stdin = bytes.NewReader(input)
	out, err := command.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// test is one test that a mutant has to turn red.
type test struct{ packagePath, name string }

func testsOf(patch string) []test {
	var tests []test
	for line := range strings.Lines(patch) {
		if strings.HasPrefix(line, "diff ") || strings.HasPrefix(line, "--- ") {
			break
		}
		if rest, ok := strings.CutPrefix(line, "Test:"); ok {
			if fields := strings.Fields(rest); len(fields) == 2 {
				tests = append(tests, test{fields[0], fields[1]})
			}
		}
	}
	return tests
}

// mustFail runs the test. A package that does not build and a name that matches nothing prove nothing.
func mustFail(tree string, t test) error {
	pattern := "^" + strings.ReplaceAll(t.name, "/", "$/^") + "$"
	command := exec.Command("go", "test", "-count=1", "-timeout=120s", "-run", pattern, t.packagePath) //nolint:gosec // from a patch of the repository
	command.Dir = tree
	out, err := command.CombinedOutput()
	text := string(out)
	switch {
	case strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]"):
		return fmt.Errorf("does not build: %s", text)
	case strings.Contains(text, "no tests to run"):
		return fmt.Errorf("%s matches no test", t.name)
	case err == nil:
		return fmt.Errorf("survives %s %s", t.packagePath, t.name)
	}
	return nil
}
