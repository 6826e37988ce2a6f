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
	"connect-svc/internal/web/usagepage"
)

// readinessTimeout bounds the check of the database, because a probe does not wait for long.
const readinessTimeout = 2 * time.Second

var errStopping = errors.New("stopping")

// privateHandler serves the operator and the operator's tools. GET /healthz says that the process responds; GET /readyz
// says whether it should be sent requests: 503 with the reason while the database cannot be reached, has a schema that
// this program does not work on, or the service is stopping. GET /metrics is for Prometheus, GET /usage for people. The
// operator API is off without a token: its paths are 404.
func (a *App) privateHandler(config Config) (http.Handler, error) {
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
	page := usagepage.New(a.Usage, config.Brand, config.Clock.Now)
	mux.Handle("/usage", page)
	mux.Handle("/usage/", page)
	if config.OperatorHash == nil {
		return mux, nil
	}
	api, err := operator.New(operator.Config{
		TokenHash: config.OperatorHash,
		Accounts:  a.Accounts,
		Activity:  a.Activity,
		OAuth:     a.OAuth,
	})
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// No pattern of the mux, which would redirect paths that it finds untidy.
		if strings.HasPrefix(r.URL.Path, operator.Path) {
			api.ServeHTTP(w, r)
		} else {
			mux.ServeHTTP(w, r)
		}
	}), nil
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
