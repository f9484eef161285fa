package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestVet runs the command as a user does, in a module outside the repository.
func TestVet(t *testing.T) {
	checkout, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	// The go command keeps what a tool has found by the tool's content, which has nothing to do with the commit here.
	goCommand(t, "build", "-buildvcs=false", "-o", bin+string(filepath.Separator), checkout+"/cmd/streamgen", checkout+"/cmd/streamvet")
	dirs := strings.Fields(goCommand(t, "env", "GOCACHE", "GOMODCACHE", "GOPATH"))
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars,
				"GOCACHE="+dirs[0], "GOMODCACHE="+dirs[1], "GOPATH="+dirs[2],
				"GOFLAGS=-mod=mod", "GOPROXY=off", "GONOSUMDB=*", "GOTOOLCHAIN=local", "GOWORK=off",
				"STREAMVET="+filepath.Join(bin, "streamvet"),
				"PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"),
			)
			mod := "module example.com/m\n\ngo 1.26.0\n\nrequire github.com/millrace-go/millrace v0.0.0\n\n" +
				"replace github.com/millrace-go/millrace => " + checkout + "\n"
			sum, err := os.ReadFile(filepath.Join(checkout, "go.sum"))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(e.WorkDir, "go.sum"), sum, 0o666); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(e.WorkDir, "go.mod"), []byte(mod), 0o666)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"truncate": truncate, "replace": replace},
	})
}

func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

// truncate FILE cuts away the second half of the file.
func truncate(ts *testscript.TestScript, _ bool, args []string) {
	content := ts.ReadFile(args[0])
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(content[:len(content)/2]), 0o666))
}

// replace FILE OLD NEW changes every OLD in the file.
func replace(ts *testscript.TestScript, _ bool, args []string) {
	content := ts.ReadFile(args[0])
	if !strings.Contains(content, args[1]) {
		ts.Fatalf("%s has no %s", args[0], args[1])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(content, args[1], args[2])), 0o666))
}
