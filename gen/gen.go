// Package gen is the generator behind the streamgen command: it turns the //stream:subscriber directives of packages
// into their stream_gen.go files.
package gen

import (
	"context"
	"path/filepath"

	"github.com/millrace-go/millrace/gen/diag"
	"github.com/millrace-go/millrace/gen/internal/emit"
	"github.com/millrace-go/millrace/gen/internal/genfile"
	"github.com/millrace-go/millrace/gen/internal/load"
	"github.com/millrace-go/millrace/gen/internal/output"
	"github.com/millrace-go/millrace/gen/internal/resolve"
	"github.com/millrace-go/millrace/gen/model"
)

// Config says what to generate for.
type Config struct {
	// Dir is the folder that patterns are seen from and paths are printed relative to. The default is the working
	// directory.
	Dir string
	// Patterns are packages as the go command names them. The default is ".", the package in Dir.
	Patterns []string
	// Check leaves the disk as it is: what would be written or removed is in Report.Stale instead.
	Check bool
}

// Result is what the source of the packages that match comes to.
type Result struct {
	// Packages are those with directives, by folder. Where there are findings they are not complete.
	Packages []*model.Package
	// Findings are the problems in the source, by position. Their paths are relative to the Dir of the Config.
	Findings []diag.Diagnostic

	dir    string
	loaded []*load.Package
	models []*model.Package // beside loaded, nil where a package has no directive
}

// Load reads the packages that match, and touches nothing. Problems in the source are in the result; the error is for
// what keeps it from looking at the source: bad patterns, a missing go command.
func Load(ctx context.Context, cfg Config) (Result, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return Result{}, err
	}
	patterns := cfg.Patterns
	if len(patterns) == 0 {
		patterns = []string{"."}
	}
	loaded, err := load.Packages(ctx, dir, patterns)
	if err != nil {
		return Result{}, err
	}
	result := Result{dir: dir, loaded: loaded}
	var findings diag.List
	for _, p := range loaded {
		m := resolve.Resolve(p, &findings)
		result.models = append(result.models, m)
		if m != nil {
			result.Packages = append(result.Packages, m)
		}
	}
	result.Findings = relative(&findings, dir)
	return result, nil
}

func relative(findings *diag.List, dir string) []diag.Diagnostic {
	var all []diag.Diagnostic
	for _, d := range findings.Sorted() {
		all = append(all, d.Relative(dir))
	}
	return all
}

// Run generates the files of all packages that match. Files that are up to date are not touched, and neither is
// anything at all where one package has findings, or one file cannot be written. Problems in the source are in the
// report; the error is for what keeps the run from looking at it or from writing: bad patterns, a missing go command, a
// read-only folder.
func Run(ctx context.Context, cfg Config) (Report, error) {
	result, err := Load(ctx, cfg)
	if err != nil || len(result.Findings) > 0 {
		return Report{Findings: result.Findings}, err
	}
	changes, err := result.changes()
	if err != nil {
		return Report{}, err
	}
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	report, err := apply(changes, result.dir, cfg.Check)
	if err == nil && !cfg.Check {
		result.sweep()
	}
	return report, err
}

// sweep removes what runs that were killed have left beside the generated files.
func (r *Result) sweep() {
	for i, p := range r.loaded {
		if p.Generated != nil || r.models[i] != nil {
			output.Sweep(filepath.Join(p.Dir, genfile.Name))
		}
	}
}

// apply makes the changes, or says what they would be. Paths in the report are as seen from dir.
func apply(changes []output.Change, dir string, check bool) (Report, error) {
	var report Report
	for _, c := range changes {
		path := diag.Relative(dir, c.Path)
		switch {
		case check:
			report.Stale = append(report.Stale, Stale{path, output.Diff(path, c.Before, c.Content)})
		case c.Content == nil:
			report.Removed = append(report.Removed, path)
		default:
			report.Written = append(report.Written, path)
		}
	}
	if check {
		return report, nil
	}
	if err := output.Apply(changes); err != nil {
		return Report{}, err
	}
	return report, nil
}

// changes does everything but write.
func (r *Result) changes() ([]output.Change, error) {
	var changes []output.Change
	for i, p := range r.loaded {
		var want []byte
		if m := r.models[i]; m != nil {
			var err error
			if want, err = emit.File(m); err != nil {
				return nil, err
			}
		}
		change, needed, err := output.Plan(p.Dir, want)
		if err != nil {
			return nil, err
		}
		if needed {
			changes = append(changes, change)
		}
	}
	return changes, nil
}
