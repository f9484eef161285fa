// Package gen is the generator behind the streamgen command: it turns the //stream:subscriber directives of packages
// into their stream_gen.go files.
package gen

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/millrace-go/millrace/gen/diag"
	"github.com/millrace-go/millrace/gen/internal/emit"
	"github.com/millrace-go/millrace/gen/internal/load"
	"github.com/millrace-go/millrace/gen/internal/output"
	"github.com/millrace-go/millrace/gen/internal/resolve"
)

// Config says what to generate for.
type Config struct {
	// Dir is the folder that patterns are seen from and paths are printed relative to. The default is the working
	// directory.
	Dir string
	// Patterns are packages as the go command names them. The default is ".", the package in Dir.
	Patterns []string
}

// Report is what a run found and did. Paths are relative to the Dir of the Config.
type Report struct {
	// Findings are the problems in the source, by position. Where there are any, no file was touched.
	Findings []diag.Diagnostic
	// Written are the files that were created or replaced, Removed those whose package has no directive any more.
	Written, Removed []string
}

// Run generates the files of all packages that match. Files that are up to date are not touched, and neither is
// anything at all where one package has findings. Problems in the source are in the report; the error is for what keeps
// the run from looking at it or from writing: bad patterns, a missing go command, a read-only folder.
func Run(ctx context.Context, cfg Config) (Report, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return Report{}, err
	}
	patterns := cfg.Patterns
	if len(patterns) == 0 {
		patterns = []string{"."}
	}
	changes, findings, err := plan(ctx, dir, patterns)
	if err != nil || len(findings) > 0 {
		return Report{Findings: findings}, err
	}
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	return apply(dir, changes)
}

// plan does everything but write.
func plan(ctx context.Context, dir string, patterns []string) ([]output.Change, []diag.Diagnostic, error) {
	pkgs, err := load.Packages(ctx, dir, patterns)
	if err != nil {
		return nil, nil, err
	}
	var findings diag.List
	models := make([]*resolve.Package, len(pkgs))
	for i, p := range pkgs {
		models[i] = resolve.Resolve(p, &findings)
	}
	if findings.Len() > 0 {
		sorted := findings.Sorted()
		for i := range sorted {
			sorted[i].Pos.Filename = diag.Relative(dir, sorted[i].Pos.Filename)
		}
		return nil, sorted, nil
	}
	var changes []output.Change
	for i, p := range pkgs {
		var want []byte
		if models[i] != nil {
			if want, err = emit.File(models[i]); err != nil {
				return nil, nil, err
			}
		}
		change, needed, err := output.Plan(p.Dir, want)
		if err != nil {
			return nil, nil, err
		}
		if needed {
			changes = append(changes, change)
		}
	}
	return changes, nil, nil
}

func apply(dir string, changes []output.Change) (Report, error) {
	var report Report
	for _, c := range changes {
		if err := c.Apply(); err != nil {
			return report, fmt.Errorf("write %s: %w", diag.Relative(dir, c.Path), err)
		}
		if path := diag.Relative(dir, c.Path); c.Content == nil {
			report.Removed = append(report.Removed, path)
		} else {
			report.Written = append(report.Written, path)
		}
	}
	return report, nil
}
