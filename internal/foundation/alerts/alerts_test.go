package alerts_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"connect-svc/docs"
	"connect-svc/internal/foundation/alerts"
)

// stage is a process whose metrics and neighbors the test decides.
type stage struct {
	*testing.T
	*alerts.Alerts
	now      time.Time
	registry *prometheus.Registry
	limiter  *prometheus.CounterVec
	closed   *prometheus.CounterVec
	emails   *prometheus.CounterVec
	events   *prometheus.CounterVec
	took     *prometheus.HistogramVec
	up       map[string]float64
}

func newStage(t *testing.T) *stage {
	t.Helper()
	counter := func(name, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name}, []string{label})
	}
	rules, err := alerts.New(docs.Alerts)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{
		T: t, Alerts: rules, now: time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC), registry: prometheus.NewPedanticRegistry(),
		limiter: counter("connect_limiter_decisions_total", "decision"),
		closed:  counter("connect_http_connections_closed_total", "outcome"),
		emails:  counter("connect_emails_total", "outcome"),
		events:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "connect_webhook_events_total"}, []string{"client", "outcome"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "connect_request_duration_seconds", Buckets: []float64{.1, 1, 5}},
			[]string{"operation"}),
		up: map[string]float64{"here": 1},
	}
	s.registry.MustRegister(s.limiter, s.closed, s.emails, s.events, s.took)
	s.limiter.WithLabelValues("failed")
	s.closed.WithLabelValues("refused")
	s.emails.WithLabelValues("failed")
	s.emails.WithLabelValues("sent")
	return s
}

// passes lets time pass with an evaluation at each interval, before which it calls each.
func (s *stage) passes(d time.Duration, each func()) {
	s.Helper()
	for range d / alerts.Interval {
		s.now = s.now.Add(alerts.Interval)
		if each != nil {
			each()
		}
		samples, err := s.Gather(s.registry)
		if err != nil {
			s.Fatal(err)
		}
		for instance, up := range s.up {
			samples = append(samples, alerts.Sample{Metric: "up", Labels: alerts.Labels{"instance": instance}, Value: up})
		}
		s.Evaluate(s.now, samples)
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
	s.passes(20*time.Minute, nil)
	s.fires("while nothing happens")

	fail := func() { s.limiter.WithLabelValues("failed").Inc() }
	s.passes(alerts.Interval, fail)
	began := s.now
	s.passes(5*time.Minute-alerts.Interval, fail)
	s.fires("before it has lasted for five minutes")
	s.passes(alerts.Interval, fail)
	s.fires("after five minutes",
		alerts.Alert{Name: "ConnectLimiterFailing", Severity: "page", Summary: "The rate limiter cannot decide: reads get 503.", Since: began})
	s.passes(5*time.Minute, nil)
	s.fires("when it is over")

	slow := func() {
		s.took.WithLabelValues("token").Observe(3)
		s.took.WithLabelValues("revoke").Observe(.5)
	}
	s.passes(alerts.Interval, slow)
	began = s.now
	s.passes(10*time.Minute, slow)
	s.fires("while one operation is slow", alerts.Alert{
		Name: "ConnectSlow", Severity: "ticket", Summary: "token: one request in a hundred takes longer than a second.", Since: began,
	})
	s.took.Reset()
	s.passes(5*time.Minute, nil)
	s.fires("when its series have ended")
}

// A mail server that refuses somebody's mailbox wakes nobody. One that refuses many does.
func TestMailIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sent, failed float64 // in a quarter of an hour
		fires        bool
	}{
		"one user, again and again": {0, 3, false},
		"each":                      {0, 4, true},
		"a few of many":             {50, 4, false},
		"one provider's":            {50, 6, true},
	} {
		s := newStage(t)
		s.passes(20*time.Minute, nil)
		s.passes(alerts.Interval, func() {
			s.emails.WithLabelValues("sent").Add(test.sent)
			s.emails.WithLabelValues("failed").Add(test.failed)
		})
		s.passes(10*time.Minute, nil)
		if firing := s.Firing(); (len(firing) == 1 && firing[0].Name == "ConnectMailFailing") != test.fires || len(firing) > 1 {
			t.Errorf("%s: %v", name, firing)
		}
	}
}

// The other servers report one that has gone.
func TestConnectionsAreRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.passes(10*time.Minute, func() { s.closed.WithLabelValues("replaced").Inc() })
	s.fires("while idle connections make room")
	began := s.now.Add(alerts.Interval)
	s.passes(5*time.Minute+alerts.Interval, func() { s.closed.WithLabelValues("refused").Inc() })
	s.fires("after five minutes", alerts.Alert{Name: "ConnectConnectionsRefused", Severity: "ticket",
		Summary: "A server has no place for new connections, or one network has used up its half.", Since: began})
}

func TestAnotherServerIsDown(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.up["there"] = 1
	s.passes(3*time.Minute, nil)
	s.fires("while both are up")
	s.up["there"] = 0
	s.passes(alerts.Interval, nil)
	since := s.now
	s.passes(2*time.Minute, nil)
	s.fires("two minutes after it went",
		alerts.Alert{Name: "ConnectDown", Severity: "page", Summary: "there does not answer on its private listener.", Since: since, Server: "there"})
	delete(s.up, "there") // it deregistered, or was swept
	s.passes(alerts.Interval, nil)
	s.fires("when nobody expects it")
}

// Tests and sandboxes set the clock back or far ahead.
func TestClock(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	giveUp := func() { s.events.WithLabelValues("Acme", "failed").Inc() }
	s.passes(time.Minute, giveUp)
	if firing := s.Firing(); len(firing) != 1 {
		t.Errorf("before: %v", firing)
	}
	for _, jump := range []time.Duration{-time.Hour, 48 * time.Hour, -time.Millisecond} {
		s.now = s.now.Add(jump - alerts.Interval)
		s.passes(alerts.Interval, nil)
		s.fires(fmt.Sprint("after ", jump))
	}
	s.passes(2*time.Minute, giveUp)
	if firing := s.Firing(); len(firing) != 1 || firing[0].Summary != "Acme: delivery of events was given up." {
		t.Errorf("later: %v", firing)
	}
}

// The metrics of webhooks are away while the database is: they come back with what they had, which is not news, or with more.
func TestCounterIsAway(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.events.WithLabelValues("Acme", "failed").Inc()
	s.passes(time.Minute, nil)
	if firing := s.Firing(); len(firing) != 1 {
		t.Errorf("after the first event there fires %v", firing)
	}
	s.passes(time.Hour, nil)
	s.fires("an hour later")
	s.registry.Unregister(s.events)
	s.passes(2*time.Hour, nil)
	s.registry.MustRegister(s.events)
	s.passes(time.Minute, nil)
	s.fires("when it is back")
	s.registry.Unregister(s.events)
	s.passes(time.Minute, nil)
	s.events.WithLabelValues("Acme", "failed").Inc()
	s.registry.MustRegister(s.events)
	s.passes(time.Minute, nil)
	if firing := s.Firing(); len(firing) != 1 {
		t.Errorf("when it is back with more there fires %v", firing)
	}
}

// Growth is forgotten after an hour, however long a counter grows.
func TestCountsAreBounded(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.passes(5*time.Hour, func() { s.limiter.WithLabelValues("failed").Inc() })
	if most := int(time.Hour / alerts.Interval); s.Counts() != most {
		t.Errorf("%d counts are kept, want %d", s.Counts(), most)
	}
}
