package app

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"connect-svc/internal/account"
	"connect-svc/internal/network"
	"connect-svc/internal/panics"
	"connect-svc/internal/telemetry"
	"connect-svc/internal/usage"
)

// countUsage counts a request of an authenticated client. It is an observer of telemetry.Requests.
func (a *App) countUsage(event *telemetry.Event) {
	if event.ClientID == uuid.Nil {
		return
	}
	a.Usage.Count(usage.Request{
		ClientID:  event.ClientID,
		Operation: event.Operation,
		Status:    event.Status,
		Duration:  event.Duration,
		// A request that finds all leases taken has been charged, too. See package ratelimit.
		Charged: event.Limiter == telemetry.LimiterAdmitted || event.Limiter == telemetry.LimiterConcurrency,
	})
}

// noteRefusal records a refused request of a client, or one that claimed to be from the client. It is an observer of
// telemetry.Requests.
func (a *App) noteRefusal(event *telemetry.Event) {
	clientID := cmp.Or(event.ClientID, event.ClaimedID)
	if clientID == uuid.Nil || event.Code == "" || event.Status < http.StatusBadRequest || event.Code == telemetry.CallerLeft {
		return
	}
	a.Usage.Refuse(usage.Refusal{
		ClientID: clientID, Authenticated: event.ClientID != uuid.Nil,
		Operation: event.Operation, Status: event.Status, Code: event.Code, Reason: event.Reason,
	}, event.Network)
}

// fromNetworks adds the network of the caller to the event of each request.
func fromNetworks(proxies network.Proxies, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		telemetry.EventOf(r.Context()).Network = proxies.Of(r)
		next.ServeHTTP(w, r)
	})
}

// collect adds the counts of the domains and of the database pool to the metrics. Prometheus reads them when it scrapes, so that the
// domains do not import telemetry.
func (a *App) collect() {
	a.metrics.Gauge("build_info", "1, with what this program was built from.",
		prometheus.Labels{"version": a.config.Version, "commit": a.config.Commit, "go_version": runtime.Version()},
		func() float64 { return 1 })
	a.metrics.Gauge("config_last_reload_successful", "Whether all settings could be used when they were read last, at the start or by SIGHUP.", nil, func() float64 {
		if a.lastReload().Problem != "" {
			return 0
		}
		return 1
	})
	a.collectAccounts()
	a.collectUsage()
	a.collectPool()
	a.collectReplicas()
	a.collectWebhooks()
}

func (a *App) collectAccounts() {
	const codes = "Sign-in codes: made (sent), refused by the hourly limits (limited), and the results of attempts."
	for _, outcome := range account.CodeOutcomes {
		a.metrics.Counter("sign_in_codes_total", codes, prometheus.Labels{"outcome": outcome},
			func() float64 { return float64(a.Accounts.Counts().Codes[outcome]) })
	}
	const emails = "Emails that this server handed to the mail server (sent), and those that were refused or given up (failed)."
	a.metrics.Counter("emails_total", emails, prometheus.Labels{"outcome": "sent"},
		func() float64 { return float64(a.Accounts.Counts().EmailsSent) })
	a.metrics.Counter("emails_total", emails, prometheus.Labels{"outcome": "failed"},
		func() float64 { return float64(a.Accounts.Counts().EmailsFailed) })
	a.metrics.Counter("mail_server_failures_total", "Sessions that the mail server refused, and attempts to reach it in vain.", nil,
		func() float64 { return float64(a.Accounts.Counts().MailRefusals) })
	waiting := prometheus.NewDesc("connect_emails_waiting", "Emails that wait to be sent, in the database: the same on every server.", nil, nil)
	oldest := prometheus.NewDesc("connect_emails_oldest_waiting_seconds", "Age of the oldest of them; 0 where there is none.", nil, nil)
	a.metrics.RegisterAsking(&scraped{a.logger, a.config.Limits.Scrape, "emails", []*prometheus.Desc{waiting, oldest}, func(ctx context.Context, tell teller) error {
		count, age, err := a.Accounts.EmailsWaiting(ctx)
		if err != nil {
			return err
		}
		tell(waiting, prometheus.GaugeValue, float64(count))
		tell(oldest, prometheus.GaugeValue, age.Seconds())
		return nil
	}})
}

func (a *App) collectUsage() {
	a.metrics.Gauge("usage_rows_waiting", "Counts of usage that wait to be written to the database.", nil,
		func() float64 { rows, _ := a.Usage.Waiting(); return float64(rows) })
	a.metrics.Counter("usage_uncounted_requests_total", "Requests missing in the counts of usage, because too many rows waited.", nil,
		func() float64 { _, dropped := a.Usage.Waiting(); return float64(dropped) })
}

func (a *App) collectPool() {
	const connections = "Connections of the database pool by state."
	a.metrics.Gauge("database_connections", connections, prometheus.Labels{"state": "in_use"},
		func() float64 { return float64(a.Pool.Stat().AcquiredConns()) })
	a.metrics.Gauge("database_connections", connections, prometheus.Labels{"state": "idle"},
		func() float64 { return float64(a.Pool.Stat().IdleConns()) })
	a.metrics.Gauge("database_connections", connections, prometheus.Labels{"state": "connecting"},
		func() float64 { return float64(a.Pool.Stat().ConstructingConns()) })
	a.metrics.Gauge("database_connections_limit", "Connections that the database pool may have.", nil,
		func() float64 { return float64(a.Pool.Stat().MaxConns()) })
	a.metrics.Counter("database_acquires_total", "Connections taken from the pool.", nil,
		func() float64 { return float64(a.Pool.QueueStats().Acquired) })
	a.metrics.Counter("database_waits_total", "Acquires that waited because the pool had no free connection.", nil,
		func() float64 { return float64(a.Pool.QueueStats().Waited) })
	a.metrics.Counter("database_wait_seconds_total", "Time spent waiting because the pool had no free connection.", nil,
		func() float64 { return a.Pool.QueueStats().WaitTime.Seconds() })
	a.metrics.Counter("database_canceled_waits_total", "Acquires that were given up, or refused because too many waited.", nil,
		func() float64 { return float64(a.Pool.QueueStats().GivenUp) })
	a.metrics.Gauge("database_waiting", "Statements that wait for a connection.", nil,
		func() float64 { return float64(a.Pool.QueueStats().Waiting) })
}

func (a *App) collectReplicas() {
	if a.Replicas == nil {
		return
	}
	const replicas = "Read replicas in use (used), and replicas that are down or more than 5 s behind (left_out)."
	a.metrics.Gauge("database_replicas", replicas, prometheus.Labels{"state": "used"},
		func() float64 { return float64(a.Replicas.Counts().Used) })
	a.metrics.Gauge("database_replicas", replicas, prometheus.Labels{"state": "left_out"},
		func() float64 { return float64(a.Replicas.Counts().LeftOut) })
	const reads = "Reads that a replica answered, and reads that failed there and were answered by the primary."
	a.metrics.Counter("database_replica_reads_total", reads, prometheus.Labels{"outcome": "answered"},
		func() float64 { return float64(a.Replicas.Counts().Answered) })
	a.metrics.Counter("database_replica_reads_total", reads, prometheus.Labels{"outcome": "failed"},
		func() float64 { return float64(a.Replicas.Counts().Failed) })
}

// scraped are metrics that are read from the database when Prometheus scrapes. If the database is down, only these are missing.
type scraped struct {
	logger       *slog.Logger
	limit        time.Duration // of a read
	about        string        // in the log
	descriptions []*prometheus.Desc
	ask          func(context.Context, teller) error
}

// teller adds a metric to the answer of a scrape.
type teller func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string)

// Describe implements [prometheus.Collector].
func (m *scraped) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range m.descriptions {
		descriptions <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *scraped) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), m.limit)
	defer cancel()
	err := panics.Try(func() error { // this is a goroutine of the registry
		return m.ask(ctx, func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
			metrics <- prometheus.MustNewConstMetric(d, kind, value, labels...)
		})
	})
	if err != nil {
		m.logger.Warn("metrics of "+m.about, "cause", err)
	}
}

// collectWebhooks adds the delivery of webhooks, by client name. Only these metrics have a client as a label: the operator must see
// which receiver is down, and there are only as many clients as the operator has registered.
func (a *App) collectWebhooks() {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("connect_webhook_"+name, help, append([]string{"client"}, labels...), nil)
	}
	pending := describe("events_pending", "Events that wait to be delivered, in the database: the same on every server.")
	oldest := describe("oldest_pending_seconds", "Age of the oldest of them; 0 where there is none.")
	settled := describe("events_total", "Events that this server delivered, or gave up (failed).", "outcome")
	failed := describe("failed_attempts_total", "Delivery attempts of this server that failed.")
	a.metrics.RegisterAsking(&scraped{a.logger, a.config.Limits.Scrape, "webhooks", []*prometheus.Desc{pending, oldest, settled, failed}, func(ctx context.Context, tell teller) error {
		all, err := a.Webhooks.Stats(ctx)
		if err != nil {
			return err
		}
		for _, s := range all {
			tell(pending, prometheus.GaugeValue, float64(s.Pending), s.Client)
			tell(oldest, prometheus.GaugeValue, s.Oldest.Seconds(), s.Client)
			tell(settled, prometheus.CounterValue, float64(s.Delivered), s.Client, "delivered")
			tell(settled, prometheus.CounterValue, float64(s.Failed), s.Client, "failed")
			tell(failed, prometheus.CounterValue, float64(s.FailedAttempts), s.Client)
		}
		return nil
	}})
}
