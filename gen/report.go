package gen

import (
	"encoding/json"
	"io"
	"path/filepath"

	"github.com/millrace-go/millrace/gen/diag"
)

// Report is what a run found and did. Paths are relative to the Dir of the Config.
type Report struct {
	// Findings are the problems in the source, by position. Where there are any, no file was touched.
	Findings []diag.Diagnostic
	// Written are the files that were created or replaced, Removed those whose package has no directive any more.
	Written, Removed []string
	// Stale are the files that a run without Check would have created, replaced or removed.
	Stale []Stale
}

// Stale is a generated file that is not as it should be.
type Stale struct {
	Path string
	// Diff leads from what the file holds to what it should hold, in the unified format.
	Diff string
}

// Clean reports whether there is nothing to complain of.
func (r Report) Clean() bool { return len(r.Findings)+len(r.Stale) == 0 }

// WriteJSON writes the report for programs, one object on lines of its own:
//
//	{"findings": [], "stale": [{"file": "a/stream_gen.go", "diff": "--- a/…"}], "written": ["b/stream_gen.go"], "removed": []}
//
// The lists are never null; [diag.Diagnostic.MarshalJSON] says what a finding looks like. Files have forward slashes on
// every system.
func (r Report) WriteJSON(w io.Writer) error {
	type stale struct {
		File string `json:"file"`
		Diff string `json:"diff"`
	}
	out := struct {
		Findings []diag.Diagnostic `json:"findings"`
		Stale    []stale           `json:"stale"`
		Written  []string          `json:"written"`
		Removed  []string          `json:"removed"`
	}{[]diag.Diagnostic{}, []stale{}, slashed(r.Written), slashed(r.Removed)}
	out.Findings = append(out.Findings, r.Findings...)
	for _, s := range r.Stale {
		out.Stale = append(out.Stale, stale{filepath.ToSlash(s.Path), s.Diff})
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(out)
}

func slashed(paths []string) []string {
	out := []string{}
	for _, p := range paths {
		out = append(out, filepath.ToSlash(p))
	}
	return out
}
