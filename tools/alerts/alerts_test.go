// Package alerts holds the service's own alerting rules (internal/foundation/alerts) to those that Prometheus is given (docs/alerts.yaml). It has
// tests only, and is in this module because the service does not need Prometheus' engine.
package alerts

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"connect-svc/docs"
	"connect-svc/internal/foundation/alerts"
)

// Both evaluate the same gauges, which change and vanish at random, at instants that are not quite regular. At each instant the same alerts
// fire, since the same time and in the same words. Every rule that reads a gauge fires and ends.
func TestRulesAreThoseOfPrometheus(t *testing.T) {
	t.Parallel()
	const scenarios, steps = 10, 1000 // of a scenario: about four hours
	began, ended := map[string]int{}, map[string]int{}
	for seed := range uint64(scenarios) {
		random := rand.New(rand.NewPCG(seed, 1))
		now := time.Date(2026, 3, 10, 12, 0, 0, int(seed)*1e6, time.UTC)
		reference, ours := newPrometheus(t), newAlerts(t)
		list := gauges()
		before := map[string]bool{}
		for step := range steps {
			now = now.Add(alerts.Interval)
			switch n := random.IntN(1000); {
			case n < 100:
				now = now.Add(time.Duration(random.IntN(6000)-3000) * time.Millisecond)
			case n < 108:
				now = now.Add(time.Duration(random.IntN(20)) * time.Minute)
			case n < 110:
				now = now.Add(-time.Duration(random.IntN(60)+1) * time.Minute)
			}
			var samples []alerts.Sample
			for _, g := range list {
				if step == 0 || random.IntN(60) == 0 {
					g.change(random)
				}
				if !g.gone {
					samples = append(samples, g.Sample)
				}
			}
			ours.Evaluate(now, samples)
			if diff := gocmp.Diff(reference.evaluate(t, now, samples), ours.Firing()); diff != "" {
				t.Fatalf("scenario %d, step %d (-Prometheus +ours):\n%s", seed, step, diff)
			}
			firing := map[string]bool{}
			for _, alert := range ours.Firing() {
				if firing[alert.Name] = true; !before[alert.Name] {
					began[alert.Name]++
				}
			}
			for name := range before {
				if !firing[name] {
					ended[name]++
				}
			}
			before = firing
		}
	}
	counted := regexp.MustCompile(`\b(rate|increase)\(`)
	for _, r := range newPrometheus(t).rules {
		if read := !counted.MatchString(r.Expr) || r.Alert == "ConnectUsageNotCounted"; read != (began[r.Alert] > 0) || read != (ended[r.Alert] > 0) {
			t.Errorf("%s fired %d times and ended %d times", r.Alert, began[r.Alert], ended[r.Alert])
		}
	}
}

// gauge is a series that has up to one of the values.
type gauge struct {
	alerts.Sample
	values []float64
	gone   bool
}

func (g *gauge) change(random *rand.Rand) {
	g.gone = random.IntN(12) == 0
	g.Value = g.values[random.IntN(len(g.values))]
	if g.Value > 1 && random.IntN(2) == 0 { // else exactly at the border
		g.Value *= random.Float64() * 2
	}
}

func gauges() (list []*gauge) {
	add := func(metric, label, value string, values ...float64) {
		g := &gauge{Sample: alerts.Sample{Metric: metric, Labels: alerts.Labels{}}, values: values}
		if label != "" {
			g.Labels[label] = value
		}
		list = append(list, g)
	}
	for _, dependency := range []string{"database", "database_writes", "limiter", "mail_server", "replica"} {
		for _, name := range []string{"a:1", "b:1"} {
			add("connect_dependency_up", "dependency", dependency, 1, 1, 0)
			list[len(list)-1].Labels["name"] = name
		}
	}
	for _, client := range []string{"Acme", "Bike & Co"} {
		add("connect_webhook_oldest_pending_seconds", "client", client, 0, 3600, 1e6)
	}
	for _, listener := range []string{"public", "private"} {
		add("connect_certificate_expiry_timestamp_seconds", "listener", listener, 1, 5e9, 5e9)
	}
	for _, instance := range []string{"here", "there", "elsewhere"} {
		add("up", "instance", instance, 1, 1, 0)
	}
	add("connect_database_size_bytes", "", "", 1e9, 2e10)
	add("connect_database_size_week_before_bytes", "", "", 1e9, 1.6e10)
	add("connect_emails_oldest_waiting_seconds", "", "", 0, 10, 60)
	add("connect_emails_waiting", "", "", 0, 3, 10)
	add("connect_database_disk_free_bytes", "", "", 1e9, 1e10, 0)
	add("connect_database_disk_bytes", "", "", 1e10, 1e11)
	add("connect_config_last_reload_successful", "", "", 1, 0)
	add("connect_database_clock_believed", "", "", 1, 0)
	add("connect_database_reconciled", "", "", 1, 0)
	add("connect_database_clock_ahead_seconds", "", "", 0, 60, -3600, 1e7)
	add("connect_usage_rows_waiting", "", "", 0, 5000, 1e5)
	return list
}

// Both evaluate counters that grow by chance, well for two hours, ill for two, and well again, and then of a process that has started again.
// Every rule that reads a counter fires when all is ill and no rule when all is well. Prometheus extrapolates: where the two differ, they
// agree again after four scrapes.
func TestCountersAgreeWithPrometheus(t *testing.T) {
	t.Parallel()
	const phase = int(2 * time.Hour / alerts.Interval)
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 2))
		now := time.Date(2026, 3, 10, 12, 0, 0, int(seed)*1e6, time.UTC)
		reference, ours := newPrometheus(t), newAlerts(t)
		s := newSeries()
		differ := map[string]int{} // for how many scrapes, by name and summary
		for step := range 4 * phase {
			if step == 3*phase {
				s, ours = newSeries(), newAlerts(t)
				continue // this scrape found nobody
			}
			now = now.Add(alerts.Interval)
			s.trouble = step/phase == 1
			s.play(random.Float64() * 2)
			samples := s.samples()
			ours.Evaluate(now, samples)
			theirs, firing := namesOf(reference.evaluate(t, now, samples)), namesOf(ours.Firing())
			for name := range maps.Keys(differ) {
				if theirs[name] == firing[name] {
					delete(differ, name)
				}
			}
			for _, names := range []map[string]bool{theirs, firing} {
				for name := range names {
					if theirs[name] != firing[name] {
						differ[name]++
					}
				}
			}
			for name, scrapes := range differ {
				if scrapes > 2*4 { // counted once or twice
					t.Fatalf("scenario %d, step %d: %s: Prometheus %t, ours %t", seed, step, name, theirs[name], firing[name])
				}
			}
			if step%phase != phase-1 {
				continue
			}
			fired := map[string]bool{}
			for name := range firing {
				alert, _, _ := strings.Cut(name, ":")
				fired[alert] = true
			}
			for _, name := range reference.names() {
				if fired[name] != (s.trouble && name != "ConnectDown") { // whose gauge is not among them
					t.Errorf("scenario %d, step %d: %s fires: %t", seed, step, name, fired[name])
				}
			}
		}
	}
}

func newAlerts(t *testing.T) *alerts.Alerts {
	t.Helper()
	a, err := alerts.New(docs.Alerts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// namesOf returns the names of alerts with their summaries.
func namesOf(firing []alerts.Alert) map[string]bool {
	names := map[string]bool{}
	for _, alert := range firing {
		names[alert.Name+": "+alert.Summary] = true
	}
	return names
}

// series are those of one server. Trouble raises every alert but ConnectDown.
type series struct {
	list    []*played
	trouble bool
}

// played is a series. A counter grows by well or ill at each step, and a gauge has that value.
type played struct {
	alerts.Sample
	counter   bool
	well, ill float64
}

func newSeries() *series {
	s := new(series)
	add := func(counter bool, well, ill float64, name string, labels ...string) {
		p := &played{alerts.Sample{Metric: "connect_" + name, Labels: alerts.Labels{}}, counter, well, ill}
		for pair := range slices.Chunk(labels, 2) {
			p.Labels[pair[0]] = pair[1]
		}
		s.list = append(s.list, p)
	}
	add(true, 10, 10, "requests_total", "operation", "requestToken", "status", "200")
	add(true, 0, 10, "requests_total", "operation", "requestToken", "status", "500")
	for _, operation := range []string{"readyz", "metrics", "/console/partners", "/developers/", "/developers/sandbox/"} {
		add(true, 50, 50, "requests_total", "operation", operation, "status", "503")
	}
	add(true, 10, 0, "request_duration_seconds_bucket", "operation", "requestToken", "le", "1")
	add(true, 10, 10, "request_duration_seconds_bucket", "operation", "requestToken", "le", "2.5")
	add(true, 10, 10, "request_duration_seconds_bucket", "operation", "requestToken", "le", "+Inf")
	for _, operation := range []string{"healthz", "/console", "/developers/", "/developers/sandbox/"} { // may be slow
		add(true, 0, 0, "request_duration_seconds_bucket", "operation", operation, "le", "1")
		add(true, 10, 10, "request_duration_seconds_bucket", "operation", operation, "le", "+Inf")
	}
	add(true, 10, 1, "limiter_decisions_total", "decision", "admitted")
	add(true, 0, 10, "limiter_decisions_total", "decision", "rate")
	add(true, 0, 5, "limiter_decisions_total", "decision", "failed")
	add(true, 0, 5, "refreshes_total", "outcome", "replayed")
	add(true, 0, 1, "emails_total", "outcome", "failed")
	add(true, 20, 1, "emails_total", "outcome", "sent")
	add(true, 0, 2, "mail_server_failures_total")
	add(true, 1, 0, "sign_in_codes_total", "outcome", "accepted")
	add(true, 0, 20, "sign_in_codes_total", "outcome", "rejected")
	add(true, 0, 3, "http_connections_closed_total", "outcome", "refused")
	add(true, 0, 1000, "database_wait_seconds_total")
	add(true, 0, 5, "usage_uncounted_requests_total")
	add(true, 0, 1, "webhook_events_total", "client", "Acme", "outcome", "failed")
	add(false, 0, 1e5, "webhook_oldest_pending_seconds", "client", "Acme")
	add(false, 0, 600, "emails_oldest_waiting_seconds")
	add(false, 0, 10, "emails_waiting")
	add(false, 1e9, 1, "database_disk_free_bytes")
	add(false, 2e9, 2e9, "database_disk_bytes")
	add(false, 1, 0, "database_clock_believed")
	add(false, 1, 0, "database_reconciled")
	add(false, 0, 3600, "database_clock_ahead_seconds")
	for _, dependency := range []string{"database", "database_writes", "limiter", "mail_server", "replica"} {
		add(false, 1, 0, "dependency_up", "dependency", dependency, "name", "a:1")
	}
	add(false, 2e10, 2e10, "database_size_bytes")
	add(false, 1.9e10, 1e10, "database_size_week_before_bytes")
	add(false, 1, 0, "config_last_reload_successful")
	add(false, 0, 0, "usage_rows_waiting")
	add(false, 1e11, 1, "certificate_expiry_timestamp_seconds", "listener", "public")
	s.play(1)
	return s
}

// play lets one step pass. Counters grow by so much of what they do.
func (s *series) play(share float64) {
	for _, p := range s.list {
		value := p.well
		if s.trouble {
			value = p.ill
		}
		if p.counter {
			value = p.Value + value*share
		}
		p.Value = value
	}
}

func (s *series) samples() (list []alerts.Sample) {
	for _, p := range s.list {
		list = append(list, p.Sample)
	}
	return list
}

func sorted(firing []alerts.Alert) []alerts.Alert {
	slices.SortFunc(firing, func(x, y alerts.Alert) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.Summary, y.Summary), x.Since.Compare(y.Since))
	})
	return firing
}
