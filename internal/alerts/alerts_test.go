package alerts_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"connect-svc/internal/alerts"
)

const rules = `
groups:
  - name: test
    rules:
      - alert: Down
        expr: up{job="connect-svc"} == 0
        for: 2m
        labels: {severity: page}
        annotations: {summary: "A server is away."}
      - alert: Failing
        expr: increase(failures_total[5m]) > 0
        for: 1m
        labels: {severity: ticket}
        annotations: {summary: "{{ $labels.part }} fails."}
      - alert: Slow
        expr: histogram_quantile(0.9, sum by (le) (rate(took_seconds_bucket[5m]))) > 1
        labels: {severity: ticket}
        annotations: {summary: "Half takes {{ $value | printf \"%.1f\" }} s."}
`

// stage is a process whose samples a test decides, under rules.
type stage struct {
	*testing.T
	*alerts.Alerts
	now      time.Time
	registry *prometheus.Registry
	failures *prometheus.CounterVec
	took     prometheus.Histogram
	others   map[string]bool
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, now: time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC), registry: prometheus.NewPedanticRegistry()}
	s.failures = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "failures_total"}, []string{"part"})
	s.took = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "took_seconds", Buckets: []float64{.1, 1, 2, 4}})
	s.registry.MustRegister(s.failures, s.took)
	s.failures.WithLabelValues("mail")
	s.failures.WithLabelValues("disk")
	var err error
	if s.Alerts, err = alerts.New([]byte(rules), s.registry, "here"); err != nil {
		t.Fatal(err)
	}
	return s
}

// passes lets time pass, and what happens at each evaluation.
func (s *stage) passes(d time.Duration, each func()) {
	s.Helper()
	for range d / alerts.Interval {
		s.now = s.now.Add(alerts.Interval)
		if each != nil {
			each()
		}
		if err := s.Evaluate(s.Context(), s.now, s.others); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *stage) fires(when string, want ...alerts.Alert) {
	s.Helper()
	if diff := cmp.Diff(append([]alerts.Alert{}, want...), s.Firing()); diff != "" {
		s.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func TestFiring(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.fires("before the first evaluation")
	s.passes(10*time.Minute, nil)
	s.fires("while nothing happens")

	s.failures.WithLabelValues("mail").Inc()
	s.passes(alerts.Interval, nil)
	began := s.now
	s.passes(45*time.Second, nil)
	s.fires("before it has lasted for a minute")
	s.passes(alerts.Interval, nil)
	s.fires("after a minute", alerts.Alert{Name: "Failing", Severity: "ticket", Summary: "mail fails.", Since: began})
	s.passes(10*time.Minute, nil)
	s.fires("when it is over")

	s.passes(time.Minute, func() { s.took.Observe(3) })
	if firing := s.Firing(); len(firing) != 1 || firing[0].Name != "Slow" || firing[0].Summary != "Half takes 3.8 s." {
		t.Errorf("slow: %v", firing)
	}
}

// A server that is not there any more is known by those that are.
func TestAnotherServerIsDown(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.others = map[string]bool{"there": true}
	s.passes(3*time.Minute, nil)
	s.fires("while both are up")
	s.others = map[string]bool{"there": false}
	s.passes(alerts.Interval, nil)
	since := s.now
	s.passes(2*time.Minute, nil)
	s.fires("two minutes after it went", alerts.Alert{Name: "Down", Severity: "page", Summary: "A server is away.", Since: since})
	s.others = nil // it said that it stops, or was swept
	s.passes(alerts.Interval, nil)
	s.fires("when nobody expects it")
}

// A clock that is set back or far ahead, as tests and sandboxes do, ends what was and harms nothing.
func TestClock(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.failures.WithLabelValues("disk").Inc()
	s.passes(time.Minute, func() { s.failures.WithLabelValues("disk").Inc() })
	for _, jump := range []time.Duration{-time.Hour, 48 * time.Hour, -time.Millisecond} {
		s.now = s.now.Add(jump - alerts.Interval)
		s.passes(alerts.Interval, nil)
		s.fires(fmt.Sprint("after ", jump))
	}
	s.passes(2*time.Minute, func() { s.failures.WithLabelValues("disk").Inc() })
	if firing := s.Firing(); len(firing) != 1 || firing[0].Summary != "disk fails." {
		t.Errorf("later: %v", firing)
	}
}

// However many series there are, only so many samples are kept, and it is known that some are missing.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.KeepAtMost(2_500) // of about a hundred series
	for part := range 200 {
		s.failures.WithLabelValues(fmt.Sprint(part))
	}
	s.passes(2*alerts.Interval, nil)
	if s.Dropped() < 80 || s.Dropped() > 120 {
		t.Errorf("%d series are dropped", s.Dropped())
	}
	s.failures.Reset()
	s.failures.WithLabelValues("mail")
	s.passes(10*time.Minute, nil)
	if s.Dropped() != 0 {
		t.Errorf("%d series are dropped when few are left", s.Dropped())
	}
	s.passes(2*time.Minute, func() { s.failures.WithLabelValues("mail").Inc() })
	if firing := s.Firing(); len(firing) != 1 {
		t.Errorf("then there fires %v", firing)
	}
}

func TestBadRules(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"groups: [{name: x, rules: [{alert: A, expr: 'sum('}]}]", "groups: [{name: x, rules: [{alert: A, expr: up, at: 1}]}]", "]",
	} {
		if _, err := alerts.New([]byte(bad), prometheus.NewRegistry(), "here"); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}
