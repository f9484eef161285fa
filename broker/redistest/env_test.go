package redistest

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"
)

// asEnv connects to a server of redistest's own the way MILLRACE_REDIS_URL would.
func asEnv(t *testing.T, address string) *instance {
	t.Helper()
	in, err := launch(envKind{address}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// serverRoot is the address of a server without a database. The marks in its database 0 must be this test's alone, so a
// server that other processes use will not do.
func serverRoot(t *testing.T) string {
	t.Helper()
	s := Start(t)
	if s.Name() == nameEnv {
		s = Own(t)
	}
	return s.in.base.String()
}

func TestEnvironmentServerIsSharedBetweenProcesses(t *testing.T) {
	root := serverRoot(t)
	// Two instances are what two test processes have.
	one, two := asEnv(t, root), asEnv(t, root)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	taken := map[int]bool{}
	var held []func()
	for i := range databaseCount - 1 {
		in := one
		if i%2 == 1 {
			in = two
		}
		db, err := in.dbs.take(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if db == 0 || taken[db] {
			t.Fatalf("lease %d got database %d; taken are %v", i, db, taken)
		}
		taken[db] = true
		held = append(held, func() { in.dbs.put(db) })
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if db, err := one.dbs.take(short); err == nil {
		t.Errorf("a sixteenth lease got database %d", db)
	}
	for _, put := range held {
		put()
	}
	db, err := two.dbs.take(ctx)
	if err != nil {
		t.Fatal(err)
	}
	two.dbs.put(db)
	if keys := one.client(0).Keys(ctx, "*").Val(); len(keys) != 0 {
		t.Errorf("left in database 0: %v", keys)
	}
}

func TestEnvironmentURLThatNamesADatabaseLimitsToIt(t *testing.T) {
	root := serverRoot(t)
	in := asEnv(t, root+"/7")
	db, err := in.dbs.take(t.Context())
	if err != nil || db != 7 {
		t.Fatalf("take = %d, %v", db, err)
	}
	in.dbs.put(db)
	if in := asEnv(t, root+"/0"); len(in.dbs.among) != databaseCount-1 {
		t.Errorf("database 0 in the address leaves %v", in.dbs.among)
	}
}

func TestEnvironmentURLThatIsWrongFailsAndKeepsThePassword(t *testing.T) {
	for _, address := range []string{"http://u:geheim@h", "redis://u:geheim@h:notaport", "redis://u:geheim@%zz", "redis://u:geheim/x@h", "redis://u:geheim?x@h"} {
		_, err := launch(envKind{address}, nil, false)
		if err == nil {
			t.Errorf("%s was accepted", address)
			continue
		}
		if judge(err, false).skip {
			t.Errorf("%s would skip: an address that somebody gave must work", address)
		}
		if !strings.Contains(err.Error(), EnvURL) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("error is %q", err)
		}
	}
}

func TestURLOfADatabase(t *testing.T) {
	for base, want := range map[string]string{
		"redis://h:6379":                 "redis://h:6379/3",
		"redis://h:6379/0":               "redis://h:6379/3",
		"rediss://u:p@h:6379?protocol=2": "rediss://u:p@h:6379/3?protocol=2",
		"unix:///run/redis.sock":         "unix:///run/redis.sock?db=3",
	} {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&instance{base: u}).url(3); got != want {
			t.Errorf("%s gives %s, want %s", base, got, want)
		}
	}
}
