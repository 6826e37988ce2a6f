package telemetry

import (
	"log/slog"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// namespace is the prefix of the service's own metrics.
const namespace = "connect"

// DurationBounds are the upper bounds of the buckets of request durations, in seconds. They are dense where most durations are, and
// end at the longest time limit.
var DurationBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Metrics are the metrics that Prometheus scrapes. Labels have a fixed set of values: operations, statuses, outcomes. No label names a
// user, and only the metrics of webhooks name a client. Package usage counts requests by client.
type Metrics struct {
	http.Handler // answers a scrape

	registry  *prometheus.Registry // of what this process knows
	asked     *prometheus.Registry // of what other systems are asked for
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	limiter   *prometheus.CounterVec
	refreshes *prometheus.CounterVec
}

// NewMetrics returns the metrics of requests, the Go runtime and the process. It logs errors of scrapes.
func NewMetrics(logger *slog.Logger) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		asked:    prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "requests_total",
			Help: "Finished requests by operation and HTTP status.",
		}, []string{"operation", "status"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "request_duration_seconds",
			Help:    "Time from the request's headers to the end of the response, by operation and HTTP status.",
			Buckets: DurationBounds,
		}, []string{"operation", "status"}),
		limiter: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "limiter_decisions_total",
			Help: "Decisions of the rate limiter on reads: admitted, refused for the rate or the concurrency, or failed.",
		}, []string{"decision"}),
		refreshes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "refreshes_total",
			Help: "Refresh tokens presented: rotated, replayed (the connection was revoked), lapsed, refused otherwise, or failed.",
		}, []string{"outcome"}),
	}
	// Without an initial 0, the first event would not count as an increase.
	for _, decision := range []LimiterDecision{LimiterAdmitted, LimiterRate, LimiterConcurrency, LimiterFailed} {
		m.limiter.WithLabelValues(string(decision))
	}
	for _, outcome := range []RefreshOutcome{RefreshRotated, RefreshReplayed, RefreshLapsed, RefreshRefused, RefreshFailed} {
		m.refreshes.WithLabelValues(string(outcome))
	}
	m.Register(m.requests, m.durations, m.limiter, m.refreshes,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.Handler = promhttp.HandlerFor(prometheus.Gatherers{m.registry, m.asked}, promhttp.HandlerOpts{
		Registry: m.registry,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelError),
	})
	return m
}

// Register adds collectors of what this process knows. It panics if two metrics have one name, which is a bug.
func (m *Metrics) Register(collectors ...prometheus.Collector) {
	m.registry.MustRegister(collectors...)
}

// RegisterAsking adds a collector that asks another system. Only a scrape reads it.
func (m *Metrics) RegisterAsking(collector prometheus.Collector) {
	m.asked.MustRegister(collector)
}

// Counter adds a counter that reads its value from a function.
func (m *Metrics) Counter(name, help string, labels prometheus.Labels, value func() float64) {
	m.Register(prometheus.NewCounterFunc(
		prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: labels}, value))
}

// Gauge adds a gauge that reads its value from a function.
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

// Gatherer gathers what this process knows. It asks no other system.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }
