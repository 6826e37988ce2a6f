package app

import (
	"cmp"
	"context"
	"net/http"
	"runtime"
	"slices"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"connect-svc/internal/admin/usage"
	"connect-svc/internal/app/listener"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
)

// countUsage counts a request of an authenticated client, how long it took, as it does for operators, and what else happened on a day. It records a refused request of a client, or one that claimed to be from the
// client. It is an observer of telemetry.Requests.
func (a *App) countUsage(event *telemetry.Event) {
	if event.ClientID != uuid.Nil || event.Operator != "" { // strangers leave nothing
		a.Usage.Took(usage.Latency{Operation: event.Operation, Total: event.Duration, Database: event.Database, Limiter: event.Limited})
	}
	if event.ClientID != uuid.Nil {
		a.Usage.Count(usage.Request{
			ClientID:  event.ClientID,
			Operation: event.Operation,
			Status:    event.Status,
			Duration:  event.Duration,
			// A request that finds all leases taken has been charged, too. See package ratelimit.
			Charged: event.Limiter == telemetry.LimiterAdmitted || event.Limiter == telemetry.LimiterConcurrency,
		})
	}
	if event.Refresh == telemetry.RefreshRotated {
		a.Usage.Happened(event.ClientID, func(day *usage.Day) { day.Refreshed++ })
	}
	if event.CodeSent {
		a.Usage.Happened(event.CodeFor, func(day *usage.Day) { day.CodesSent++ })
	}
	if event.CodeTried {
		a.Usage.Happened(event.CodeFor, func(day *usage.Day) { day.CodesTried++ })
	}
	clientID := cmp.Or(event.ClientID, event.ClaimedID)
	if clientID == uuid.Nil || event.Code == "" || event.Status < http.StatusBadRequest || event.Code == telemetry.CallerLeft {
		return
	}
	a.Usage.AddError(usage.ErrorKind{
		ClientID: clientID, Authenticated: event.ClientID != uuid.Nil,
		Operation: event.Operation, Status: event.Status, Code: event.Code, Reason: event.Reason,
	}, event.RequestID, event.GrantID, event.Network)
}

// countSettled counts a client's event that this server delivered or gave up.
func (a *App) countSettled(clientID uuid.UUID, delivered bool) {
	if clientID == webhook.Operator {
		return
	}
	a.Usage.Happened(clientID, func(day *usage.Day) {
		if delivered {
			day.WebhooksDelivered++
		} else {
			day.WebhooksFailed++
		}
	})
}

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// collect adds the counts of the domains and of the database pool to the metrics. They are read when metrics are gathered, so that the
// domains do not import telemetry.
func (a *App) collect() {
	for _, read := range []func(telemetry.Tell){a.tellSelf, a.tellConnections, a.tellAccounts, a.tellPool, a.tellReplicas, a.tellHealth} {
		a.metrics.Collect(func(tell telemetry.Tell) error { read(tell); return nil })
	}
	for _, path := range partnerDocument().Paths.Map() {
		for _, operation := range path.Operations() {
			a.metrics.Expect(operation.OperationID)
		}
	}
	// These ask the database. If it is down, only these metrics are missing.
	for _, ask := range []func(context.Context, telemetry.Tell) error{a.tellEmails, a.tellWebhooks, a.tellSizes} {
		a.metrics.Collect(func(tell telemetry.Tell) error {
			if slices.Contains(a.down(nil), ofDatabase) {
				return errDown // a scrape must not wait for what the last look did not find
			}
			ctx, cancel := context.WithTimeout(work.AnyClock(context.Background()), a.config.Limits.Scrape)
			defer cancel()
			return ask(ctx, tell)
		})
	}
}

func (a *App) tellSelf(tell telemetry.Tell) {
	tell(gauge, "build_info", "1, with what this program was built from.", 1,
		"version", a.config.Version, "commit", a.config.Commit, "go_version", runtime.Version())
	reloaded := 1.0
	if a.lastReload().Problem != "" {
		reloaded = 0
	}
	tell(gauge, "config_last_reload_successful",
		"Whether all settings could be used when they were read last, at the start or by SIGHUP.", reloaded)
	clock, believed := a.servers.Clock(), 1.0
	if clock.Doubt != "" {
		believed = 0
	}
	tell(gauge, "database_clock_ahead_seconds", "By how much the database's clock is ahead of this server's.", clock.Ahead.Seconds())
	tell(gauge, "database_clock_believed", "Whether this server believes the database's clock. While it is 0, nothing is decided.", believed)
	reconciled := 1.0
	if a.mayLackCommits.Load() {
		reconciled = 0
	}
	tell(gauge, "database_reconciled", "0 if the database was restored, or a replica took over, and nobody has reconciled it since.", reconciled)
	a.secured(func(name string, certificate *listener.Presented) {
		tell(gauge, "certificate_expiry_timestamp_seconds", "When the certificate that a listener presents ends, in Unix time.",
			float64(certificate.Leaf().NotAfter.Unix()), "listener", name)
	})
	rows, dropped := a.Usage.Waiting()
	tell(gauge, "usage_rows_waiting", "Counts of usage that wait to be written to the database.", float64(rows))
	tell(counter, "usage_uncounted_requests_total",
		"Requests missing in the counts of usage, because too many rows waited.", float64(dropped))
}

func (a *App) tellConnections(tell telemetry.Tell) {
	for name, open := range a.listenerNames() {
		if open == nil {
			continue
		}
		counts := open.Counts()
		tell(gauge, "http_connections", "Open connections of a listener.", float64(counts.Open), "listener", name)
		tell(gauge, "http_connections_limit", "Connections that a listener may have.", float64(counts.Places), "listener", name)
		const closed = "Connections closed for lack of room: idle ones that made room for new ones (replaced), and new ones, because none was idle (refused)."
		tell(counter, "http_connections_closed_total", closed, float64(counts.Replaced), "listener", name, "outcome", "replaced")
		tell(counter, "http_connections_closed_total", closed, float64(counts.Refused), "listener", name, "outcome", "refused")
	}
}

func (a *App) tellAccounts(tell telemetry.Tell) {
	counts := a.Accounts.Counts()
	for _, outcome := range account.CodeOutcomes {
		tell(counter, "sign_in_codes_total", "Sign-in codes: made (sent), refused by the hourly limits (limited), and the results of attempts.",
			float64(counts.Codes[outcome]), "outcome", outcome)
	}
	const emails = "Emails with codes that this server handed to the mail server (sent), and those that were refused or given up (failed)."
	tell(counter, "emails_total", emails, float64(counts.EmailsSent), "outcome", "sent")
	tell(counter, "emails_total", emails, float64(counts.EmailsFailed), "outcome", "failed")
	const notices = "Emails without a code that this server handed to the mail server (sent), and those that were refused or given up (failed)."
	tell(counter, "notices_total", notices, float64(counts.NoticesSent), "outcome", "sent")
	tell(counter, "notices_total", notices, float64(counts.NoticesFailed), "outcome", "failed")
	tell(counter, "mail_server_failures_total", "Sessions that the mail server refused, and attempts to reach it in vain.",
		float64(counts.MailRefusals))
}

func (a *App) tellPool(tell telemetry.Tell) {
	conns, queue := a.Pool.Stat(), a.Pool.QueueStats()
	const connections = "Connections of the database pool by state."
	tell(gauge, "database_connections", connections, float64(conns.AcquiredConns()), "state", "in_use")
	tell(gauge, "database_connections", connections, float64(conns.IdleConns()), "state", "idle")
	tell(gauge, "database_connections", connections, float64(conns.ConstructingConns()), "state", "connecting")
	tell(gauge, "database_connections_limit", "Connections that the database pool may have.", float64(conns.MaxConns()))
	tell(counter, "database_acquires_total", "Connections taken from the pool.", float64(queue.Acquired))
	tell(counter, "database_waits_total", "Acquires that waited because the pool had no free connection.", float64(queue.Waited))
	tell(counter, "database_wait_seconds_total", "Time spent waiting because the pool had no free connection.", queue.WaitTime.Seconds())
	tell(counter, "database_canceled_waits_total", "Acquires that were given up, or refused because too many waited.", float64(queue.GivenUp))
	tell(gauge, "database_waiting", "Statements that wait for a connection.", float64(queue.Waiting))
}

func (a *App) tellReplicas(tell telemetry.Tell) {
	if a.Replicas == nil {
		return
	}
	counts := a.Replicas.Counts()
	const replicas = "Read replicas in use (used), and replicas that are down or more than 5 s behind (left_out)."
	tell(gauge, "database_replicas", replicas, float64(counts.Used), "state", "used")
	tell(gauge, "database_replicas", replicas, float64(counts.LeftOut), "state", "left_out")
	const reads = "Reads that a replica answered, and reads that failed there and were answered by the primary."
	tell(counter, "database_replica_reads_total", reads, float64(counts.Answered), "outcome", "answered")
	tell(counter, "database_replica_reads_total", reads, float64(counts.Failed), "outcome", "failed")
}

func (a *App) tellEmails(ctx context.Context, tell telemetry.Tell) error {
	count, age, err := a.Accounts.EmailsWaiting(ctx)
	if err != nil {
		return err
	}
	tell(gauge, "emails_waiting", "Emails with codes that wait to be sent, in the database: the same on every server.", float64(count))
	tell(gauge, "emails_oldest_waiting_seconds", "Age of the oldest of them; 0 where there is none.", age.Seconds())
	if count, age, err = a.Accounts.NoticesWaiting(ctx); err != nil {
		return err
	}
	tell(gauge, "notices_waiting", "Emails without a code that wait to be sent, in the database: the same on every server.", float64(count))
	tell(gauge, "notices_oldest_waiting_seconds", "Age of the oldest of them; 0 where there is none.", age.Seconds())
	return nil
}

func (a *App) tellSizes(ctx context.Context, tell telemetry.Tell) error {
	bytes, weekBefore, err := a.servers.Sizes(ctx)
	if err != nil || bytes == 0 {
		return err
	}
	tell(gauge, "database_size_bytes", "Size of the database at the first measurement of the newest day: the same on every server.", float64(bytes))
	if weekBefore > 0 {
		tell(gauge, "database_size_week_before_bytes", "The size a week before it.", float64(weekBefore))
	}
	return nil
}

// tellWebhooks tells of the delivery of webhooks by client name. Only these metrics have a client as a label: the operator must see
// which receiver is down, and there are only as many clients as the operator has registered.
func (a *App) tellWebhooks(ctx context.Context, tell telemetry.Tell) error {
	all, err := a.Webhooks.Stats(ctx)
	if err != nil {
		return err // a part of them would look as if all were well
	}
	for _, s := range all {
		tell(gauge, "webhook_events_pending", "Events that wait to be delivered, in the database: the same on every server.",
			float64(s.Pending), "client", s.Client)
		tell(gauge, "webhook_oldest_pending_seconds", "Age of the oldest of them; 0 where there is none.", s.Oldest.Seconds(), "client", s.Client)
		const settled = "Events that this server delivered, or gave up (failed)."
		tell(counter, "webhook_events_total", settled, float64(s.Delivered), "client", s.Client, "outcome", "delivered")
		tell(counter, "webhook_events_total", settled, float64(s.Failed), "client", s.Client, "outcome", "failed")
		tell(counter, "webhook_failed_attempts_total", "Delivery attempts of this server that failed.", float64(s.FailedAttempts), "client", s.Client)
	}
	return nil
}
