// Command testsummary runs go test with the arguments that it is given and says in the end what happened:
//
//	go run ./.ci/testsummary ./...
//
// It prints a line for each package as it finishes, the output of the tests that failed, each reason for which tests
// were skipped once, and last a line of the form "12 passed, 0 failed, 3 skipped". It exits with the code of go test,
// or with 2 where go test could not be run.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	os.Exit(run(os.Args[1:], "", os.Stdout, os.Stderr))
}

// run tests the packages that args name from the folder dir and returns the exit code.
func run(args []string, dir string, stdout, stderr io.Writer) int {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir = dir
	cmd.Stderr = stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(stderr, "testsummary:", err)
		return 2
	}
	s := newSummary(stdout)
	readErr := read(events, s)
	waitErr := cmd.Wait()
	code := 0
	var exit *exec.ExitError
	switch {
	case errors.As(waitErr, &exit):
		code = exit.ExitCode()
		if code < 1 { // ended by a signal
			code = 1
		}
	case waitErr != nil || readErr != nil:
		fmt.Fprintln(stderr, "testsummary:", errors.Join(waitErr, readErr))
		code = 2
	}
	s.finish(code != 0)
	return code
}

// read feeds the events to the summary. A line that is no event (the go command's own words) is passed on.
func read(from io.Reader, s *summary) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				s.add(e)
			} else {
				fmt.Fprintf(s.out, "%s", line)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
