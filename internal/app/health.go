package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"connect-svc/internal/telemetry"
	"connect-svc/internal/web/usagepage"
)

// readinessTimeout bounds the look at the database: a probe wants an answer.
const readinessTimeout = 2 * time.Second

var errStopping = errors.New("stopping")

// privateHandler serves what the operator's own tools ask. GET /healthz says that the process answers; GET /readyz
// says whether it should be sent requests: 503 with the reason while the database cannot be reached, has a schema that
// this program does not work on, or the service is stopping. GET /metrics is for Prometheus, GET /usage for people.
func (a *App) privateHandler(now func() time.Time) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		telemetry.EventOf(r.Context()).Operation = "healthz"
		writeStatus(w, http.StatusOK, "ok", nil)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		telemetry.EventOf(r.Context()).Operation = "readyz"
		if err := a.ready(r.Context()); err != nil {
			telemetry.EventOf(r.Context()).Code = "not_ready"
			writeStatus(w, http.StatusServiceUnavailable, "not ready", err)
			return
		}
		writeStatus(w, http.StatusOK, "ready", nil)
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		telemetry.EventOf(r.Context()).Operation = "metrics"
		a.metrics.ServeHTTP(w, r)
	})
	page := usagepage.New(a.Usage, now)
	mux.Handle("/usage", page)
	mux.Handle("/usage/", page)
	return mux
}

func (a *App) ready(ctx context.Context) error {
	if a.stopping.Load() {
		return errStopping
	}
	ctx, cancel := context.WithTimeout(ctx, readinessTimeout)
	defer cancel()
	return CheckSchema(ctx, a.Pool)
}

func writeStatus(w http.ResponseWriter, status int, word string, reason error) {
	body := map[string]string{"status": word}
	if reason != nil {
		body["reason"] = reason.Error()
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the prober is gone: nothing to do about it
}
