//go:build unix

package chaos

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

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
		if err := flag.Set(parallelFlag, strconv.Itoa(6)); err != nil {
			panic(err)
		}
	}
	redistest.Main(m)
}

const parallelFlag = "test.parallel"

// envSoak makes the tests longer: 1 for the long version, or a duration that the run is to take about, 30m for example.
const envSoak = "MILLRACE_SOAK"

// About how long the two versions take with two processors.
const shortRun, longRun = 80 * time.Second, 450 * time.Second

// soak is how much of the long version is to run: 0 for the short one, 1 for the long one, and more for what is longer.
var soak = soakShare(os.Getenv(envSoak))

func soakShare(text string) float64 {
	switch text {
	case "":
		return 0
	case "1":
		return 1
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= shortRun {
		panic(fmt.Sprintf("%s=%s: it is 1, or a duration above %s, such as 30m", envSoak, text, shortRun))
	}
	return float64(d-shortRun) / float64(longRun-shortRun)
}

// pick returns how much the version of the suite that runs is to take: one of the two, or as much between or beyond them as
// the time allows.
func pick[T int | time.Duration](short, long T) T { return short + T(soak*float64(long-short)) }

// brief tells that the tests run under -short: those that take part are cut down to what a race detector needs.
func brief[T any](cut, whole T) T {
	if testing.Short() {
		return cut
	}
	return whole
}

// chaotic marks a test that -short leaves out: it is about numbers and times, and what races in it races in those that
// are marked with raced.
func chaotic(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: it takes long; what races in it is in the tests that -short keeps")
	}
	t.Parallel()
}

// raced marks a test that also runs under -short, and with it under the race detector. Its workers are this program, so
// that they look for races as well.
func raced(t *testing.T) {
	t.Helper()
	t.Parallel()
}

// eachServer runs the body on every server of the matrix, and under -short on one of them.
func eachServer(t *testing.T, body func(t *testing.T, s *redistest.Server)) {
	t.Helper()
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		if testing.Short() && (s.Name() == "redis-7.0" || s.Name() == "valkey-9") {
			t.Skip("-short: one server is enough to look for races")
		}
		t.Parallel()
		body(t, s)
	})
}

// eachRedis leaves Valkey to the long version.
func eachRedis(t *testing.T, body func(t *testing.T, s *redistest.Server)) {
	t.Helper()
	eachServer(t, func(t *testing.T, s *redistest.Server) {
		if s.Name() == "valkey-9" && soak == 0 {
			t.Skip("in the long version (just soak): it costs a minute and behaves as Redis 7.0 does")
		}
		body(t, s)
	})
}
