package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// built is the program as its users have it.
func built(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "streamctl")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// execute runs the program with nothing but this environment.
func execute(t *testing.T, path string, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &errs, append(env, "HOME="+t.TempDir())
	return result{code: exitOf(t, cmd.Run()), out: out.String(), err: errs.String()}
}

func exitOf(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	t.Fatal(err)
	return 0
}

func TestTheProgram(t *testing.T) {
	path := built(t)
	server := redistest.Start(t)
	const secret = "s3cr3t"
	here, nowhere := "MILLRACE_REDIS_URL="+server.URL(), "MILLRACE_REDIS_URL=redis://user:"+secret+"@127.0.0.1:1/0"
	server.Client().XAdd(t.Context(), xadd("refunds.dlq", "_payload", "b", broker.FieldReason, "rejected"))
	for _, c := range []struct {
		name string
		env  []string
		args string
		code int
		says string
	}{
		{"help", nil, "--help", 0, "Exit codes"},
		{"help of a command", nil, "dlq replay --help", 0, "--dry-run"},
		{"nothing", nil, "", 0, "Available Commands"},
		{"a bad flag", nil, "dlq ls --nonsense", 2, "unknown flag: --nonsense"},
		{"a bad value", nil, "doctor --pending 5", 2, "missing unit"},
		{"no such command", nil, "dql", 2, "did you mean dlq?"},
		{"no such command below another", nil, "dlq sho", 2, "did you mean show?"},
		{"an argument too few", nil, "dlq show refunds.dlq", 2, "requires at least 2"},
		{"a server that cannot be reached", []string{nowhere}, "groups", 3, "127.0.0.1:1"},
		{"a URL that cannot be read", []string{"REDIS_URL=redis://user:" + secret + "/x@host"}, "groups", 2, "percent-encoded"},
		{"a URL as an argument", nil, "redis://user:" + secret + "@host", 2, "redis://***@host"},
		{"both topologies", nil, "groups --cluster --sentinel m", 2, "exclude each other"},
		{"a cluster that is none of the two", []string{"MILLRACE_REDIS_CLUSTER=perhaps"}, "groups", 2, "MILLRACE_REDIS_CLUSTER"},
		{"an empty filter beside another", []string{here}, "dlq purge refunds.dlq --reason rejected --source= --yes", 2, "--source is empty"},
		{"an empty target", []string{here}, "dlq replay refunds.dlq --all --to= --yes", 2, "--to is empty"},
		{"a reason that there is not", []string{here}, "dlq purge refunds.dlq --reason max_attempt --yes", 2, "give one of max_attempts"},
		{"a negative age", []string{here}, "dlq ls refunds.dlq --newer -5h", 2, "give more than 0"},
		{"an age of nothing, which would be no bound", []string{here}, "dlq purge refunds.dlq --reason rejected --newer 0s --yes", 2, "give more than 0"},
		{"a cursor that is none", []string{here}, "dlq replay refunds.dlq --all --resume x --yes", 2, "is no cursor"},
		{"an id that is none", []string{here}, "dlq show refunds.dlq x", 2, "is no id"},
		{"destroying without a terminal", []string{here}, "dlq purge refunds.dlq --all", 2, "pass --yes"},
		{"destroying with --yes", []string{here}, "dlq purge refunds.dlq --all --yes", 0, "1 record deleted"},
		{"the flag before the environment", []string{nowhere}, "dlq ls --redis " + server.URL(), 0, ""},
		{"publishing", []string{here}, "publish refunds.new {}", 0, "1 message published"},
		{"completion", nil, "completion bash", 0, "__start_streamctl"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := execute(t, path, c.env, strings.Fields(c.args)...)
			if r.code != c.code || !strings.Contains(r.out+r.err, c.says) {
				t.Errorf("exit code %d, want %d, saying %q:\n%s%s", r.code, c.code, c.says, r.out, r.err)
			}
			if strings.Contains(r.out+r.err, secret) {
				t.Errorf("it tells the password:\n%s%s", r.out, r.err)
			}
		})
	}
}

func TestTheProgramIsInterrupted(t *testing.T) {
	path, server := built(t), redistest.Start(t)
	for range 20 {
		server.Client().XAdd(t.Context(), xadd("dlq", "_payload", "b", broker.FieldReason, "rejected", broker.FieldSource, "source", broker.FieldGroup, "g"))
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, "dlq", "replay", "dlq", "--all", "--yes", "--rate", "5", "--redis", server.URL())
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for server.Client().XLen(t.Context(), "source").Val() == 0 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := exitOf(t, cmd.Wait()); code != exitInterrupted || !strings.Contains(errs.String(), "go on with --resume ") {
		t.Errorf("exit code %d\n%s%s", code, &out, &errs)
	}
	if n := server.Client().XLen(t.Context(), "source").Val() + server.Client().XLen(t.Context(), "dlq").Val(); n != 20 {
		t.Errorf("%d records are left", n)
	}
}

func TestTheProgramReachesEveryTopology(t *testing.T) {
	path := built(t)
	check := func(t *testing.T, env []string, args ...string) {
		t.Helper()
		for _, call := range [][]string{{"publish", "refunds", "b"}, {"publish", "other", "b"}, {"doctor"}, {"peek", "refunds"}} {
			if r := execute(t, path, env, append(call, args...)...); r.code != 0 {
				t.Errorf("%v: exit code %d\n%s%s", call, r.code, r.out, r.err)
			}
		}
	}
	t.Run("cluster", func(t *testing.T) {
		server := redistest.Cluster(t)
		check(t, nil, "--cluster", "--redis", server.URL())
		check(t, []string{"MILLRACE_REDIS_CLUSTER=true", "REDIS_URL=" + server.URL()})
	})
	t.Run("sentinel", func(t *testing.T) {
		watch := redistest.Sentinel(t)
		check(t, nil, "--sentinel", watch.Name, "--redis", watch.URL())
		check(t, []string{"MILLRACE_REDIS_SENTINEL=" + watch.Name, "MILLRACE_REDIS_URL=" + watch.URL()})
	})
}
