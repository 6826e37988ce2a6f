// Package alerts holds the service's own alerting rules (internal/foundation/alerts) to those that Prometheus is given (docs/alerts.yaml). It has
// tests only, and is in this module because the service does not need Prometheus' engine.
package alerts

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"connect-svc/docs"
	"connect-svc/internal/foundation/alerts"
)

const (
	scenarios = 10
	steps     = 1000 // of a scenario: about four hours
)

// Both evaluate the same samples, of servers whose metrics rise, rest, vanish and start again, at instants that are not quite regular.
// At each instant the same alerts fire, since the same time and in the same words. Every rule fires and ends.
func TestRulesAreThoseOfPrometheus(t *testing.T) {
	t.Parallel()
	began, ended := map[string]int{}, map[string]int{}
	var names []string
	for seed := range uint64(scenarios) {
		w := newWorld(seed)
		reference := newPrometheus(t)
		names = reference.names()
		ours, err := alerts.New(docs.Alerts)
		if err != nil {
			t.Fatal(err)
		}
		before := map[string]bool{}
		for step := range steps {
			w.step()
			samples := w.samples()
			ours.Evaluate(w.now, samples)
			if diff := gocmp.Diff(reference.evaluate(t, w.now, samples), ours.Firing()); diff != "" {
				t.Fatalf("scenario %d, step %d (-Prometheus +ours):\n%s", seed, step, diff)
			}
			now := map[string]bool{}
			for _, alert := range ours.Firing() {
				if now[alert.Name] = true; !before[alert.Name] {
					began[alert.Name]++
				}
			}
			for name := range before {
				if !now[name] {
					ended[name]++
				}
			}
			before = now
		}
	}
	for _, name := range names {
		if began[name] == 0 || ended[name] == 0 {
			t.Errorf("%s fired %d times and ended %d times", name, began[name], ended[name])
		}
	}
	if len(began) != len(names) {
		t.Errorf("there fired %q", slices.Sorted(maps.Keys(began)))
	}
}

// world is a server whose metrics change at random, as seen at instants.
type world struct {
	*rand.Rand
	now  time.Time
	list []*metric
}

// metric is a series. Its behavior changes now and then.
type metric struct {
	alerts.Sample
	ranges  []float64 // a counter grows by up to one of these a step; a gauge has up to one of these
	counter bool
	above   []*metric // larger buckets of the same histogram

	most float64 // one of the ranges, for now
	gone bool
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2026, 3, 10, 12, 0, 0, int(seed)*1e6, time.UTC)}
	for _, operation := range []string{"token", "readDailyActivity", "healthz", "readyz", "metrics", "/console", "/console/partners"} {
		w.counter("connect_requests_total", []float64{0, 1, 30}, "operation", operation, "status", "200")
		w.counter("connect_requests_total", []float64{0, 0, 0, 1, 4}, "operation", operation, "status", "503")
		var above []*metric
		for _, le := range []string{"+Inf", "2.5", "1", "0.5"} {
			ranges := []float64{0, 0, 0, 1}
			if le == "0.5" {
				ranges = []float64{0, 40, 200}
			}
			m := w.counter("connect_request_duration_seconds_bucket", ranges, "operation", operation, "status", "200", "le", le)
			m.above, above = above, append(slices.Clone(above), m)
		}
	}
	for decision, ranges := range map[string][]float64{"admitted": {0, 20, 50}, "rate": {0, 0, 10, 40}, "concurrency": {0, 5}, "failed": {0, 0, 0, 2}} {
		w.counter("connect_limiter_decisions_total", ranges, "decision", decision)
	}
	for _, outcome := range []string{"rotated", "replayed"} {
		w.counter("connect_refreshes_total", []float64{0, 0, 0, 1}, "outcome", outcome)
	}
	for _, outcome := range []string{"sent", "failed"} {
		w.counter("connect_emails_total", []float64{0, 0, 0, 0, 1}, "outcome", outcome)
	}
	w.counter("connect_mail_server_failures_total", []float64{0, 0, 1})
	w.counter("connect_sign_in_codes_total", []float64{0, 0, 1, 2}, "outcome", "accepted")
	w.counter("connect_sign_in_codes_total", []float64{0, 0, 1, 2, 8}, "outcome", "rejected")
	for _, state := range []string{"used", "left_out"} {
		w.gauge("connect_database_replicas", []float64{0, 1}, "state", state)
	}
	w.gauge("connect_database_size_bytes", []float64{1e9, 2e10})
	w.gauge("connect_database_size_week_before_bytes", []float64{1e9, 1.6e10})
	for _, outcome := range []string{"refused", "replaced"} {
		w.counter("connect_http_connections_closed_total", []float64{0, 0, 0, 2}, "listener", "public", "outcome", outcome)
	}
	w.counter("connect_database_wait_seconds_total", []float64{0, 10, 50})
	w.counter("connect_usage_uncounted_requests_total", []float64{0, 0, 0, 9})
	for _, client := range []string{"Acme", "Bike & Co"} {
		w.counter("connect_webhook_events_total", []float64{0, 0, 0, 0, 1}, "client", client, "outcome", "failed")
		w.counter("connect_webhook_events_total", []float64{0, 5}, "client", client, "outcome", "delivered")
		w.gauge("connect_webhook_oldest_pending_seconds", []float64{0, 3600, 1e6}, "client", client)
	}
	for _, listener := range []string{"public", "private"} {
		w.gauge("connect_certificate_expiry_timestamp_seconds", []float64{1, 5e9, 5e9}, "listener", listener)
	}
	for _, instance := range []string{"here", "there", "elsewhere"} {
		w.gauge("up", []float64{1, 1, 0}, "instance", instance)
	}
	w.gauge("connect_emails_oldest_waiting_seconds", []float64{0, 60, 600})
	w.gauge("connect_config_last_reload_successful", []float64{1, 0})
	w.gauge("connect_database_clock_believed", []float64{1, 0})
	w.gauge("connect_database_clock_ahead_seconds", []float64{0, 60, -3600, 1e7})
	w.gauge("connect_usage_rows_waiting", []float64{0, 5000, 1e5})
	slices.SortFunc(w.list, func(a, b *metric) int { return strings.Compare(nameOf(a.Sample), nameOf(b.Sample)) })
	for _, m := range w.list {
		w.change(m)
	}
	return w
}

func (w *world) counter(name string, ranges []float64, labels ...string) *metric {
	m := &metric{Sample: alerts.Sample{Metric: name, Labels: alerts.Labels{}}, ranges: ranges, counter: true}
	for i := 0; i < len(labels); i += 2 {
		m.Labels[labels[i]] = labels[i+1]
	}
	w.list = append(w.list, m)
	return m
}

func (w *world) gauge(name string, ranges []float64, labels ...string) {
	w.counter(name, ranges, labels...).counter = false
}

// change gives a metric another behavior.
func (w *world) change(m *metric) {
	m.most = m.ranges[w.IntN(len(m.ranges))]
	if m.gone = w.IntN(12) == 0; m.gone && m.counter && m.Labels["le"] == "" {
		m.Value = 0
	}
	if !m.counter {
		if m.Value = m.most; m.most > 1 && w.IntN(2) == 0 { // else exactly at the border
			m.Value = w.Float64() * m.most * 2
		}
	}
}

// step lets some time pass.
func (w *world) step() {
	passed := alerts.Interval
	switch n := w.IntN(1000); {
	case n < 100:
		passed += time.Duration(w.IntN(6000)-3000) * time.Millisecond
	case n < 108:
		passed = time.Duration(w.IntN(20)+1) * time.Minute
	case n < 110:
		passed = -time.Duration(w.IntN(60)+1) * time.Minute
	}
	w.now = w.now.Add(passed)
	restarted := w.IntN(300) == 0
	for _, m := range w.list {
		if w.IntN(60) == 0 {
			w.change(m)
		}
		if !m.counter {
			continue
		}
		if restarted {
			m.Value = 0
		}
		grown := float64(w.IntN(int(m.most) + 1))
		m.Value += grown
		for _, bucket := range m.above {
			bucket.Value += grown
		}
	}
	if restarted {
		for _, m := range w.list {
			for _, bucket := range m.above {
				bucket.Value = max(bucket.Value, m.Value)
			}
		}
	}
}

func (w *world) samples() (list []alerts.Sample) {
	whole := map[string]bool{}
	for _, m := range w.list {
		if m.gone && m.Labels["le"] != "" {
			whole[m.Labels["operation"]] = true // a histogram has all of its buckets or none
		}
	}
	for _, m := range w.list {
		if !m.gone && (m.Labels["le"] == "" || !whole[m.Labels["operation"]]) {
			list = append(list, m.Sample)
		}
	}
	return list
}

func nameOf(sample alerts.Sample) string { return sample.Metric + fmt.Sprint(sample.Labels) } // fmt sorts maps

func sorted(firing []alerts.Alert) []alerts.Alert {
	slices.SortFunc(firing, func(x, y alerts.Alert) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.Summary, y.Summary), x.Since.Compare(y.Since))
	})
	return firing
}
