package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"connect-svc/internal/api/operator"
	"connect-svc/internal/telemetry"
)

// readinessTimeout bounds the check of the database, because a probe does not wait for long.
const readinessTimeout = 2 * time.Second

var errStopping = errors.New("stopping")

// brief is for those who probe from anywhere: no reasons, which name hosts and schemas.
const brief = true

// probes serves GET /healthz, which says that the process responds, and GET /readyz, which says whether it should be sent
// requests: 503 while the database cannot be reached, has a schema that this program does not work on, or the service is
// stopping.
func (a *App) probes(brief bool) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		telemetry.EventOf(r.Context()).Operation = "healthz"
		writeStatus(w, http.StatusOK, "ok", nil)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		telemetry.EventOf(r.Context()).Operation = "readyz"
		if err := a.ready(r.Context()); err != nil {
			telemetry.EventOf(r.Context()).Code = "not_ready"
			if brief {
				err = nil
			}
			writeStatus(w, http.StatusServiceUnavailable, "not ready", err)
			return
		}
		writeStatus(w, http.StatusOK, "ready", nil)
	})
	return mux
}

// privateHandler serves the operator and the operator's tools: the probes with reasons, GET /metrics for Prometheus, GET
// /usage for people. The operator API is off without a token: its paths are 404.
func (a *App) privateHandler() http.Handler {
	mux := a.probes(!brief)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		telemetry.EventOf(r.Context()).Operation = "metrics"
		a.metrics.ServeHTTP(w, r)
	})
	usage := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.edges.Load().usage.ServeHTTP(w, r) })
	mux.Handle("/usage", usage)
	mux.Handle("/usage/", usage)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// No pattern of the mux, which would redirect paths that it finds untidy.
		if api := a.edges.Load().operator; api != nil && strings.HasPrefix(r.URL.Path, operator.Path) {
			api.ServeHTTP(w, r)
		} else {
			mux.ServeHTTP(w, r)
		}
	})
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
	_ = json.NewEncoder(w).Encode(body) // fails only if the prober is gone
}
