package redistest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestSourcesAreTriedInOrder(t *testing.T) {
	yes, no := func() error { return nil }, func() error { return errors.New("connection refused") }
	here := func() (string, error) { return "/usr/bin/redis-server", nil }
	nowhere := func() (string, error) { return "", errors.New("no redis-server or valkey-server is on the PATH") }
	tests := []struct {
		name   string
		url    string
		docker func() error
		binary func() (string, error)
		all    string
		own    string
	}{
		{"the address wins", "redis://h:1", yes, here, "env", "redis-7.0 redis-8 valkey-9"},
		{"an address without anything to start", "redis://h:1", no, nowhere, "env", ""},
		{"Docker before a binary", "", yes, here, "redis-7.0 redis-8 valkey-9", "redis-7.0 redis-8 valkey-9"},
		{"a binary without Docker", "", no, here, "local", "local"},
		{"nothing", "", no, nowhere, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := sources{env: func() string { return tt.url }, docker: tt.docker, binary: tt.binary}
			for what, list := range map[string]func() ([]kind, error){tt.all: s.all, tt.own: s.startable} {
				ks, err := list()
				var names []string
				for _, k := range ks {
					names = append(names, k.name())
				}
				if got := strings.Join(names, " "); got != what {
					t.Errorf("got %q, want %q", got, what)
				}
				if (err != nil) != (what == "") {
					t.Errorf("%q: err = %v", what, err)
				}
				if err != nil && !errors.Is(err, errMissing) {
					t.Errorf("err does not wrap errMissing: %v", err)
				}
			}
		})
	}
}

func TestJudge(t *testing.T) {
	gone := missing("no Docker engine answers (%v)", "connection refused")
	broken := errors.New("redis-8: start redis:8: exit code 1")
	tests := []struct {
		name     string
		err      error
		required bool
		skip     bool
		says     []string
	}{
		{
			"a missing server skips and says how to get one", gone, false, true,
			[]string{"connection refused", "start Docker", "install redis-server", EnvURL + "="},
		},
		{
			"a missing server fails where servers are required", gone, true, false,
			[]string{EnvRequire + "=1", "start Docker"},
		},
		{
			"a wrapped reason is recognised", fmt.Errorf("lease: %w", gone), false, true, nil,
		},
		{
			"a broken server fails", broken, false, false, []string{"exit code 1"},
		},
		{
			"a broken server fails where servers are required", broken, true, false, []string{"exit code 1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := judge(tt.err, tt.required)
			if v.skip != tt.skip {
				t.Errorf("skip = %v, want %v (%s)", v.skip, tt.skip, v.text)
			}
			for _, s := range tt.says {
				if !strings.Contains(v.text, s) {
					t.Errorf("%q does not say %q", v.text, s)
				}
			}
			if strings.Contains(v.text, "\n") {
				t.Errorf("a reason is one line, so that a summary can name it: %q", v.text)
			}
		})
	}
}

func TestPreferredOrder(t *testing.T) {
	images := []kind{containerKind{label: "redis-7.0"}, containerKind{label: "redis-8"}, containerKind{label: "valkey-9"}}
	if got := inPreferredOrder(images)[0].name(); got != "redis-8" {
		t.Errorf("Start prefers %s", got)
	}
	if got := inPreferredOrder([]kind{binaryKind{}}); len(got) != 1 || got[0].name() != nameLocal {
		t.Errorf("a local binary became %v", got)
	}
}

func TestBinaryMustBeNewEnough(t *testing.T) {
	for line, ok := range map[string]bool{
		"Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64": true,
		"Valkey server v=9.1.2 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64": true,
		"Redis server v=10.0.0 sha=00000000:0":                               true,
		"Redis server v=6.0.16 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64": false,
		"something else": false,
	} {
		if err := newEnough(line); (err == nil) != ok {
			t.Errorf("newEnough(%q) = %v", line, err)
		}
	}
}

func TestVersionOf(t *testing.T) {
	redisInfo := "# Server\r\nredis_version:8.4.0\r\nprocess_id:1\r\n"
	valkeyInfo := "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.0.1\r\n"
	if got := versionOf(redisInfo); got != "8.4.0" {
		t.Errorf("Redis is %q", got)
	}
	if got := versionOf(valkeyInfo); got != "9.0.1" {
		t.Errorf("Valkey is %q", got)
	}
}
