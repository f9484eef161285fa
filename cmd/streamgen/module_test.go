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

// TestAModuleOutsideTheRepository does what the documentation tells a user to do, with nothing prepared but an empty
// module: the replacement, the tool line, tidy, generate, build, and a handler that runs.
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
	const want = "refund 7 attempt 1\n"
	if got != want {
		t.Errorf("the service printed %q, want %q", got, want)
	}
}
