package alerts

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/oasdiff/yaml"
)

// rule is a rule of docs/alerts.yaml, with its expression as a function.
type rule struct {
	name, severity, summary string
	hold                    time.Duration // how long the condition must be met before the alert fires
	met                     func(*history) []string
}

// subjectMark stands for a rule's subject in its summary: the value of the one label that it names.
var subjectMark = regexp.MustCompile(`{{ \$labels\.\w+ }}`)

// readRules reads docs/alerts.yaml.
func readRules(document []byte) (rules []rule, err error) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, For          string
				Labels, Annotations map[string]string
			}
		}
	}
	if _, err := yaml.Unmarshal(document, &file, yaml.DecodeOpts{}); err != nil {
		return nil, fmt.Errorf("alerts: %w", err)
	}
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			one := rule{name: r.Alert, severity: r.Labels["severity"], summary: r.Annotations["summary"], met: conditions[r.Alert]}
			if r.For != "" {
				one.hold, err = time.ParseDuration(r.For)
			}
			if err != nil || one.met == nil {
				return nil, fmt.Errorf("alerts: %s has no condition here, or a delay that cannot be read", r.Alert)
			}
			rules = append(rules, one)
		}
	}
	return rules, nil
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
	"connect_database_replicas":                    0,
	"connect_database_size_bytes":                  0,
	"connect_database_size_week_before_bytes":      0,
	"connect_database_wait_seconds_total":          5 * time.Minute,
	"connect_http_connections_closed_total":        5 * time.Minute,
	"connect_database_clock_believed":              0,
	"connect_database_clock_ahead_seconds":         0,
	"connect_certificate_expiry_timestamp_seconds": 0,
	"connect_config_last_reload_successful":        0,
	"connect_usage_rows_waiting":                   0,
	"connect_usage_uncounted_requests_total":       15 * time.Minute,
	"connect_webhook_oldest_pending_seconds":       0,
	"connect_webhook_events_total":                 time.Hour,
}

// conditions return the subjects that meet the expression of an alert; for an alert without subjects, one empty string.
var conditions = map[string]func(*history) []string{
	"ConnectDown": func(h *history) []string {
		return h.subjects("up", "instance", func(up float64) bool { return up == 0 })
	},
	"ConnectFailing": func(h *history) []string {
		failed := h.increase("connect_requests_total", 5*time.Minute, func(l Labels) bool {
			return len(l["status"]) == 3 && l["status"][0] == '5' && (served(l) || l["operation"] == "healthz")
		})
		all := h.increase("connect_requests_total", 5*time.Minute, served)
		return when(failed/all > 0.01)
	},
	"ConnectSlow": func(h *history) (operations []string) {
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
	"ConnectLimiterFailing": func(h *history) []string {
		return when(h.increase("connect_limiter_decisions_total", 5*time.Minute, has("decision", "failed")) > 0)
	},
	"ConnectRefusingReads": func(h *history) []string {
		refused := h.increase("connect_limiter_decisions_total", 15*time.Minute, has("decision", "rate", "concurrency"))
		all := h.increase("connect_limiter_decisions_total", 15*time.Minute, nil)
		return when(refused/all > 0.2)
	},
	"ConnectRefreshReplays": func(h *history) []string {
		return when(h.increase("connect_refreshes_total", time.Hour, has("outcome", "replayed")) > 10)
	},
	"ConnectMailFailing": func(h *history) []string {
		return when(h.increase("connect_emails_total", 15*time.Minute, has("outcome", "failed")) > 0 ||
			h.increase("connect_mail_server_failures_total", 5*time.Minute, nil) > 3)
	},
	"ConnectMailWaiting": func(h *history) []string {
		return h.subjects("connect_emails_oldest_waiting_seconds", "", func(age float64) bool { return age > 60 })
	},
	"ConnectCodesGuessed": func(h *history) []string {
		rejected := h.increase("connect_sign_in_codes_total", time.Hour, has("outcome", "rejected"))
		accepted := h.increase("connect_sign_in_codes_total", time.Hour, has("outcome", "accepted"))
		return when(rejected > 50 && rejected > accepted || rejected > 500)
	},
	"ConnectReplicaLeftOut": func(h *history) []string {
		return when(h.newest("connect_database_replicas", has("state", "left_out")) > 0)
	},
	"ConnectDatabaseGrows": func(h *history) []string {
		size := h.newest("connect_database_size_bytes", nil)
		return when(size > 1.25*h.newest("connect_database_size_week_before_bytes", nil) && size > 10e9)
	},
	"ConnectDatabasePoolExhausted": func(h *history) []string {
		const window = 5 * time.Minute
		return when(h.increase("connect_database_wait_seconds_total", window, nil)/window.Seconds() > 1)
	},
	"ConnectConnectionsRefused": func(h *history) []string {
		return when(h.increase("connect_http_connections_closed_total", 5*time.Minute, has("outcome", "refused")) > 0)
	},
	"ConnectClockNotBelieved": func(h *history) []string {
		return h.subjects("connect_database_clock_believed", "", func(believed float64) bool { return believed == 0 })
	},
	"ConnectClocksDiffer": func(h *history) []string {
		return h.subjects("connect_database_clock_ahead_seconds", "", func(ahead float64) bool { return ahead > 60 || ahead < -60 })
	},
	"ConnectCertificateEnds": func(h *history) []string {
		soon := float64(h.now.UnixMilli())/1000 + 14*24*3600
		return h.subjects("connect_certificate_expiry_timestamp_seconds", "listener", func(end float64) bool { return end < soon })
	},
	"ConnectReloadFailed": func(h *history) []string {
		return h.subjects("connect_config_last_reload_successful", "", func(successful float64) bool { return successful == 0 })
	},
	"ConnectUsageNotCounted": func(h *history) []string {
		waiting := h.subjects("connect_usage_rows_waiting", "", func(rows float64) bool { return rows > 5000 })
		return append(waiting, when(h.increase("connect_usage_uncounted_requests_total", 15*time.Minute, nil) > 0)...)
	},
	"ConnectWebhooksWaiting": func(h *history) []string {
		return h.subjects("connect_webhook_oldest_pending_seconds", "client", func(age float64) bool { return age > 3600 })
	},
	"ConnectWebhooksFailed": func(h *history) (clients []string) {
		for client, n := range h.increaseBy("client", "connect_webhook_events_total", time.Hour, has("outcome", "failed")) {
			if n > 0 {
				clients = append(clients, client)
			}
		}
		return clients
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
