package alerts

import (
	"slices"
	"strings"
	"time"
)

// Severities of rules.
const (
	page   = "page"
	ticket = "ticket"
)

// subjectMark stands for the rule's subject in its summary.
const subjectMark = "{subject}"

// rule is a rule of docs/alerts.yaml.
type rule struct {
	name, severity string
	hold           time.Duration // how long the condition must be met before the alert fires
	summary        string
	met            func(*history) []string // the subjects that meet the condition; a rule without subjects returns one empty string
}

// kept lists the metrics that the rules read and the longest window for which a rule needs them; 0 means only the newest sample.
var kept = map[string]time.Duration{
	"up":                     0,
	"connect_requests_total": 5 * time.Minute,
	"connect_request_duration_seconds_bucket":      5 * time.Minute,
	"connect_limiter_decisions_total":              15 * time.Minute,
	"connect_refreshes_total":                      time.Hour,
	"connect_emails_total":                         15 * time.Minute,
	"connect_mail_server_failures_total":           5 * time.Minute,
	"connect_emails_oldest_waiting_seconds":        0,
	"connect_sign_in_codes_total":                  time.Hour,
	"connect_database_wait_seconds_total":          5 * time.Minute,
	"connect_certificate_expiry_timestamp_seconds": 0,
	"connect_config_last_reload_successful":        0,
	"connect_usage_rows_waiting":                   0,
	"connect_usage_uncounted_requests_total":       15 * time.Minute,
	"connect_webhook_oldest_pending_seconds":       0,
	"connect_webhook_events_total":                 time.Hour,
}

// rules are those of docs/alerts.yaml, in its order. Each condition is the expression of its rule there.
var rules = []rule{
	{
		name: "ConnectDown", severity: page, hold: 2 * time.Minute,
		summary: "A server does not answer on its private listener.",
		met: func(h *history) []string {
			return h.subjects("up", "instance", func(up float64) bool { return up == 0 })
		},
	},
	{
		name: "ConnectFailing", severity: page, hold: 5 * time.Minute,
		summary: "More than 1 % of requests fail inside.",
		met: func(h *history) []string {
			failed := h.increase("connect_requests_total", 5*time.Minute, func(l Labels) bool {
				return len(l["status"]) == 3 && l["status"][0] == '5' && (served(l) || l["operation"] == "healthz")
			})
			all := h.increase("connect_requests_total", 5*time.Minute, served)
			return when(failed/all > 0.01)
		},
	},
	{
		name: "ConnectSlow", severity: ticket, hold: 10 * time.Minute,
		summary: subjectMark + ": one request in a hundred takes longer than a second.",
		met: func(h *history) (operations []string) {
			const buckets = "connect_request_duration_seconds_bucket"
			inTime := h.increaseBy("operation", buckets, 5*time.Minute, func(l Labels) bool { return l["le"] == "1" && served(l) })
			all := h.increaseBy("operation", buckets, 5*time.Minute, func(l Labels) bool { return l["le"] == "+Inf" && served(l) })
			for operation, n := range all {
				if inTime[operation] < 0.99*n {
					operations = append(operations, operation)
				}
			}
			return operations
		},
	},
	{
		name: "ConnectLimiterFailing", severity: page, hold: 5 * time.Minute,
		summary: "The rate limiter cannot decide: reads get 503.",
		met: func(h *history) []string {
			return when(h.increase("connect_limiter_decisions_total", 5*time.Minute, has("decision", "failed")) > 0)
		},
	},
	{
		name: "ConnectRefusingReads", severity: ticket, hold: 30 * time.Minute,
		summary: "The rate policies refuse a fifth of all reads.",
		met: func(h *history) []string {
			refused := h.increase("connect_limiter_decisions_total", 15*time.Minute, has("decision", "rate", "concurrency"))
			all := h.increase("connect_limiter_decisions_total", 15*time.Minute, nil)
			return when(refused/all > 0.2)
		},
	},
	{
		name: "ConnectRefreshReplays", severity: ticket,
		summary: "Used refresh tokens are replayed: their connections are being revoked.",
		met: func(h *history) []string {
			return when(h.increase("connect_refreshes_total", time.Hour, has("outcome", "replayed")) > 10)
		},
	},
	{
		name: "ConnectMailFailing", severity: page, hold: 5 * time.Minute,
		summary: "One-time codes cannot be sent: users cannot sign in.",
		met: func(h *history) []string {
			return when(h.increase("connect_emails_total", 15*time.Minute, has("outcome", "failed")) > 0 ||
				h.increase("connect_mail_server_failures_total", 5*time.Minute, nil) > 3)
		},
	},
	{
		name: "ConnectMailWaiting", severity: ticket, hold: time.Minute,
		summary: "One-time codes wait for the mail server for more than a minute.",
		met: func(h *history) []string {
			return h.subjects("connect_emails_oldest_waiting_seconds", "", func(age float64) bool { return age > 60 })
		},
	},
	{
		name: "ConnectCodesGuessed", severity: ticket,
		summary: "More wrong one-time codes are entered than codes are sent: somebody guesses.",
		met: func(h *history) []string {
			rejected := h.increase("connect_sign_in_codes_total", time.Hour, has("outcome", "rejected"))
			sent := h.increase("connect_sign_in_codes_total", time.Hour, has("outcome", "sent"))
			return when(rejected > 50 && rejected > sent)
		},
	},
	{
		name: "ConnectDatabasePoolExhausted", severity: ticket, hold: 10 * time.Minute,
		summary: "Requests wait for a database connection for more than one second a second.",
		met: func(h *history) []string {
			const window = 5 * time.Minute
			return when(h.increase("connect_database_wait_seconds_total", window, nil)/window.Seconds() > 1)
		},
	},
	{
		name: "ConnectCertificateEnds", severity: ticket, hold: time.Hour,
		summary: "The certificate of a server's " + subjectMark + " listener ends within 14 days, or has ended.",
		met: func(h *history) []string {
			soon := float64(h.now.UnixMilli())/1000 + 14*24*3600
			return h.subjects("connect_certificate_expiry_timestamp_seconds", "listener", func(end float64) bool { return end < soon })
		},
	},
	{
		name: "ConnectReloadFailed", severity: ticket,
		summary: "A server could not use all settings that it read again: it runs with older ones, or without some operator tokens.",
		met: func(h *history) []string {
			return h.subjects("connect_config_last_reload_successful", "", func(successful float64) bool { return successful == 0 })
		},
	},
	{
		name: "ConnectUsageNotCounted", severity: ticket, hold: 5 * time.Minute,
		summary: "Counts of usage cannot be written.",
		met: func(h *history) []string {
			waiting := h.subjects("connect_usage_rows_waiting", "", func(rows float64) bool { return rows > 5000 })
			return append(waiting, when(h.increase("connect_usage_uncounted_requests_total", 15*time.Minute, nil) > 0)...)
		},
	},
	{
		name: "ConnectWebhooksWaiting", severity: ticket, hold: 10 * time.Minute,
		summary: subjectMark + ": its receiver has not accepted an event for more than an hour.",
		met: func(h *history) []string {
			return h.subjects("connect_webhook_oldest_pending_seconds", "client", func(age float64) bool { return age > 3600 })
		},
	},
	{
		name: "ConnectWebhooksFailed", severity: ticket,
		summary: subjectMark + ": delivery of events was given up.",
		met: func(h *history) (clients []string) {
			for client, n := range h.increaseBy("client", "connect_webhook_events_total", time.Hour, has("outcome", "failed")) {
				if n > 0 {
					clients = append(clients, client)
				}
			}
			return clients
		},
	},
}

// served excludes probes, scrapes and the console.
func served(l Labels) bool {
	operation := l["operation"]
	return operation != "healthz" && operation != "readyz" && operation != "metrics" && !strings.HasPrefix(operation, "/console")
}

// has selects series by the value of a label.
func has(label string, values ...string) func(Labels) bool {
	return func(l Labels) bool { return slices.Contains(values, l[label]) }
}

// when is the result of a rule without subjects.
func when(met bool) []string {
	if met {
		return []string{""}
	}
	return nil
}
