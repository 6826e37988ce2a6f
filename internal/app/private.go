package app

import (
	"cmp"
	"net/http"
	"strings"

	"connect-svc/internal/app/listener"
	"connect-svc/internal/edge/console"
	"connect-svc/internal/edge/operator"
	"connect-svc/internal/edge/partner"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/network"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
)

// brief probes give no reasons, which name hosts and schemas: anyone may be able to send them.
const brief = true

// probes serves GET /healthz, which shows that the process responds, and GET /readyz, which is 503 if another server would answer
// requests better (see [App.ready]).
func (a *App) probes(brief bool) chi.Router {
	router := chi.NewRouter()
	router.Use(asGet)
	router.Get("/healthz", func(w http.ResponseWriter, r *http.Request) {
		probed(r, "healthz")
		writeStatus(w, http.StatusOK, status{Status: "ok"})
	})
	router.Get("/readyz", func(w http.ResponseWriter, r *http.Request) {
		probed(r, "readyz")
		code, answer := http.StatusOK, status{Status: "ready"}
		unready, away := a.ready(r.Context())
		if unready != nil {
			telemetry.EventOf(r.Context()).Code = "not_ready"
			code, answer.Status = http.StatusServiceUnavailable, "not ready"
		}
		if unready != nil && !brief {
			answer.Reason = unready.Error()
		}
		if !brief {
			answer.Without = a.down(away)
		}
		if r.URL.Query().Has("verbose") && !brief {
			answer.Checks = a.checks(r.Context(), away)
			answer.Checks["service"] = cmp.Or(answer.Reason, "ok")
		}
		writeStatus(w, code, answer)
	})
	return router
}

// probed names the operation of a request that is repeated regularly.
func probed(r *http.Request, operation string) {
	event := telemetry.EventOf(r.Context())
	event.Operation, event.Probe = operation, true
}

// tools serves the operator's tools: probes with reasons, and GET /metrics for Prometheus.
func (a *App) tools() chi.Router {
	router := a.probes(!brief)
	router.Get("/metrics", func(w http.ResponseWriter, r *http.Request) {
		probed(r, "metrics")
		a.metrics.ServeHTTP(w, r)
	})
	router.Get("/usage", a.usageMoved)
	return router
}

// privateHandler serves the operator and the operator's tools. Without an operator token, the operator API and the console are off
// and their paths are 404.
func (a *App) privateHandler() http.Handler {
	tools := a.tools()
	return asGet(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		edges := a.edges.Load()
		switch {
		case edges.operator != nil && strings.HasPrefix(r.URL.Path, operator.Path):
			edges.operator.ServeHTTP(w, r)
		case edges.console != nil && site.IsBelow(r.URL.Path, console.Path):
			if r.Method != http.MethodPost || strings.HasPrefix(r.URL.Path, console.Path+"/sign-") {
				r = r.WithContext(work.AnyClock(r.Context())) // operators must see what is wrong
			}
			edges.console.ServeHTTP(w, r)
		default:
			tools.ServeHTTP(w, r)
		}
	}))
}

// usageMoved redirects from the former page of usage to its pages in the console. until 1.3.0: 1.0.0 has that page.
func (a *App) usageMoved(w http.ResponseWriter, r *http.Request) {
	telemetry.EventOf(r.Context()).Operation = "usage"
	if a.edges.Load().console == nil {
		http.Error(w, "Usage is on the console's pages, which need an operator token: set CONNECT_OPERATOR_TOKEN.", http.StatusNotFound)
		return
	}
	query := r.URL.Query()
	to := console.Path + "/partners"
	if id, err := uuid.Parse(query.Get("client")); err == nil {
		to += "/" + id.String() + "/usage"
	}
	if query.Get("hours") == "168" {
		to += "?hours=168"
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// byTLSAlone makes browsers that came by TLS use nothing else from then on.
func byTLSAlone(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			w.Header().Set("Strict-Transport-Security", "max-age=63072000")
		}
		next.ServeHTTP(w, r)
	})
}

// fromNetworks adds the network of the caller to the event of each request.
func fromNetworks(proxies network.Proxies, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		telemetry.EventOf(r.Context()).Network = proxies.Of(r)
		next.ServeHTTP(w, r)
	})
}

// namingCallers has the log say who asked for what without a token of an operator.
func namingCallers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		if event := telemetry.EventOf(r.Context()); event.Code == operator.Unauthorized {
			const most = 200 // bytes of a path
			path := r.URL.EscapedPath()
			event.Address, event.Path = network.Proxies(nil).Address(r).String(), path[:min(len(path), most)]
		}
	})
}

// roomy refuses requests that got no place. The handlers do not see them.
func roomy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !listener.GotNoPlace(r) {
			next.ServeHTTP(w, r)
			return
		}
		if partner.IsBackend(r.URL.Path) {
			partner.FailBusy(w, r)
			return
		}
		telemetry.EventOf(r.Context()).Code = "busy"
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Retry-After", "1")
		http.Error(w, "The service is busy. Please try again.", http.StatusServiceUnavailable)
	})
}

// closing closes the connection with each answer while the service stops: with "Connection: close" in HTTP/1, and in HTTP/2 with
// GOAWAY, after which open streams still end.
func (a *App) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.stopping.Load() {
			w.Header().Set("Connection", "close") // net/http makes a GOAWAY of it
		}
		next.ServeHTTP(w, r)
	})
}

// waking wakes the delivery of webhooks after each request that may have written an event: one that changes something, other than the
// exchanges and refreshes of tokens, of which only a replay writes one. So the event leaves at once, although an idle server polls
// rarely. Events of other processes are found by polling.
func waking(wake func(), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return
		}
		if r.URL.Path == "/oauth/token" && telemetry.EventOf(r.Context()).Refresh != telemetry.RefreshReplayed {
			return
		}
		wake()
	})
}
