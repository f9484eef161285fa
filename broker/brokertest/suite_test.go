package brokertest

import (
	"testing"

	"github.com/millrace-go/millrace/broker/redistest"
)

// One suite for every server, and for the paused clock what can be shown there.
func TestConformance(t *testing.T) {
	t.Run("paused", func(t *testing.T) { Run(t, pausedTarget()) })
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		Run(t, embeddedTarget(t))
	})
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		Run(t, targetOf(s))
	})
}
