package snippets

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/millrace-go/millrace/app"
)

// cut:serve

// serveHealth answers probes at the address for as long as the app runs. It listens before the start, so that a start
// which waits for the server can be seen.
func serveHealth(a *app.App, address string) {
	server := &http.Server{Addr: address, Handler: a.HealthHandler(), ReadHeaderTimeout: 5 * time.Second}
	a.OnStartup(func(context.Context) error {
		go func() {
			if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
				panic(err) // a port that is taken, say
			}
		}()
		return nil
	})
	a.AfterShutdown(server.Shutdown)
}

// cut:end
