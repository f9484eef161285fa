package snippets

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/broker/embedded"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// The guide's server answers while the app runs, and ends with it.
func TestServeHealth(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	a := app.New("refunds", "0.1.0")
	a.Broker(embedded.New()).Mount(streamrt.Subscribe(streamrt.Spec{Name: "refunds.ProcessRefund", Stream: "refunds", Group: "refunds"}, streamrt.Raw,
		func(context.Context, []byte) outcome.HandlerOutcome { return outcome.Ack() }))
	serveHealth(a, address)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	var h app.Health
	for deadline := time.Now().Add(15 * time.Second); !h.Ready; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never ready: %+v", h)
		}
		response, err := http.Get("http://" + address + "/readyz") //nolint:noctx // a test's own server
		if err != nil {
			continue // it does not listen yet
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err == nil {
			err = json.Unmarshal(body, &h)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := net.DialTimeout("tcp", address, time.Second); err == nil {
		t.Error("it listens after the end")
	}
}
