package app

import (
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"connect-svc/internal/account"
	"connect-svc/internal/telemetry"
	"connect-svc/internal/usage"
)

// countUsage counts a request for the client that authenticated itself. It is an observer of telemetry.Requests.
func (a *App) countUsage(event *telemetry.Event) {
	if event.ClientID == uuid.Nil {
		return
	}
	a.Usage.Count(usage.Request{
		ClientID:  event.ClientID,
		Operation: event.Operation,
		Status:    event.Status,
		Duration:  event.Duration,
		// A request that finds all leases taken stays paid for. See package ratelimit.
		Paid: event.Limiter == telemetry.LimiterAdmitted || event.Limiter == telemetry.LimiterConcurrency,
	})
}

// collect adds to the metrics of requests what the domains and the database pool count themselves. They know nothing of
// metrics: they are asked when Prometheus asks.
func (a *App) collect() {
	a.collectPool()
	a.collectReplicas()
	a.collectUsage()
	a.collectWebhooks()
	const codes = "Sign-in codes: made (sent), refused by the hourly limits (limited), and what became of tries."
	for outcome, count := range map[string]func(account.Counts) uint64{
		"sent":    func(c account.Counts) uint64 { return c.CodesSent },
		"limited": func(c account.Counts) uint64 { return c.CodesLimited },
		"right":   func(c account.Counts) uint64 { return c.CodesRight },
		"wrong":   func(c account.Counts) uint64 { return c.CodesWrong },
		"locked":  func(c account.Counts) uint64 { return c.CodesLocked },
		"expired": func(c account.Counts) uint64 { return c.CodesExpired },
	} {
		a.metrics.Counter("sign_in_codes_total", codes, prometheus.Labels{"outcome": outcome},
			func() float64 { return float64(count(a.Accounts.Counts())) })
	}
	const letters = "Letters handed to the mail server, or not."
	a.metrics.Counter("letters_total", letters, prometheus.Labels{"outcome": "sent"},
		func() float64 { return float64(a.Accounts.Counts().LettersSent) })
	a.metrics.Counter("letters_total", letters, prometheus.Labels{"outcome": "failed"},
		func() float64 { return float64(a.Accounts.Counts().LettersFailed) })
	a.metrics.Gauge("letters_waiting", "Letters that wait to be sent.", nil,
		func() float64 { return float64(a.Accounts.Counts().LettersWaiting) })
}

func (a *App) collectUsage() {
	a.metrics.Gauge("usage_rows_waiting", "Counts of usage that wait to be written to the database.", nil,
		func() float64 { rows, _ := a.Usage.Waiting(); return float64(rows) })
	a.metrics.Counter("usage_uncounted_requests_total", "Requests missing in the counts of usage, because too many of them waited.", nil,
		func() float64 { _, dropped := a.Usage.Waiting(); return float64(dropped) })
}

func (a *App) collectPool() {
	const connections = "Connections of the database pool by what they do."
	a.metrics.Gauge("database_connections", connections, prometheus.Labels{"state": "in_use"},
		func() float64 { return float64(a.Pool.Stat().AcquiredConns()) })
	a.metrics.Gauge("database_connections", connections, prometheus.Labels{"state": "idle"},
		func() float64 { return float64(a.Pool.Stat().IdleConns()) })
	a.metrics.Gauge("database_connections", connections, prometheus.Labels{"state": "connecting"},
		func() float64 { return float64(a.Pool.Stat().ConstructingConns()) })
	a.metrics.Gauge("database_connections_limit", "Connections that the database pool may have.", nil,
		func() float64 { return float64(a.Pool.Stat().MaxConns()) })
	a.metrics.Counter("database_acquires_total", "Connections taken from the pool.", nil,
		func() float64 { return float64(a.Pool.Turns().Acquired) })
	a.metrics.Counter("database_waits_total", "Connections that were waited for because the pool had none free.", nil,
		func() float64 { return float64(a.Pool.Turns().Waited) })
	a.metrics.Counter("database_wait_seconds_total", "Time spent waiting for a connection because the pool had none free.", nil,
		func() float64 { return a.Pool.Turns().WaitTime.Seconds() })
	a.metrics.Counter("database_canceled_waits_total", "Requests for a connection that were given up, or refused because too many waited.", nil,
		func() float64 { return float64(a.Pool.Turns().GivenUp) })
	a.metrics.Gauge("database_waiting", "Statements that wait for a connection.", nil,
		func() float64 { return float64(a.Pool.Turns().Waiting) })
}

func (a *App) collectReplicas() {
	if a.replicas == nil {
		return
	}
	const replicas = "Read replicas that may be read from (used), and that are down or more than 5 s behind (left_out)."
	a.metrics.Gauge("database_replicas", replicas, prometheus.Labels{"state": "used"},
		func() float64 { return float64(a.replicas.Counts().Used) })
	a.metrics.Gauge("database_replicas", replicas, prometheus.Labels{"state": "left_out"},
		func() float64 { return float64(a.replicas.Counts().LeftOut) })
	const reads = "Reads that a replica answered, and that failed there, so that the primary answered."
	a.metrics.Counter("database_replica_reads_total", reads, prometheus.Labels{"outcome": "answered"},
		func() float64 { return float64(a.replicas.Counts().Answered) })
	a.metrics.Counter("database_replica_reads_total", reads, prometheus.Labels{"outcome": "failed"},
		func() float64 { return float64(a.replicas.Counts().Failed) })
}
