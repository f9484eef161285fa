package docs_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestSources plays every cell of the table of docs/sources.md and compares what happened with the word in it.
func TestSources(t *testing.T) {
	guide, err := os.ReadFile("sources.md")
	if err != nil {
		t.Fatal(err)
	}
	table, words := tableUnder(string(guide), ""), tableUnder(string(guide), "word")
	for _, problem := range slices.Concat(checkRows(table), checkWords(table, words)) {
		t.Error(problem)
	}
	for _, row := range table[1:] {
		at := slices.IndexFunc(situations, func(s situation) bool { return s.row == row[0] })
		if at < 0 {
			continue // reported above
		}
		for i, word := range row[1:] {
			if i >= len(sources) {
				break
			}
			for _, p := range plays(sources[i], situations[at]) {
				t.Run(p.name(), func(t *testing.T) {
					t.Parallel()
					if got := p.run(t); got != word {
						t.Errorf("the guide says %q: %s", word, got)
					}
				})
			}
		}
	}
}

// checkRows finds rows and columns that nobody plays, and what is played and stands in no row.
func checkRows(table [][]string) (problems []string) {
	if len(table) == 0 {
		return []string{"there is no table whose first column has no title"}
	}
	var columns []string
	for _, s := range sources {
		columns = append(columns, s.name)
	}
	if got := table[0][1:]; !slices.Equal(got, columns) {
		problems = append(problems, fmt.Sprintf("the columns are %q, and %q are played", got, columns))
	}
	known := map[string]bool{}
	for _, s := range situations {
		known[s.row] = false
	}
	for _, row := range table[1:] {
		seen, ok := known[row[0]]
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf("nobody plays the row %q", row[0]))
		case seen:
			problems = append(problems, fmt.Sprintf("the row %q stands twice", row[0]))
		case len(row) != 1+len(sources):
			problems = append(problems, fmt.Sprintf("the row %q has %d cells, want %d", row[0], len(row)-1, len(sources)))
		}
		known[row[0]] = true
	}
	for _, row := range slices.Sorted(maps.Keys(known)) {
		if !known[row] {
			problems = append(problems, fmt.Sprintf("%q is played, and stands in no row", row))
		}
	}
	return problems
}

// checkWords finds words that are used and not explained, and the other way round.
func checkWords(table, words [][]string) (problems []string) {
	explained := map[string]bool{}
	for i, row := range words {
		if i > 0 {
			explained[row[0]] = false
		}
	}
	for i, row := range table {
		for j, word := range row {
			if i == 0 || j == 0 {
				continue
			}
			if _, ok := explained[word]; !ok {
				problems = append(problems, fmt.Sprintf("the word %q of the row %q is explained nowhere", word, row[0]))
			}
			explained[word] = true
		}
	}
	for _, word := range slices.Sorted(maps.Keys(explained)) {
		if !explained[word] {
			problems = append(problems, fmt.Sprintf("the word %q is explained and stands in no cell", word))
		}
	}
	return problems
}

// tableUnder returns the rows of the first Markdown table whose first column has the title, that of the titles first and
// without the line of dashes.
func tableUnder(guide, title string) (rows [][]string) {
	for line := range strings.Lines(guide) {
		cells := cellsOf(line)
		switch {
		case cells == nil && rows != nil:
			return rows
		case cells == nil, rows == nil && cells[0] != title, strings.HasPrefix(cells[0], "---"):
		default:
			rows = append(rows, cells)
		}
	}
	return rows
}

// cellsOf takes a line of a table apart; nil is any other line.
func cellsOf(line string) []string {
	line, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
	if !ok {
		return nil
	}
	var cells []string
	for cell := range strings.SplitSeq(strings.TrimSuffix(line, "|"), "|") {
		cells = append(cells, strings.TrimSpace(cell))
	}
	return cells
}

func TestTheTableOfSourcesIsHeldToWhatIsPlayed(t *testing.T) {
	head, row := "", ""
	for _, s := range sources {
		head, row = head+s.name+" | ", row+"done | "
	}
	guide := "x\n\n| | " + head + "\n| --- | --- |\n"
	for _, s := range situations {
		guide += "| " + s.row + " | " + row + "\n"
	}
	guide += "\n| word | what |\n| --- | --- |\n| done | it is |\n"
	for name, c := range map[string]struct{ old, with, problem string }{
		"the whole":        {"", "", ""},
		"a row left out":   {"| Ack | " + row + "\n", "", `"Ack" is played, and stands in no row`},
		"a row too many":   {"| Drop | ", "| Sing | " + row + "\n| Drop | ", `nobody plays the row "Sing"`},
		"a cell left out":  {"| Ack | done | ", "| Ack | ", `the row "Ack" has 6 cells`},
		"a column renamed": {"| claiming stream | ", "| grabbing stream | ", "the columns are"},
		"a word unknown":   {"| Ack | done | ", "| Ack | undone | ", `the word "undone" of the row "Ack" is explained nowhere`},
		"a word too many":  {"| done | it is |\n", "| done | it is |\n| over | it is |\n", `the word "over" is explained and stands in no cell`},
	} {
		text := strings.Replace(guide, c.old, c.with, 1)
		table, words := tableUnder(text, ""), tableUnder(text, "word")
		problems := strings.Join(slices.Concat(checkRows(table), checkWords(table, words)), "; ")
		if c.problem == "" && problems != "" || !strings.Contains(problems, c.problem) {
			t.Errorf("%s: %q, want %q", name, problems, c.problem)
		}
	}
}
