package broker

import (
	"strconv"
	"strings"
	"time"
)

// Retention says what of a key may be removed. The zero value keeps everything. Of several bounds each holds: what is
// beyond one of them goes.
type Retention struct {
	// DeleteAcked: what every group of the stream has acknowledged goes.
	DeleteAcked bool
	// Last is how many of the newest stay; 0 is no bound.
	Last int64
	// For is how long one stays, by the server's clock; 0 is no bound.
	For time.Duration
}

// Keeps reports whether everything stays.
func (r Retention) Keeps() bool { return r == Retention{} }

// String says what stays, for logs and errors.
func (r Retention) String() string {
	var bounds []string
	if r.DeleteAcked {
		bounds = append(bounds, "what is not acknowledged")
	}
	if r.Last != 0 {
		bounds = append(bounds, "the last "+strconv.FormatInt(r.Last, 10))
	}
	if r.For != 0 {
		bounds = append(bounds, "the last "+r.For.String())
	}
	if len(bounds) == 0 {
		return "everything"
	}
	return strings.Join(bounds, " and of them ")
}
