package telemetry

import (
	"log/slog"
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"connect-svc/internal/foundation/work"
)

// namespace is the prefix of the service's own metrics.
const namespace = "connect"

// durationBounds are the upper bounds of the buckets of request durations, in seconds. They are dense where most durations are, and
// end at the longest time limit.
var durationBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Metrics are the metrics that Prometheus scrapes. Labels have a fixed set of values: operations, statuses, outcomes. No label names a
// user, and only the metrics of webhooks name a client. Package usage counts requests by client.
type Metrics struct {
	http.Handler // answers a scrape
	prometheus.Gatherer

	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	limiter   *prometheus.CounterVec
	refreshes *prometheus.CounterVec
}

// NewMetrics returns the metrics of requests, the Go runtime and the process. It logs errors of scrapes.
func NewMetrics(logger *slog.Logger) *Metrics {
	registry := prometheus.NewRegistry()
	with := promauto.With(registry)
	m := &Metrics{
		Gatherer: registry,
		registry: registry,
		requests: with.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "requests_total",
			Help: "Finished requests by operation and HTTP status.",
		}, []string{"operation", "status"}),
		durations: with.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "request_duration_seconds",
			Help:    "Time from the request's headers to the end of the response, by operation and HTTP status.",
			Buckets: durationBounds,
		}, []string{"operation", "status"}),
		limiter: with.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "limiter_decisions_total",
			Help: "Decisions of the rate limiter on reads: admitted, refused for the rate or the concurrency, or failed.",
		}, []string{"decision"}),
		refreshes: with.NewCounterVec(prometheus.CounterOpts{
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
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.Handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		Registry:      registry,
		ErrorLog:      slog.NewLogLogger(logger.Handler(), slog.LevelError),
		ErrorHandling: promhttp.ContinueOnError,
	})
	return m
}

// Expect has the counters of an operation's faults begin at 0: otherwise the first ones would not be an increase.
func (m *Metrics) Expect(operation string) {
	for _, status := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable} {
		m.requests.WithLabelValues(operation, strconv.Itoa(status))
	}
}

// Tell adds the value of a metric. Labels are pairs of a name and a value.
type Tell func(kind prometheus.ValueType, name, help string, value float64, labels ...string)

// Collect adds metrics that read tells whenever metrics are gathered. If it returns an error, the rest of its metrics is missing.
func (m *Metrics) Collect(read func(Tell) error) { m.registry.MustRegister(collector(read)) }

type collector func(Tell) error

// Describe describes nothing: only reading shows which metrics there are.
func (collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(metrics chan<- prometheus.Metric) {
	tell := func(kind prometheus.ValueType, name, help string, value float64, labels ...string) {
		var names, values []string
		for pair := range slices.Chunk(labels, 2) {
			names, values = append(names, pair[0]), append(values, pair[1])
		}
		metrics <- prometheus.MustNewConstMetric(prometheus.NewDesc(namespace+"_"+name, help, names, nil), kind, value, values...)
	}
	if err := work.Try(func() error { return c(tell) }); err != nil { // this is a goroutine of the registry
		metrics <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
	}
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
