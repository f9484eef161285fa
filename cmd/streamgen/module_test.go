package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const serviceSource = `package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/embedded"
	"github.com/millrace-go/millrace/outcome"
)

//go:generate go tool streamgen ./...

type refund struct{ ID int }

var done, stop = context.WithCancel(context.Background())

//stream:subscriber stream=refunds group=refunds claim=30s
func ProcessRefund(ctx context.Context, r refund) outcome.HandlerOutcome {
	fmt.Println("refund", r.ID, "attempt", app.MessageFrom(ctx).Attempt)
	stop()
	return outcome.Ack()
}

func main() {
	a := app.New("service", "0.1.0", app.Logger(slog.New(slog.DiscardHandler)))
	m := a.Broker(embedded.New())
	m.Mount(ProcessRefundSubscription, app.MaxAttempts(5))
	a.AfterStartup(func(ctx context.Context) error { return m.Publish(ctx, broker.Stream("refunds"), refund{7}) })
	if err := a.Run(done); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
`

// outside writes an empty module with one file, and returns what runs a command in it. The resolved modules are given,
// so that tidy finds everything in the module cache.
func outside(t *testing.T, source string, env ...string) (dir string, run func(args ...string) string) {
	t.Helper()
	dir = t.TempDir()
	sum, err := os.ReadFile(filepath.Join(checkout(t), "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"main.go": source, "go.sum": string(sum)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	run = func(args ...string) string {
		t.Helper()
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local")
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("go", "mod", "init", "example.com/service")
	run("go", "mod", "edit",
		"-require", "github.com/millrace-go/millrace@v0.0.0",
		"-replace", "github.com/millrace-go/millrace="+checkout(t))
	return dir, run
}

// TestAModuleOutsideTheRepository does what the documentation tells a user to do, with nothing prepared but an empty
// module: the replacement, the tool line, tidy, generate, build, and a handler that runs.
func TestAModuleOutsideTheRepository(t *testing.T) {
	dir, run := outside(t, serviceSource)
	run("go", "mod", "edit", "-tool", "github.com/millrace-go/millrace/cmd/streamgen")
	run("go", "mod", "tidy")
	run("go", "generate", "./...")
	run("go", "build", "-o", filepath.Join(dir, "service"), ".")
	got := run(filepath.Join(dir, "service"))
	const want = "refund 7 attempt 1\n"
	if got != want {
		t.Errorf("the service printed %q, want %q", got, want)
	}
}

// TestTheToolBringsFewModules compares the requirements of a module that uses the runtime with and without the tool
// line: whoever has the generator as a tool carries its modules in go.mod.
func TestTheToolBringsFewModules(t *testing.T) {
	const source = "package p\n\nimport streamrt \"github.com/millrace-go/millrace/runtime\"\n\nconst _ = streamrt.GeneratedV1\n"
	requirements := func(edit ...string) []string {
		dir, run := outside(t, source, "GOPROXY=off")
		run(append([]string{"go", "mod", "edit"}, edit...)...)
		// Tidy also looks for what the tests of dependencies need, which is in no go.mod and need not be in the cache: -e.
		run("go", "mod", "tidy", "-e")
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		var modules []string
		for line := range strings.Lines(string(content)) {
			if module, _, ok := strings.Cut(strings.TrimSpace(line), " v"); ok && strings.Contains(line, "// indirect") {
				modules = append(modules, module)
			}
		}
		return modules
	}
	without := requirements("-go=1.26.0")
	added := slices.DeleteFunc(requirements("-go=1.26.0", "-tool", "github.com/millrace-go/millrace/cmd/streamgen"), func(module string) bool {
		return slices.Contains(without, module)
	})
	want := []string{"github.com/dave/jennifer", "golang.org/x/mod", "golang.org/x/sync", "golang.org/x/tools"}
	if !slices.Equal(added, want) {
		t.Errorf("the tool brings %v, want %v", added, want)
	}
}
