package directive

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-go/millrace/gen/diag"
)

// parseDuration accepts a Go duration that is at least least. What the server would round to nothing is refused: to it
// a wait of 0 ms is a wait without end.
func parseDuration(text string, least time.Duration) (time.Duration, *badValue) {
	bad := func(instead, format string, args ...any) (time.Duration, *badValue) {
		return 0, &badValue{code: diag.BadDuration, message: fmt.Sprintf(format, args...), instead: instead}
	}
	value := clip(text) // as a message shows it
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		n := strings.TrimLeft(text, "+-")
		if strings.Trim(n, "0123456789") != "" {
			return bad("", "%s has no unit: write a number with ms, s, m or h, such as 30s or 1m30s", value)
		}
		if strings.Trim(n, "0") == "" {
			return bad("", "%s has no unit, and is below the least, %s", value, least)
		}
		return bad(withUnit(n, least), "%s has no unit: write %[2]ss or %[2]sms", value, clip(n))
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return bad(inGoUnits(text, least), "%q is not a duration: write a number with ms, s, m or h, such as 30s or 1m30s", value)
	case d < 0:
		return bad("", "%s is negative: the least is %s", value, least)
	case d < least:
		return bad(least.String(), "%s is too short: the least is %s", value, least)
	}
	return d, nil
}

// withUnit guesses what a number without a unit counts. Thousands are milliseconds to those who write them.
func withUnit(n string, least time.Duration) string {
	unit := "s"
	if len(n) > 3 {
		unit = "ms"
	}
	if d, err := time.ParseDuration(n + unit); err != nil || d < least {
		return ""
	}
	return n + unit
}

var spelledOut = regexp.MustCompile(`^(\d{1,6})(ms|millis|msecs?|milliseconds?|[sS]|secs?|seconds?|[mM]|mins?|minutes?|[hH]|hrs?|hours?|d|days?|w|weeks?)$`)

// inGoUnits reads a duration in words or in days, and returns it as Go writes it, "" where it cannot.
func inGoUnits(value string, least time.Duration) string {
	m := spelledOut.FindStringSubmatch(value)
	if m == nil {
		return ""
	}
	n, _ := strconv.Atoi(m[1])
	out := ""
	switch unit := strings.ToLower(m[2]); {
	case strings.HasPrefix(unit, "ms"), strings.HasPrefix(unit, "milli"):
		out = m[1] + "ms"
	case unit[0] == 'w':
		out = strconv.Itoa(n*7*24) + "h"
	case unit[0] == 'd':
		out = strconv.Itoa(n*24) + "h"
	default:
		out = m[1] + unit[:1]
	}
	if d, err := time.ParseDuration(out); err != nil || d < least {
		return ""
	}
	return out
}
