package brokertest_test

import (
	"testing"

	"github.com/millrace-go/millrace/broker/brokertest"
	"github.com/millrace-go/millrace/broker/redistest"
)

// What an outside program has is enough to run an area on a server of its own.
func TestAnAreaRunsOnItsOwn(t *testing.T) {
	brokertest.Groups(t, myServer(t, redistest.Start(t).URL()))
}
