package app

import (
	"encoding/json"
	"net/http"
)

// HealthHandler answers two questions about the app, at paths for the probes of an orchestrator. Both answers are JSON
// and are made without asking the server; 200 is yes and 503 no.
//
// GET /livez: does the process work? It does from the start on, while it stops and whatever becomes of the server: to
// start the process again would help nothing. It does not once Run has returned an error.
//
// GET /readyz: do all subscriptions work? The body is the app's [Health] and names those that do not. A start has to be
// through, hooks of AfterStartup included, and from the moment at which the app is told to stop the answer is no.
//
// The handler may be served before Run is called and after it has returned. It is for a port of its own or a mux of the
// service's:
//
//	go http.ListenAndServe(":8080", a.HealthHandler())
//	a.Main()
func (a *App) HealthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		h := a.Health()
		alive := h.State != stateStopped || h.Error == ""
		answer(w, alive, struct {
			Alive bool   `json:"alive"`
			State string `json:"state"`
			Error string `json:"error,omitempty"`
		}{alive, h.State, h.Error})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		h := a.Health()
		answer(w, h.Ready, h)
	})
	return mux
}

// answer writes what a probe gets.
func answer(w http.ResponseWriter, yes bool, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !yes {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(body) // whoever asked is gone
}
