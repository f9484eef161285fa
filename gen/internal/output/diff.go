package output

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// context is how many equal lines a diff shows around what differs.
const context = 3

// Diff returns what leads from before to after in the unified format, for patch -p0 in the folder that path is relative
// to. A nil side is a file that does not exist.
func Diff(path string, before, after []byte) string {
	name := func(content []byte) string {
		if content == nil {
			return "/dev/null"
		}
		return filepath.ToSlash(path)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", name(before), name(after))
	old, fresh := lines(before), lines(after)
	for _, h := range hunks(edits(old, fresh)) {
		fmt.Fprintf(&b, "@@ -%s +%s @@\n", span(h[0].old, count(h, '+')), span(h[0].fresh, count(h, '-')))
		for _, e := range h {
			line := ""
			if e.kind == '+' {
				line = fresh[e.fresh]
			} else {
				line = old[e.old]
			}
			b.WriteByte(e.kind)
			b.WriteString(line)
			if !strings.HasSuffix(line, "\n") {
				b.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
	return b.String()
}

func lines(content []byte) []string {
	return slices.Collect(strings.Lines(string(content)))
}

// edit is one line of a diff: ' ', '-' or '+', and how far both sides have come.
type edit struct {
	kind       byte
	old, fresh int
}

// edits finds the shortest way from one side to the other: what both have in common is their longest common
// subsequence. Generated files are short, so the table for it is small; what is equal at both ends does not go in.
func edits(old, fresh []string) []edit {
	head := 0
	for head < len(old) && head < len(fresh) && old[head] == fresh[head] {
		head++
	}
	tail := 0
	for tail < len(old)-head && tail < len(fresh)-head && old[len(old)-1-tail] == fresh[len(fresh)-1-tail] {
		tail++
	}
	a, b := old[head:len(old)-tail], fresh[head:len(fresh)-tail]
	common := inCommon(a, b)
	var out []edit
	i, j := 0, 0
	put := func(kind byte) {
		out = append(out, edit{kind, i, j})
		if kind != '+' {
			i++
		}
		if kind != '-' {
			j++
		}
	}
	for i < head {
		put(' ')
	}
	for i < head+len(a) || j < head+len(b) {
		x, y := i-head, j-head
		switch {
		case common != nil && x < len(a) && y < len(b) && a[x] == b[y]:
			put(' ')
		case x < len(a) && (y == len(b) || common == nil || common[x+1][y] >= common[x][y+1]):
			put('-')
		default:
			put('+')
		}
	}
	for i < len(old) {
		put(' ')
	}
	return out
}

// inCommon returns the length of the longest common subsequence of what is left of both sides from every i and j on. It
// returns nil, by which everything differs, where the table would be larger than the diff is worth.
func inCommon(a, b []string) [][]int32 {
	if len(a)*len(b) > 1<<24 {
		return nil
	}
	common := make([][]int32, len(a)+1)
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	return common
}

// hunks cuts out what differs, with its context. What lies closer together than two contexts is one hunk.
func hunks(all []edit) [][]edit {
	var out [][]edit
	from, end := -1, 0 // of the hunk that is being read; end is behind its last difference
	for i, e := range all {
		if e.kind == ' ' {
			continue
		}
		if from >= 0 && i-end > 2*context {
			out = append(out, all[from:min(end+context, len(all))])
			from = -1
		}
		if from < 0 {
			from = max(i-context, 0)
		}
		end = i + 1
	}
	if from >= 0 {
		out = append(out, all[from:min(end+context, len(all))])
	}
	return out
}

// count returns how many lines of the hunk one side has: all but those of the other kind.
func count(h []edit, other byte) int {
	n := 0
	for _, e := range h {
		if e.kind != other {
			n++
		}
	}
	return n
}

// span writes where a hunk begins and how long it is. An empty one is said to lie behind the line before it.
func span(start, length int) string {
	switch length {
	case 0:
		return fmt.Sprintf("%d,0", start)
	case 1:
		return fmt.Sprint(start + 1)
	}
	return fmt.Sprintf("%d,%d", start+1, length)
}
