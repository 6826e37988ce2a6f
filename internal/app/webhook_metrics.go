package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// webhookMetrics are how the delivery of webhooks goes, by client name. They are the one place where a client is a
// label: the operator must see whose receiver is down, and there are as many as the operator has registered partners.
type webhookMetrics struct {
	app                                      *App
	pending, oldest, settled, failedAttempts *prometheus.Desc
}

// statsTimeout bounds what a reading waits for the database.
const statsTimeout = 4 * time.Second

func (a *App) collectWebhooks() {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("connect_webhook_"+name, help, append([]string{"client"}, labels...), nil)
	}
	a.metrics.Register(&webhookMetrics{
		app:            a,
		pending:        describe("events_pending", "Events that wait to be delivered, in the database: the same on every server."),
		oldest:         describe("oldest_pending_seconds", "Age of the oldest of them; 0 where there is none."),
		settled:        describe("events_total", "Events that this server delivered, or gave up (failed).", "outcome"),
		failedAttempts: describe("failed_attempts_total", "Delivery attempts of this server that failed."),
	})
}

// Describe implements [prometheus.Collector].
func (m *webhookMetrics) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.pending, m.oldest, m.settled, m.failedAttempts} {
		descriptions <- d
	}
}

// Collect implements [prometheus.Collector]. Where the database is away there are none of these, and all others.
func (m *webhookMetrics) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), statsTimeout)
	defer cancel()
	all, err := m.app.Webhooks.Stats(ctx)
	if err != nil {
		m.app.logger.Warn("metrics of webhooks", "cause", err)
		return
	}
	for _, s := range all {
		gauge := func(d *prometheus.Desc, value float64) {
			metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, s.Client)
		}
		counter := func(d *prometheus.Desc, value uint64, labels ...string) {
			metrics <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), append([]string{s.Client}, labels...)...)
		}
		gauge(m.pending, float64(s.Pending))
		gauge(m.oldest, s.Oldest.Seconds())
		counter(m.settled, s.Delivered, "delivered")
		counter(m.settled, s.Failed, "failed")
		counter(m.failedAttempts, s.FailedAttempts)
	}
}
