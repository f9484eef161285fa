package brokertest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/millrace-go/millrace/broker/redistest"
)

// One suite for every server, and for the paused clock what can be shown there.
func TestConformance(t *testing.T) {
	t.Run("paused", func(t *testing.T) { Run(t, pausedTarget()) })
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		Run(t, embeddedTarget(t))
	})
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		Run(t, targetOf(s))
	})
}

// The source of an area: a function of any body, the one line that such a function is, and the area behind it.
var (
	takesTarget = regexp.MustCompile(`(?m)^func ([A-Z]\w*)\(\w+ \*testing\.T, \w+ Target\)`)
	runsArea    = regexp.MustCompile(`(?m)^func ([A-Z]\w*)\(t \*testing\.T, target Target\) \{ (\w+)\.run\(t, target\) \}$`)
	namesArea   = regexp.MustCompile(`(?m)^var (\w+) = area\{name: "(\w+)"`)
)

// Whatever can be run alone Run runs, too: each function of an area runs the area of its own name, which stands in the
// table.
func TestEveryAreaIsRun(t *testing.T) {
	inTable := map[string]bool{}
	for _, a := range areas {
		if inTable[a.name] {
			t.Errorf("%s stands twice in the table areas", a.name)
		}
		inTable[a.name] = true
	}
	exported, runs, names := map[string]bool{}, map[string]string{}, map[string]string{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range takesTarget.FindAllStringSubmatch(string(source), -1) {
			exported[found[1]] = found[1] != "Run"
		}
		for _, found := range runsArea.FindAllStringSubmatch(string(source), -1) {
			runs[found[1]] = found[2]
		}
		for _, found := range namesArea.FindAllStringSubmatch(string(source), -1) {
			names[found[1]] = found[2]
		}
	}
	for name, isArea := range exported {
		if !isArea {
			continue
		}
		if !inTable[name] {
			t.Errorf("%s is missing in the table areas in suite.go: Run does not run it", name)
		}
		if names[runs[name]] != name {
			t.Errorf("%s does not run the area of its name: write both as attempts.go does", name)
		}
	}
	for name := range inTable {
		if !exported[name] {
			t.Errorf("the area %s cannot be run alone: it has no func %s(t *testing.T, target Target)", name, name)
		}
	}
}

// Each body has a name of its own, and a skip can say what for it needs what it needs.
func TestEveryBodyIsNamed(t *testing.T) {
	for _, a := range areas {
		names := map[string]bool{}
		for _, b := range a.bodies {
			if b.name == "" || b.run == nil || names[b.name] {
				t.Errorf("%s: a body has no name, no function or the name of another: %q", a.name, b.name)
			}
			names[b.name] = true
			for _, f := range b.needs {
				if uses[f] == "" {
					t.Errorf("%s/%s needs %s: the map uses does not say what for", a.name, b.name, f)
				}
			}
		}
		if len(a.bodies) == 0 {
			t.Errorf("the area %s has no body", a.name)
		}
	}
}

// What a target is excused from it really cannot do, and a server of the matrix is excused from nothing.
func TestTargetsLackWhatTheySay(t *testing.T) {
	probes := map[Feature][]any{
		ClientKill:   {"CLIENT", "LIST"},
		ConfigSet:    {"CONFIG", "SET", "slowlog-max-len", "128"},
		CommandStats: {"INFO", "commandstats"},
		Receivers:    {"PUBLISH", "brokertest.nobody", ""},
		SlowLog:      {"SLOWLOG", "LEN"},
	}
	for f := range uses {
		if probes[f] == nil {
			t.Errorf("nothing here tries %s", f)
		}
	}
	try := func(t *testing.T, target Target) {
		for f, command := range probes {
			err := target.Client.Do(t.Context(), command...).Err()
			if lacks := slices.Contains(target.Lacks, f); lacks != (err != nil) {
				t.Errorf("%s lacks %s: %v, and it answers %v", target.Name, f, lacks, err)
			}
		}
	}
	t.Run("embedded", func(t *testing.T) { try(t, embeddedTarget(t)) })
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		target := targetOf(s)
		if len(target.Lacks) > 0 || target.Own == nil {
			t.Errorf("%s lacks %v", target.Name, target.Lacks)
		}
		try(t, target)
	})
}

func TestTheMatrixIsWhole(t *testing.T) {
	names := map[string]bool{}
	for _, s := range scenarios() {
		names[s.name()] = true
	}
	if len(names) != casesPerServer {
		t.Errorf("%d different cases, want %d", len(names), casesPerServer)
	}
	left := 0
	for _, s := range senseless {
		if s.reason == "" {
			t.Errorf("claims %v, kept %q: left out without a reason", s.claims, s.kept)
		}
		left += len(allCaps)
	}
	if whole := 2 * len(endings) * len(allCaps); whole != casesPerServer+left {
		t.Errorf("%d cases and %d left out, want %d together", casesPerServer, left, whole)
	}
}
