package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const serviceSource = `package main

import (
	"context"
	"fmt"

	"github.com/millrace-go/millrace/outcome"
)

//go:generate go tool streamgen ./...

type refund struct{ ID int }

//stream:subscriber stream=refunds group=refunds claim=30s
func ProcessRefund(context.Context, refund) outcome.HandlerOutcome { return outcome.Ack() }

func main() {
	fmt.Printf("%+v\n", ProcessRefundSubscription.Spec())
}
`

// TestAModuleOutsideTheRepository does what the documentation tells a user to do, with nothing prepared but an empty
// module: the replacement, the tool line, tidy, generate, build, run.
func TestAModuleOutsideTheRepository(t *testing.T) {
	dir := t.TempDir()
	checkout := checkout(t)
	// The resolved modules are given, so that tidy finds everything in the module cache.
	sum, err := os.ReadFile(filepath.Join(checkout, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"main.go": serviceSource, "go.sum": string(sum)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("go", "mod", "init", "example.com/service")
	run("go", "mod", "edit",
		"-require", "github.com/millrace-go/millrace@v0.0.0",
		"-replace", "github.com/millrace-go/millrace="+checkout,
		"-tool", "github.com/millrace-go/millrace/cmd/streamgen")
	run("go", "mod", "tidy")
	run("go", "generate", "./...")
	run("go", "build", "-o", filepath.Join(dir, "service"), ".")
	got := run(filepath.Join(dir, "service"))
	want := "{Name:main.ProcessRefund Stream:refunds Group:refunds Claim:30s Start: DelaySet: DelayTTL:0s Block:0s Timeout:0s}\n"
	if got != want {
		t.Errorf("the service printed %q, want %q", got, want)
	}
}
