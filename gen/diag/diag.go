// Package diag holds what the generator has to say about someone's source: a code, a position, a message that names the
// fix and, where one is known, the fix itself as edits.
package diag

import (
	"cmp"
	"fmt"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Diagnostic is one finding.
type Diagnostic struct {
	Code Code
	// Pos always has a file; line and column are 1 where the finding is about the whole file. End is behind what the
	// finding is about, and zero where that is not known.
	Pos, End token.Position
	// Message is one line.
	Message string
	// Suggest is the nearest valid spelling of what stands at Pos, "" where none is near.
	Suggest string
	// Related are the other places that have a part in the finding, such as the second of two handlers that clash.
	Related []Related
	// Fixes are ways to change the source after which the finding is gone.
	Fixes []Fix
}

// Related is another place that a finding is about.
type Related struct {
	Pos     token.Position
	Message string
}

// Fix is one way out: all of its edits together.
type Fix struct {
	Message string
	Edits   []Edit
}

// Edit replaces the text between two positions of one file, which have their Offset. Where both are the same it inserts.
type Edit struct {
	Pos, End token.Position
	New      string
}

// String prints
//
//	file:line:col: message; did you mean "x"? (other: file:line:col) [S103]
//
// which editors and terminals turn into a link.
func (d Diagnostic) String() string { return place(d.Pos) + ": " + d.Text() }

// Text is String without the position: message; did you mean "x"? (other: file:line:col) [S103].
func (d Diagnostic) Text() string {
	var b strings.Builder
	b.WriteString(d.Message)
	if d.Suggest != "" {
		fmt.Fprintf(&b, "; did you mean %s?", quote(d.Suggest))
	}
	for i, r := range d.Related {
		b.WriteString([]string{" (", ", "}[min(i, 1)])
		fmt.Fprintf(&b, "%s: %s", r.Message, place(r.Pos))
	}
	if len(d.Related) > 0 {
		b.WriteByte(')')
	}
	if d.Code != "" {
		fmt.Fprintf(&b, " [%s]", d.Code)
	}
	return b.String()
}

func place(p token.Position) string { return fmt.Sprintf("%s:%d:%d", p.Filename, p.Line, p.Column) }

// quote leaves quotes within the text as they are where it can: the text is there to be copied.
func quote(s string) string {
	if strings.Contains(s, `"`) && strconv.CanBackquote(s) {
		return "`" + s + "`"
	}
	return strconv.Quote(s)
}

// Relative returns the finding with its files named as seen from dir, also where the compiler's message names one.
func (d Diagnostic) Relative(dir string) Diagnostic {
	d.Message = strings.ReplaceAll(d.Message, dir+string(filepath.Separator), "")
	from := func(p *token.Position) {
		if p.Filename != "" {
			p.Filename = Relative(dir, p.Filename)
		}
	}
	from(&d.Pos)
	from(&d.End)
	d.Related = slices.Clone(d.Related)
	for i := range d.Related {
		from(&d.Related[i].Pos)
	}
	d.Fixes = slices.Clone(d.Fixes)
	for i := range d.Fixes {
		d.Fixes[i].Edits = slices.Clone(d.Fixes[i].Edits)
		for j := range d.Fixes[i].Edits {
			from(&d.Fixes[i].Edits[j].Pos)
			from(&d.Fixes[i].Edits[j].End)
		}
	}
	return d
}

// List collects findings in any order. The zero List is ready to use; it is not safe for concurrent use.
type List struct {
	found []Diagnostic
}

// Add records a finding. Its messages are put on one line each: who reads findings line by line, as editors and CI do,
// takes a second one for another finding.
func (l *List) Add(d Diagnostic) {
	whole(&d.Pos)
	if d.End.Column == 0 { // behind a line directive there are no columns
		d.End = token.Position{}
	}
	d.Message = oneLine(d.Message)
	d.Related = slices.Clone(d.Related)
	for i := range d.Related {
		whole(&d.Related[i].Pos)
		d.Related[i].Message = oneLine(d.Related[i].Message)
	}
	l.found = append(l.found, d)
}

// whole completes the position of a finding about a whole file.
func whole(pos *token.Position) {
	pos.Line = max(pos.Line, 1)
	pos.Column = max(pos.Column, 1)
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

// Sorted returns the findings by file, line, column, code and message. What prints the same is one finding, however it
// was found.
func (l *List) Sorted() []Diagnostic {
	sorted := slices.Clone(l.found)
	slices.SortStableFunc(sorted, func(a, b Diagnostic) int {
		return cmp.Or(
			strings.Compare(a.Pos.Filename, b.Pos.Filename),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Column, b.Pos.Column),
			strings.Compare(string(a.Code), string(b.Code)),
			strings.Compare(a.Message, b.Message),
			strings.Compare(a.String(), b.String()),
		)
	})
	return slices.CompactFunc(sorted, func(a, b Diagnostic) bool { return a.String() == b.String() })
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
