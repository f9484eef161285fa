package app_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/embedded"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// asProgram makes the test binary the program whose Main is tested; its value says what the handler does.
const asProgram = "MILLRACE_TEST_MAIN"

func program(kind string) {
	a := app.New("program", "1", app.Grace(30*time.Second))
	m := a.Broker(embedded.New())
	m.Mount(subscription(streamrt.Spec{Stream: "in"}, func(ctx context.Context, _ string) outcome.HandlerOutcome {
		fmt.Println("handling")
		switch kind {
		case "stubborn":
			time.Sleep(time.Minute)
		case "slow":
			<-ctx.Done()
			fmt.Println(context.Cause(ctx))
		}
		return outcome.Ack()
	}))
	a.AfterStartup(func(ctx context.Context) error {
		if kind == "broken" {
			return errors.New("no disk")
		}
		return m.Publish(ctx, broker.Stream("in"), []byte("x"))
	})
	a.Main()
}

func TestMainStopsOnSignals(t *testing.T) {
	for _, c := range []struct {
		kind    string
		signals []os.Signal
		code    int
		said    string
	}{
		{"quick", []os.Signal{syscall.SIGTERM}, 0, ""},
		{"quick", []os.Signal{os.Interrupt}, 0, ""},
		{"slow", []os.Signal{os.Interrupt, syscall.SIGTERM}, 0, app.ErrShutdown.Error()},
		{"stubborn", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, 1, "mount test.in"},
		{"broken", nil, 1, "no disk"},
	} {
		t.Run(fmt.Sprint(c.kind, c.signals), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), asProgram+"="+c.kind)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stderr = cmd.Stdout
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			began := time.Now()
			for lines := bufio.NewScanner(out); lines.Scan(); {
				line := lines.Text()
				said.WriteString(line + "\n")
				if line != "handling" {
					continue
				}
				for _, s := range c.signals {
					if err := cmd.Process.Signal(s); err != nil {
						t.Error(err)
					}
					time.Sleep(200 * time.Millisecond)
				}
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(said.String(), c.said) {
				t.Errorf("exit code %d, want %d; it said:\n%s", code, c.code, said.String())
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}
