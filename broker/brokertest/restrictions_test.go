package brokertest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// basics are the areas that a service meets every day.
func basics(t *testing.T, target Target) {
	t.Helper()
	for _, a := range []area{outcomesArea, attemptsArea, lossesArea, handoverArea, recoveryArea} {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			a.run(t, target)
		})
	}
}

// A server that forgets its scripts again and again, as one that was restarted or promoted does, is given them anew:
// nobody notices.
func TestForgottenScriptsChangeNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it repeats bodies that have just passed")
	}
	redistest.Each(t, func(t *testing.T, shared *redistest.Server) {
		t.Parallel()
		server := shared.Own(t) // the scripts are the whole server's
		t.Cleanup(func() {
			// Otherwise nothing was forgotten when it was needed.
			if missed := errorCount(t, server.Client(), "NOSCRIPT"); missed < 10 {
				t.Errorf("the server missed a script %d times", missed)
			}
		})
		forgetScripts(t, server.Client())
		target := targetOf(server)
		target.Own = nil
		basics(t, target)
	})
}

// forgetScripts has the server forget its scripts all the time, until the test and its subtests have ended.
func forgetScripts(t testing.TB, client redis.UniversalClient) {
	t.Helper()
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-stop:
				stopped <- nil
				return
			}
			if err := client.ScriptFlush(context.Background()).Err(); err != nil {
				stopped <- err
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		if err := <-stopped; err != nil {
			t.Errorf("SCRIPT FLUSH: %v", err)
		}
	})
}

// errorCount is how often the server has answered with an error of the kind.
func errorCount(t testing.TB, client redis.UniversalClient, kind string) (n int) {
	t.Helper()
	text, err := client.Info(context.Background(), "errorstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if count, found := strings.CutPrefix(line, "errorstat_"+kind+":count="); found {
			if _, err := fmt.Sscan(count, &n); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
	}
	return n
}

// A user that may do what docs/reliability.md lists, and nothing else, is enough: the suite holds, and the server refuses
// nothing that matters.
func TestTheListedPermissionsAreEnough(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it repeats bodies that have just passed")
	}
	redistest.Each(t, func(t *testing.T, shared *redistest.Server) {
		t.Parallel()
		server := shared.Own(t) // users are the whole server's
		if err := server.Client().ACLSetUser(t.Context(), "worker", listedPermissions(t)...).Err(); err != nil {
			t.Fatal(err)
		}
		address, err := url.Parse(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		address.User = url.UserPassword("worker", "secret")
		t.Cleanup(func() {
			log, err := server.Client().ACLLog(context.Background(), 100).Result()
			if err != nil {
				t.Errorf("ACL LOG: %v", err)
			}
			for _, refused := range log {
				// The client says its name where it may, and goes on where it may not.
				if refused.Object != "client|setinfo" {
					t.Errorf("the server refused the %s %q, %d times", refused.Reason, refused.Object, refused.Count)
				}
			}
		})
		basics(t, Target{
			Name:   server.Name(),
			Broker: func(o ...redisbroker.Option) broker.Broker { return redisbroker.Standalone(address.String(), o...) },
			Client: server.Client(),
		})
	})
}

// listedPermissions are the rules of the guide for the keys of the suite in place of the guide's.
func listedPermissions(t testing.TB) []string {
	t.Helper()
	guide, err := os.ReadFile("../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(guide), "```text\n")
	block, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatal("docs/reliability.md has no block with the permissions")
	}
	rules := []string{"reset", "on", ">secret"}
	keys := map[string]string{"~s": "~brokertest.*", "~{s}:*": "~{brokertest.*}:*", "~z": "", "~dlq": ""}
	for rule := range strings.FieldsSeq(block) {
		ours, isKey := keys[rule]
		switch {
		case isKey && ours != "":
			rules = append(rules, ours)
		case !isKey && strings.HasPrefix(rule, "+"):
			rules = append(rules, rule)
		case !isKey:
			t.Fatalf("docs/reliability.md: what %q is for is not known here", rule)
		}
	}
	return rules
}
