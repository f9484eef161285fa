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
	line := strconv.AppendInt(make([]byte, 0, maxHistoryLine), attempt, 10)
	line = at.UTC().AppendFormat(append(line, ' '), time.RFC3339)
	line = append(append(line, ' '), outcome...)
	if text != "" {
		line = append(append(line, ": "...), text...)
	}
	if history == "" {
		return historyLine(string(line))
	}
	return strings.Join(append(earlierLines(history), historyLine(string(line))), "\n")
}

func earlierLines(history string) []string {
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
