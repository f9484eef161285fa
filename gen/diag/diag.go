// Package diag holds what the generator has to say about someone's source: a position and a message that names the fix.
package diag

import (
	"cmp"
	"fmt"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// Diagnostic is one finding. Pos always has a file; line and column are 1 where the finding is about the whole file.
type Diagnostic struct {
	Pos     token.Position
	Message string
}

// String prints file:line:col: message, the form that editors and terminals turn into a link.
func (d Diagnostic) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", d.Pos.Filename, d.Pos.Line, d.Pos.Column, d.Message)
}

// List collects findings in any order. The zero List is ready to use; it is not safe for concurrent use.
type List struct {
	found []Diagnostic
}

// Add records a finding at pos. The message is formatted as fmt.Sprintf does, and put on one line: who reads findings
// line by line, as editors and CI do, takes a second one for another finding.
func (l *List) Add(pos token.Position, format string, args ...any) {
	pos.Offset = 0 // two ways to the same line and column are one finding
	if pos.Line == 0 {
		pos.Line = 1
	}
	if pos.Column == 0 {
		pos.Column = 1
	}
	l.found = append(l.found, Diagnostic{Pos: pos, Message: oneLine(fmt.Sprintf(format, args...))})
}

func oneLine(message string) string {
	lines := strings.Split(message, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.TrimSpace(strings.Join(lines, " "))
}

// Len returns how many findings were recorded, repeated ones included.
func (l *List) Len() int { return len(l.found) }

// Sorted returns the findings by file, line, column and message, each once.
func (l *List) Sorted() []Diagnostic {
	sorted := slices.Clone(l.found)
	slices.SortFunc(sorted, func(a, b Diagnostic) int {
		return cmp.Or(
			strings.Compare(a.Pos.Filename, b.Pos.Filename),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Column, b.Pos.Column),
			strings.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(sorted)
}

// Relative returns path as seen from dir where it lies inside dir or beside it, and path itself where no relative form
// exists (another volume).
func Relative(dir, path string) string {
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return path
	}
	return rel
}
