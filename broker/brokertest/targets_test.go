package brokertest

import (
	"flag"
	"strconv"
	"testing"

	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/broker/embedded"
	"github.com/millrace-go/millrace/broker/redisbroker"
	"github.com/millrace-go/millrace/broker/redistest"
)

// TestMain runs as many tests side by side as there are servers, however few processors there are: they wait far more
// than they compute.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == parallelFlag })
	if !given {
		if err := flag.Set(parallelFlag, strconv.Itoa(4)); err != nil {
			panic(err)
		}
	}
	redistest.Main(m)
}

const parallelFlag = "test.parallel"

// each runs the body on the embedded server and on every server of the matrix, side by side as far as -parallel allows.
func each(t *testing.T, body func(t *testing.T, target Target)) {
	eachInTurn(t, func(t *testing.T, target Target) {
		t.Parallel()
		body(t, target)
	})
}

// eachInTurn runs the body on the same servers, one after the other.
func eachInTurn(t *testing.T, body func(t *testing.T, target Target)) {
	t.Run("embedded", func(t *testing.T) {
		server := embedded.NewServer()
		client := server.Client()
		t.Cleanup(func() {
			_ = client.Close() // the server goes with it
			server.Close()
		})
		body(t, Target{"embedded", func() broker.Broker { return server.Broker() }, client})
	})
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		body(t, Target{s.Name(), func() broker.Broker { return redisbroker.Standalone(s.URL()) }, s.Client()})
	})
}

// paused runs the body on the embedded server and the paused clock.
func paused(t *testing.T, body func(t *testing.T, target Target)) {
	t.Helper()
	apptest.Paused(t, func(h *apptest.H) {
		body(h.T(), Target{"paused", h.Broker, h.Client()})
	})
}
