//go:build unix

package chaos

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/millrace-go/millrace/broker/redistest"
)

// TestMain is also the main function of the workers.
func TestMain(m *testing.M) {
	workIfOrdered()
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == parallelFlag })
	if !given {
		// The tests wait for times to pass far more than they compute.
		if err := flag.Set(parallelFlag, strconv.Itoa(4)); err != nil {
			panic(err)
		}
	}
	redistest.Main(m)
}

const parallelFlag = "test.parallel"

// soak makes the tests longer.
var soak = os.Getenv("MILLRACE_SOAK") == "1"

// pick returns what the version of the suite that runs is to take.
func pick[T any](short, long T) T {
	if soak {
		return long
	}
	return short
}

// chaotic marks a test of this suite. Under -short there is none: it would repeat under the race detector what has just
// passed without it.
func chaotic(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: worker processes are not started")
	}
	t.Parallel()
}

// eachRedis runs the body on the Redis servers of the matrix, and on all of it in the long version.
func eachRedis(t *testing.T, body func(t *testing.T, s *redistest.Server)) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		if s.Name() == "valkey-9" && !soak {
			return // in the long version: it costs a minute and behaves as Redis 7.0 does
		}
		t.Parallel()
		body(t, s)
	})
}
