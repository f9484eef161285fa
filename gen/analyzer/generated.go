package analyzer

import (
	"bytes"
	"go/token"

	"golang.org/x/tools/go/analysis"

	"github.com/millrace-go/millrace/gen/internal/emit"
	"github.com/millrace-go/millrace/gen/internal/genfile"
	"github.com/millrace-go/millrace/gen/model"
)

// stale is the category of a finding about the generated file.
const stale = "stale"

// checkGenerated compares the generated file with what streamgen would write; m is nil where that is none.
func (u *unit) checkGenerated(m *model.Package) error {
	g := u.pkg.Generated
	switch {
	case m == nil:
		if g != nil && g.Ours {
			u.stale(max(u.generated.FileStart, u.generated.Package), "is left over, for the package has no directive any more")
		}
		return nil
	case g == nil:
		u.stale(u.firstDirective(m), "is missing")
		return nil
	}
	if alias := u.alias(); alias != "" && !u.tests {
		m.Alias = alias // a test that the driver does not show may have taken the usual name
	}
	want, err := emit.File(m)
	if err == nil && !bytes.Equal(genfile.Normal(g.Content), want) {
		u.stale(u.firstDirective(m), "is not what streamgen makes of the directives")
	}
	return err
}

// stale reports at a directive what can be reported there: linters pass over generated files.
func (u *unit) stale(at token.Pos, what string) {
	u.pass.Report(analysis.Diagnostic{Pos: at, Category: stale, Message: genfile.Name + " " + what + ": run go generate"})
}

func (u *unit) firstDirective(m *model.Package) token.Pos {
	first := m.Subscriptions[0].Directive
	for _, s := range m.Subscriptions[1:] {
		if d := s.Directive; d.Filename < first.Filename || d.Filename == first.Filename && d.Line < first.Line {
			first = d
		}
	}
	return u.pos(first)
}

// alias is the name under which the generated file has its only import, the runtime; "" where it was cut off before that.
func (u *unit) alias() string {
	if imports := u.generated.Imports; len(imports) == 1 && imports[0].Name != nil {
		return imports[0].Name.Name
	}
	return ""
}
