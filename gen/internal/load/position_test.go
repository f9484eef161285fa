package load

import (
	"go/token"
	"testing"
)

// TestPosition reads what go/packages hands on as text, Windows paths with their colon included.
func TestPosition(t *testing.T) {
	for text, want := range map[string]token.Position{
		"a.go:3:12":         {Filename: "a.go", Line: 3, Column: 12},
		"a.go:3":            {Filename: "a.go", Line: 3},
		"a.go":              {Filename: "a.go"},
		`C:\src\a.go:3:12`:  {Filename: `C:\src\a.go`, Line: 3, Column: 12},
		`C:\src\a.go:3`:     {Filename: `C:\src\a.go`, Line: 3},
		`C:\src\a.go`:       {Filename: `C:\src\a.go`},
		"/a b/1:2/a.go:7:1": {Filename: "/a b/1:2/a.go", Line: 7, Column: 1},
		"-":                 {Filename: "-"},
		"":                  {},
	} {
		if got := position(text); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

func TestIgnoresAreReadFromGoMod(t *testing.T) {
	for _, c := range []struct {
		path  string
		match bool
	}{
		{"/m/build", true},
		{"/m/a/build", false},
		{"/m/node_modules", true},
		{"/m/a/b/node_modules", true},
		{"/m/a/my_node_modules", false},
		{"/m/a", false},
	} {
		i := ignores{under: []string{"/m/build"}, anywhere: []string{"/node_modules"}}
		if got := i.match(c.path); got != c.match {
			t.Errorf("%s: %v, want %v", c.path, got, c.match)
		}
	}
}
