package dispatch

import (
	"strconv"
	"strings"
	"time"
)

// maxHistory is how many lines the header history keeps: the last ones, so that a message that fails for ever does not
// grow.
const maxHistory = 10

// extendHistory appends the line of one failed attempt: its number, the time, the outcome and the error. What earlier
// lines hold is bounded again: another program may have written them.
func extendHistory(history string, attempt int64, at time.Time, outcome, text string) string {
	line := strconv.FormatInt(attempt, 10) + " " + at.UTC().Format(time.RFC3339) + " " + outcome
	if text != "" {
		line += ": " + text
	}
	lines := append(earlierLines(history), historyLine(line))
	return strings.Join(lines, "\n")
}

func earlierLines(history string) []string {
	if history == "" {
		return nil
	}
	lines := strings.Split(history, "\n")
	lines = lines[max(0, len(lines)-(maxHistory-1)):]
	for i, line := range lines {
		lines[i] = historyLine(line)
	}
	return lines
}

func historyLine(line string) string {
	return shorten(oneLine(shorten(line, 2*maxHistoryLine)), maxHistoryLine)
}
