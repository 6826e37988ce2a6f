package alerts

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// rule is a rule of docs/alerts.yaml, with its expression as a function.
type rule struct {
	name, severity, summary string
	hold                    time.Duration // how long the condition must be met before the alert fires
	met                     func(*readings) []string
}

// subjectMark stands for a rule's subject in its summary: the value of the one label that it names.
var subjectMark = regexp.MustCompile(`{{ \$labels\.\w+ }}`)

// conditions return the subjects that meet the expression of an alert; for an alert without subjects, one empty string.
var conditions = map[string]func(*readings) []string{
	"ConnectDown": func(r *readings) []string {
		return r.subjects("up", "instance", func(up float64) bool { return up == 0 })
	},
	"ConnectDatabaseDown":          down("database"),
	"ConnectDatabaseRefusesWrites": down("database_writes"),
	"ConnectDatabaseDiskFills": func(r *readings) []string {
		return when(r.most("connect_database_disk_free_bytes") < 0.1*r.most("connect_database_disk_bytes"))
	},
	"ConnectLimiterDown":    down("limiter"),
	"ConnectMailServerDown": down("mail_server"),
	"ConnectReplicaLeftOut": down("replica"),
	"ConnectFailing": func(r *readings) []string {
		failed := r.increase("connect_requests_total", 5*time.Minute, func(l Labels) bool {
			return len(l["status"]) == 3 && l["status"][0] == '5' && (served(l) || l["operation"] == "healthz")
		})
		all := r.increase("connect_requests_total", 5*time.Minute, served)
		return when(failed/all > 0.01)
	},
	"ConnectSlow": func(r *readings) (operations []string) {
		const buckets = "connect_request_duration_seconds_bucket"
		inTime := r.increaseBy("operation", buckets, 5*time.Minute, func(l Labels) bool { return l["le"] == "1" && timed(l) })
		all := r.increaseBy("operation", buckets, 5*time.Minute, func(l Labels) bool { return l["le"] == "+Inf" && timed(l) })
		for operation, n := range all {
			if inTime[operation] < 0.99*n {
				operations = append(operations, operation)
			}
		}
		return operations
	},
	"ConnectLimiterFailing": func(r *readings) []string {
		return when(r.increase("connect_limiter_decisions_total", 5*time.Minute, has("decision", "failed")) > 0)
	},
	"ConnectRefusingReads": func(r *readings) []string {
		refused := r.increase("connect_limiter_decisions_total", 15*time.Minute, has("decision", "rate", "concurrency"))
		all := r.increase("connect_limiter_decisions_total", 15*time.Minute, nil)
		return when(refused/all > 0.2)
	},
	"ConnectRefreshReplays": func(r *readings) []string {
		return when(r.increase("connect_refreshes_total", time.Hour, has("outcome", "replayed")) > 10)
	},
	"ConnectMailFailing": func(r *readings) []string {
		failed := r.increase("connect_emails_total", 15*time.Minute, has("outcome", "failed"))
		return when(r.increase("connect_mail_server_failures_total", 5*time.Minute, nil) > 3 ||
			failed > 3 && failed > .1*r.increase("connect_emails_total", 15*time.Minute, has("outcome", "sent")))
	},
	"ConnectMailWaiting": func(r *readings) []string {
		return when(r.most("connect_emails_oldest_waiting_seconds") > 10 && r.most("connect_emails_waiting") > 3)
	},
	"ConnectCodesGuessed": func(r *readings) []string {
		rejected := r.increase("connect_sign_in_codes_total", time.Hour, has("outcome", "rejected"))
		accepted := r.increase("connect_sign_in_codes_total", time.Hour, has("outcome", "accepted"))
		return when(rejected > 50 && rejected > accepted || rejected > 500)
	},
	"ConnectDatabaseGrows": func(r *readings) []string {
		size := r.most("connect_database_size_bytes")
		return when(size > 1.25*r.most("connect_database_size_week_before_bytes") && size > 10e9)
	},
	"ConnectDatabasePoolExhausted": func(r *readings) []string {
		const window = 5 * time.Minute
		return when(r.increase("connect_database_wait_seconds_total", window, nil)/window.Seconds() > 1)
	},
	"ConnectConnectionsRefused": func(r *readings) []string {
		return when(r.increase("connect_http_connections_closed_total", 5*time.Minute, has("outcome", "refused")) > 0)
	},
	"ConnectClockNotBelieved": func(r *readings) []string {
		return r.subjects("connect_database_clock_believed", "", func(believed float64) bool { return believed == 0 })
	},
	"ConnectClocksDiffer": func(r *readings) []string {
		return r.subjects("connect_database_clock_ahead_seconds", "", func(ahead float64) bool { return ahead > 60 || ahead < -60 })
	},
	"ConnectDatabaseNotReconciled": func(r *readings) []string {
		return r.subjects("connect_database_reconciled", "", func(reconciled float64) bool { return reconciled == 0 })
	},
	"ConnectCertificateEnds": func(r *readings) []string {
		soon := float64(r.now.UnixMilli())/1000 + 14*24*3600
		return r.subjects("connect_certificate_expiry_timestamp_seconds", "listener", func(end float64) bool { return end < soon })
	},
	"ConnectReloadFailed": func(r *readings) []string {
		return r.subjects("connect_config_last_reload_successful", "", func(successful float64) bool { return successful == 0 })
	},
	"ConnectUsageNotCounted": func(r *readings) []string {
		waiting := r.subjects("connect_usage_rows_waiting", "", func(rows float64) bool { return rows > 5000 })
		return append(waiting, when(r.increase("connect_usage_uncounted_requests_total", 15*time.Minute, nil) > 0)...)
	},
	"ConnectWebhooksWaiting": func(r *readings) []string {
		return r.subjects("connect_webhook_oldest_pending_seconds", "client", func(age float64) bool { return age > 3600 })
	},
	"ConnectWebhooksFailed": func(r *readings) (clients []string) {
		for client, n := range r.increaseBy("client", "connect_webhook_events_total", time.Hour, has("outcome", "failed")) {
			if n > 0 {
				clients = append(clients, client)
			}
		}
		return clients
	},
}

// down is the condition of a kind of dependencies: the names of those that are down.
func down(kind string) func(*readings) []string {
	return func(r *readings) (names []string) {
		for _, sample := range r.gauges["connect_dependency_up"] {
			if sample.Labels["dependency"] == kind && sample.Value == 0 {
				names = append(names, sample.Labels["name"])
			}
		}
		return names
	}
}

// served excludes probes, scrapes and the console.
func served(l Labels) bool {
	operation := l["operation"]
	return operation != "healthz" && operation != "readyz" && operation != "metrics" && !strings.HasPrefix(operation, "/console")
}

// timed also excludes the page that waits for a sandbox.
func timed(l Labels) bool { return served(l) && l["operation"] != "/developers/sandbox/" }

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
