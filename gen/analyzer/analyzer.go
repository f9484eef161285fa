// Package analyzer offers the findings of streamgen to every tool that runs go/analysis: go vet and go fix through
// cmd/streamvet, editors, golangci-lint.
package analyzer

import (
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/millrace-go/millrace/gen/diag"
	"github.com/millrace-go/millrace/gen/internal/resolve"
)

const pages = "https://github.com/millrace-go/millrace/blob/main/docs/"

// Analyzer reports what streamgen has against the //stream:subscriber directives of a package, in the same words, at the
// same places and with the same codes, which are the Category of a diagnostic. What streamgen --json offers as an edit is
// a suggested fix. A package without findings whose stream_gen.go is missing, not current or left over has a diagnostic
// of the category "stale".
//
// It sees one package at a time, as the driver shows it: it loads nothing, reads no files but those of the package, and
// writes none. So it leaves to streamgen what takes more than that:
//
//   - folders of which build constraints leave no package to show;
//   - tests, where the driver does not show them beside the package: findings about directives in them, and names that
//     they take;
//   - files that the go command itself cannot read, such as two packages in one folder, and the words that it has for
//     an import that is not there;
//   - everything that compares packages, and the document of streamgen asyncapi.
//
// It also runs over packages that do not compile, as they do not while the generated file is missing or broken; what the
// compiler says is repeated only where it keeps a directive from being understood. It has no flags, no facts and no
// result, and it may run on several packages at once.
var Analyzer = &analysis.Analyzer{
	Name:             "streamvet",
	Doc:              "check //stream:subscriber directives and the stream_gen.go made of them\n\nThe findings are those of streamgen; docs/diagnostics.md explains each of them by its code.",
	URL:              pages + "vet.md",
	RunDespiteErrors: true,
	Run:              run,
}

func run(pass *analysis.Pass) (any, error) {
	u, err := read(pass)
	if err != nil {
		return nil, err
	}
	var findings diag.List
	model := resolve.Resolve(u.pkg, &findings)
	for _, d := range findings.Sorted() {
		u.report(d)
	}
	if findings.Len() > 0 {
		return nil, nil // nothing is generated as long as there are any
	}
	return nil, u.checkGenerated(model)
}

// report hands a finding to the driver.
func (u *unit) report(d diag.Diagnostic) {
	out := analysis.Diagnostic{
		Pos: u.pos(d.Pos), End: u.pos(d.End),
		Category: string(d.Code),
		URL:      pages + "diagnostics.md#" + anchor(d.Code),
		// Places in the text are those of one folder. Its path would depend on the machine.
		Message: d.Relative(u.pkg.Dir).Text(),
	}
	for _, r := range d.Related {
		out.Related = append(out.Related, analysis.RelatedInformation{Pos: u.pos(r.Pos), Message: r.Message})
	}
	for _, f := range u.fixes(d) {
		fix := analysis.SuggestedFix{Message: f.Message}
		for _, e := range f.Edits {
			fix.TextEdits = append(fix.TextEdits, analysis.TextEdit{Pos: u.pos(e.Pos), End: u.pos(e.End), NewText: []byte(e.New)})
		}
		out.SuggestedFixes = append(out.SuggestedFixes, fix)
	}
	u.pass.Report(out)
}

// fixes are those of streamgen and, where it suggests a value without being sure of it, that value: unlike who applies
// edits by program, who takes a suggested fix looks at it.
func (u *unit) fixes(d diag.Diagnostic) []diag.Fix {
	if len(d.Fixes) > 0 || d.Suggest == "" || d.Code != diag.BadDuration && d.Code != diag.BadStart {
		return d.Fixes
	}
	if at := u.pos(d.Pos); !at.IsValid() || u.pass.Fset.File(at).Name() != d.Pos.Filename {
		return nil // the file was made from another, where the text stands elsewhere
	}
	return []diag.Fix{{Message: "write " + d.Suggest, Edits: []diag.Edit{{Pos: d.Pos, End: d.End, New: d.Suggest}}}}
}

// anchor is what a heading of docs/diagnostics.md becomes in a link.
func anchor(c diag.Code) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			return r
		}
		return -1
	}, strings.ToLower(string(c)+" "+c.Title()))
}
