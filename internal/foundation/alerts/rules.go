package alerts

import (
	"regexp"
	"slices"
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
	"ConnectDown":                  zero("up", "instance", nil),
	"ConnectDatabaseDown":          zero("connect_dependency_up", "name", has("dependency", "database")),
	"ConnectDatabaseRefusesWrites": zero("connect_dependency_up", "name", has("dependency", "database_writes")),
	"ConnectDatabaseDiskFills": func(r *readings) []string {
		return when(r.most("connect_database_disk_free_bytes") < 0.1*r.most("connect_database_disk_bytes"))
	},
	"ConnectLimiterDown":    zero("connect_dependency_up", "name", has("dependency", "limiter")),
	"ConnectMailServerDown": zero("connect_dependency_up", "name", has("dependency", "mail_server")),
	"ConnectReplicaLeftOut": zero("connect_dependency_up", "name", has("dependency", "replica")),
	"ConnectFailing": func(r *readings) []string {
		failed := r.increase("connect_requests_total", 5*time.Minute, func(l Labels) bool {
			return len(l["status"]) == 3 && l["status"][0] == '5' && (served(l) || l["operation"] == "healthz")
		})
		all := r.increase("connect_requests_total", 5*time.Minute, served)
		return when(failed/all > 0.01)
	},
	"ConnectSlow": func(r *readings) (operations []string) {
		const buckets = "connect_request_duration_seconds_bucket"
		inTime := r.increaseBy("operation", buckets, 5*time.Minute, func(l Labels) bool { return l["le"] == "1" && served(l) })
		all := r.increaseBy("operation", buckets, 5*time.Minute, func(l Labels) bool { return l["le"] == "+Inf" && served(l) })
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
		return when(r.most("connect_database_size_bytes") > max(1.25*r.most("connect_database_size_week_before_bytes"), 10e9))
	},
	"ConnectDatabasePoolExhausted": func(r *readings) []string {
		return when(r.increase("connect_database_wait_seconds_total", 5*time.Minute, nil) > (5 * time.Minute).Seconds())
	},
	"ConnectConnectionsRefused": func(r *readings) []string {
		return when(r.increase("connect_http_connections_closed_total", 5*time.Minute, has("outcome", "refused")) > 0)
	},
	"ConnectClockNotBelieved": zero("connect_database_clock_believed", "", nil),
	"ConnectClocksDiffer": func(r *readings) []string {
		return r.subjects("connect_database_clock_ahead_seconds", "", func(ahead float64) bool { return ahead > 60 || ahead < -60 })
	},
	"ConnectDatabaseNotReconciled": zero("connect_database_reconciled", "", nil),
	"ConnectCertificateEnds": func(r *readings) []string {
		now := float64(r.now.UnixMilli()) / 1000
		return r.subjects("connect_certificate_expiry_timestamp_seconds", "listener", func(end float64) bool { return end-now < 14*24*3600 })
	},
	"ConnectReloadFailed": zero("connect_config_last_reload_successful", "", nil),
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

// zero is the condition of a gauge that is 0: the values of a label there. selected selects series; nil selects all.
func zero(metric, label string, selected func(Labels) bool) func(*readings) []string {
	return func(r *readings) (subjects []string) {
		for _, sample := range r.gauges[metric] {
			if sample.Value == 0 && (selected == nil || selected(sample.Labels)) {
				subjects = append(subjects, sample.Labels[label])
			}
		}
		return subjects
	}
}

// served excludes probes, scrapes, the console and the developers' site.
func served(l Labels) bool { return !unserved.MatchString(l["operation"]) }

var unserved = regexp.MustCompile(`^(healthz|readyz|metrics|/console.*|/developers/.*)$`)

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
