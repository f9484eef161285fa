package directive

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// parseDuration accepts a Go duration that is at least least. What the server would round to nothing is refused: to it
// a wait of 0 ms is a wait without end.
func parseDuration(value string, least time.Duration) (time.Duration, error) {
	if _, err := strconv.ParseFloat(value, 64); err == nil {
		if n := strings.TrimLeft(value, "+-"); strings.Trim(n, "0123456789") == "" {
			return 0, fmt.Errorf("%s has no unit: write %[2]ss or %[2]sms", value, n)
		}
		return 0, fmt.Errorf("%s has no unit: write a number with ms, s, m or h, such as 30s or 1m30s", value)
	}
	d, err := time.ParseDuration(value)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration: write a number with ms, s, m or h, such as 30s or 1m30s", value)
	case d < 0:
		return 0, fmt.Errorf("%s is negative: the least is %s", value, least)
	case d < least:
		return 0, fmt.Errorf("%s is too short: the least is %s", value, least)
	}
	return d, nil
}
