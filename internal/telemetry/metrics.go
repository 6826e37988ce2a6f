package telemetry

import (
	"log/slog"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// namespace begins the name of every metric of the service's own.
const namespace = "connect"

// DurationBounds are the upper bounds of the buckets that durations of requests are counted in, in seconds. They are
// dense where the service should be, and end where a request is broken off.
var DurationBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Metrics are what Prometheus reads. No label has more values than the program has names for: an operation, a status,
// an outcome. Clients are told apart by the usage counters of internal/usage, and users not at all; the metrics of
// webhooks alone have the names of clients.
type Metrics struct {
	registry  *prometheus.Registry
	handler   http.Handler
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	limiter   *prometheus.CounterVec
	refreshes *prometheus.CounterVec
}

// NewMetrics returns the metrics of requests, of the Go runtime and of the process. Problems of a reading are logged.
func NewMetrics(logger *slog.Logger) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "requests_total",
			Help: "Answered requests by operation and HTTP status.",
		}, []string{"operation", "status"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "request_duration_seconds",
			Help:    "Time from the request's head to the end of its answer, by operation and HTTP status.",
			Buckets: DurationBounds,
		}, []string{"operation", "status"}),
		limiter: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "limiter_decisions_total",
			Help: "What the rate limiter said to reads: admitted, refused for the rate or the concurrency, or failed.",
		}, []string{"decision"}),
		refreshes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "refreshes_total",
			Help: "Refresh tokens presented: rotated, replayed (the connection was revoked), lapsed, refused otherwise, or failed.",
		}, []string{"outcome"}),
	}
	// What never happened yet is 0 and not absent, or the first time would be no increase.
	for _, decision := range []LimiterDecision{LimiterAdmitted, LimiterRate, LimiterConcurrency, LimiterFailed} {
		m.limiter.WithLabelValues(string(decision))
	}
	for _, outcome := range []RefreshOutcome{RefreshRotated, RefreshReplayed, RefreshLapsed, RefreshRefused, RefreshFailed} {
		m.refreshes.WithLabelValues(string(outcome))
	}
	m.Register(m.requests, m.durations, m.limiter, m.refreshes,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		Registry: m.registry,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelError),
	})
	return m
}

// Register adds what others measure. Two metrics of one name are a mistake in the program: it panics.
func (m *Metrics) Register(collectors ...prometheus.Collector) {
	m.registry.MustRegister(collectors...)
}

// Counter adds a count that is kept elsewhere and only grows. The labels never change.
func (m *Metrics) Counter(name, help string, labels prometheus.Labels, value func() float64) {
	m.Register(prometheus.NewCounterFunc(
		prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: labels}, value))
}

// Gauge adds a number that is known elsewhere. The labels never change.
func (m *Metrics) Gauge(name, help string, labels prometheus.Labels, value func() float64) {
	m.Register(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: labels}, value))
}

// Observe counts one request. It is an observer of [Requests].
func (m *Metrics) Observe(event *Event) {
	status := strconv.Itoa(event.Status)
	m.requests.WithLabelValues(event.Operation, status).Inc()
	m.durations.WithLabelValues(event.Operation, status).Observe(event.Duration.Seconds())
	if event.Limiter != "" {
		m.limiter.WithLabelValues(string(event.Limiter)).Inc()
	}
	if event.Refresh != "" {
		m.refreshes.WithLabelValues(string(event.Refresh)).Inc()
	}
}

// ServeHTTP answers a reading by Prometheus.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Gatherer is what ServeHTTP shows.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }
