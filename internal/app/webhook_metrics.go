package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// scraped are metrics that the database is asked for when Prometheus scrapes. Where it is away there are none of these, and all
// others.
type scraped struct {
	logger       *slog.Logger
	about        string // in the log
	descriptions []*prometheus.Desc
	ask          func(context.Context, teller) error
}

// teller adds a metric to what is scraped.
type teller func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string)

// askTimeout bounds what a reading waits for the database.
const askTimeout = 4 * time.Second

// Describe implements [prometheus.Collector].
func (m *scraped) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range m.descriptions {
		descriptions <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *scraped) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if err := m.ask(ctx, func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}); err != nil {
		m.logger.Warn("metrics of "+m.about, "cause", err)
	}
}

// collectWebhooks adds how the delivery of webhooks goes, by client name. These are the one place where a client is a label: the
// operator must see whose receiver is down, and there are as many as the operator has registered partners.
func (a *App) collectWebhooks() {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("connect_webhook_"+name, help, append([]string{"client"}, labels...), nil)
	}
	pending := describe("events_pending", "Events that wait to be delivered, in the database: the same on every server.")
	oldest := describe("oldest_pending_seconds", "Age of the oldest of them; 0 where there is none.")
	settled := describe("events_total", "Events that this server delivered, or gave up (failed).", "outcome")
	failed := describe("failed_attempts_total", "Delivery attempts of this server that failed.")
	a.metrics.Register(&scraped{a.logger, "webhooks", []*prometheus.Desc{pending, oldest, settled, failed}, func(ctx context.Context, tell teller) error {
		all, err := a.Webhooks.Stats(ctx)
		for _, s := range all {
			tell(pending, prometheus.GaugeValue, float64(s.Pending), s.Client)
			tell(oldest, prometheus.GaugeValue, s.Oldest.Seconds(), s.Client)
			tell(settled, prometheus.CounterValue, float64(s.Delivered), s.Client, "delivered")
			tell(settled, prometheus.CounterValue, float64(s.Failed), s.Client, "failed")
			tell(failed, prometheus.CounterValue, float64(s.FailedAttempts), s.Client)
		}
		return err
	}})
}
