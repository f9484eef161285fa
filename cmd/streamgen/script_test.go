package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite what the scripts compare with")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"streamgen": main, "jsonpart": jsonPart, "schemas": goSchemas})
}

// TestScripts runs the archives in gen/testdata/script. Each is a module of its own, which is called example.com/m where
// it brings no go.mod. It sees stand-ins for the packages of this module, which cost nothing to check; a script that
// compiles what it generates says "checkout" first.
func TestScripts(t *testing.T) {
	checkout := checkout(t)
	stub := filepath.Join(checkout, "gen", "testdata", "stub")
	env := goEnv(t)
	self, err := exec.LookPath("streamgen")
	if err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join(checkout, "gen", "testdata", "script"),
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, env...)
			e.Setenv("STREAMGEN", self)
			e.Setenv("EMPTY", empty)
			mod := filepath.Join(e.WorkDir, "go.mod")
			if _, err := os.Stat(mod); err == nil {
				return nil
			}
			return os.WriteFile(mod, []byte(goMod("example.com/m", stub)), 0o666)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"checkout": func(ts *testscript.TestScript, _ bool, _ []string) {
				sum, err := os.ReadFile(filepath.Join(checkout, "go.sum"))
				ts.Check(err)
				ts.Check(os.WriteFile(ts.MkAbs("go.sum"), sum, 0o666))
				ts.Check(os.WriteFile(ts.MkAbs("go.mod"), []byte(goMod("example.com/m", checkout)), 0o666))
				ts.Setenv("GOFLAGS", "-mod=mod")
			},
			"truncate": truncate,
			"crlf":     crlf,
			"old":      old,
			"isold":    isOld,
			"code":     code,
		},
	})
}

// truncate FILE cuts away the second half of the file.
func truncate(ts *testscript.TestScript, _ bool, args []string) {
	content := ts.ReadFile(args[0])
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(content[:len(content)/2]), 0o666))
}

// crlf FILE gives the file a byte order mark and the line ends of Windows.
func crlf(ts *testscript.TestScript, _ bool, args []string) {
	content := "\ufeff" + strings.ReplaceAll(ts.ReadFile(args[0]), "\n", "\r\n")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(content), 0o666))
}

// longAgo is what old sets and isold expects.
var longAgo = time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)

// old FILE... sets back the time of the last change.
func old(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		ts.Check(os.Chtimes(ts.MkAbs(name), longAgo, longAgo))
	}
}

// isold FILE... expects that nobody has touched the files since.
func isOld(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		info, err := os.Stat(ts.MkAbs(name))
		ts.Check(err)
		if !info.ModTime().Equal(longAgo) {
			ts.Fatalf("%s was touched at %s", name, info.ModTime())
		}
	}
}

// code N COMMAND... expects the exit code N.
func code(ts *testscript.TestScript, _ bool, args []string) {
	got := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

func goMod(module, millrace string) string {
	return "module " + module + "\n\ngo 1.26.0\n\n" +
		"require github.com/millrace-go/millrace v0.0.0\n\n" +
		"replace github.com/millrace-go/millrace => " + millrace + "\n"
}

// checkout returns the folder of this module.
func checkout(t *testing.T) string {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// goEnv is what a script needs to share this machine's caches and to leave the network alone.
func goEnv(t *testing.T) []string {
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOPATH").Output()
	if err != nil {
		t.Fatal(err)
	}
	dirs := strings.Split(strings.TrimSpace(string(out)), "\n")
	return []string{
		"GOCACHE=" + dirs[0], "GOMODCACHE=" + dirs[1], "GOPATH=" + dirs[2],
		"GOFLAGS=", "GOPROXY=off", "GONOSUMDB=*", "GOTOOLCHAIN=local", "GOWORK=",
	}
}
