package gen

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/millrace-go/millrace/gen/diag"
	"github.com/millrace-go/millrace/gen/internal/asyncapi"
	"github.com/millrace-go/millrace/gen/internal/output"
)

// AsyncAPIConfig says what to describe, and where.
type AsyncAPIConfig struct {
	Config
	// Output is the file of the document, as seen from Dir. The default is none: the document is returned alone.
	Output string
	// Title and Version are the service's. The defaults are the import path that all packages with directives have in
	// common, and 0.0.0.
	Title, Version string
}

// AsyncAPI describes the subscriptions of all packages that match as one AsyncAPI 3.0 document in JSON: the same source
// gives the same bytes, wherever the checkout is. Output is replaced in one step, and not touched where it is up to date
// or where the source has findings; there is no document then. The error is for what keeps the run from looking at the
// source or from writing.
func AsyncAPI(ctx context.Context, cfg AsyncAPIConfig) (document []byte, report Report, err error) {
	result, err := Load(ctx, cfg.Config)
	if err != nil || len(result.Findings) > 0 {
		return nil, Report{Findings: result.Findings}, err
	}
	var findings diag.List
	document, err = asyncapi.Describe(result.Packages, asyncapi.Info{Title: cfg.Title, Version: cfg.Version}, &findings)
	if err != nil {
		return nil, Report{}, err
	}
	if report.Findings = relative(&findings, result.dir); len(report.Findings) > 0 {
		return nil, report, nil
	}
	if cfg.Output == "" {
		return document, Report{}, ctx.Err()
	}
	path := cfg.Output
	if !filepath.IsAbs(path) {
		path = filepath.Join(result.dir, path)
	}
	change, needed, err := output.PlanFile(path, document)
	if err != nil || ctx.Err() != nil || !needed {
		return document, Report{}, errors.Join(err, ctx.Err())
	}
	report, err = apply([]output.Change{change}, result.dir, cfg.Check)
	if err == nil && !cfg.Check {
		output.Sweep(change.Path)
	}
	return document, report, err
}
