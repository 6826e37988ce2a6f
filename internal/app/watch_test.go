package app

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"connect-svc/docs"
	"connect-svc/internal/alerts"
	"connect-svc/internal/overview"
	"connect-svc/internal/telemetry"
	"connect-svc/internal/testing/wait"
)

// watches lets time pass, with a look at each interval.
func (e *endToEnd) watches(t *testing.T, d time.Duration, each func()) {
	t.Helper()
	for range d / alerts.Interval {
		e.db.Clock.Advance(alerts.Interval)
		if each != nil {
			each()
		}
		if err := e.app.Look(t.Context(), e.db.Clock.Now()); err != nil {
			t.Fatal(err)
		}
	}
}

// firing are the names of the alerts that fire.
func (e *endToEnd) firing() (names []string) {
	for _, alert := range e.app.Firing() {
		names = append(names, alert.Name)
	}
	return names
}

// A fault raises the alert of docs/alerts.yaml that is for it, after the time that is written there, on this server and in its
// row; when it is over, the alert ends.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	e := newEndToEnd(t)
	e.watches(t, 10*time.Minute, nil)
	if names := e.firing(); len(names) != 0 {
		t.Fatalf("while all is well there fire %q", names)
	}
	_, token := e.connect(t)
	e.db.Exec(t, "alter table rate_limits rename to gone")
	began := e.db.Clock.Now()
	e.watches(t, 2*time.Minute, func() {
		if status := e.read(t, token); status != http.StatusServiceUnavailable {
			t.Fatalf("without the limiter's table a read answers %d", status)
		}
	})
	if names := e.firing(); len(names) != 0 {
		t.Errorf("after two minutes there fire %q", names)
	}
	e.watches(t, 4*time.Minute, nil)
	firing := e.app.Firing()
	if names := strings.Join(e.firing(), " "); names != "ConnectFailing ConnectLimiterFailing" {
		t.Fatalf("after six minutes there fire %q", names)
	}
	limiter := firing[1]
	if limiter.Severity != "page" || limiter.Summary != "The rate limiter cannot decide: reads get 503." ||
		limiter.Since.Before(began) || limiter.Since.After(began.Add(time.Minute)) {
		t.Errorf("the alert is %+v", limiter)
	}
	servers, err := e.app.Servers(t.Context())
	if err != nil || len(servers) != 1 || len(servers[0].Alerts) != 2 || servers[0].Alerts[1].Name != limiter.Name {
		t.Errorf("the servers are %+v, %v", servers, err)
	}
	e.db.Exec(t, "alter table gone rename to rate_limits")
	e.watches(t, 10*time.Minute, nil)
	if names := e.firing(); len(names) != 0 {
		t.Errorf("when it is over there fire %q", names)
	}
}

// What an operator looks at or does in the console is allowed to take long, as a report of all partners or an offboarding does, and
// nobody is called for it. The same requests of a partner raise both alerts.
func TestConsoleRaisesNoAlerts(t *testing.T) {
	t.Parallel()
	e := newEndToEnd(t)
	slow := func(operations ...string) {
		t.Helper()
		e.watches(t, 16*time.Minute, func() {
			for _, operation := range operations {
				for _, status := range []int{http.StatusOK, http.StatusServiceUnavailable} {
					e.app.Observe(&telemetry.Event{Operation: operation, Status: status, Duration: 3 * time.Second})
				}
			}
		})
	}
	slow("/console", "/console/partners", "/console/partners/{partner}/offboard")
	if names := e.firing(); len(names) != 0 {
		t.Errorf("for the console there fire %q", names)
	}
	slow("readDailyActivity")
	if names := strings.Join(e.firing(), " "); names != "ConnectFailing ConnectSlow" {
		t.Errorf("for reads there fire %q", names)
	}
}

// A server that was killed is known by the others; one that stopped is not expected back.
func TestServerGoesDown(t *testing.T) {
	t.Parallel()
	e := newEndToEnd(t)
	other := overview.New(e.app.Pool, "other", "v1", "abc", e.db.Clock.Now())
	here := func() {
		if err := other.Here(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	e.watches(t, 3*time.Minute, here)
	if names := e.firing(); len(names) != 0 {
		t.Errorf("while both are up there fire %q", names)
	}
	e.watches(t, 4*time.Minute, nil)
	if names := e.firing(); len(names) != 1 || names[0] != "ConnectDown" {
		t.Errorf("when the other one says nothing any more there fire %q", names)
	}
	e.watches(t, time.Minute, here)
	if names := e.firing(); len(names) != 0 {
		t.Errorf("when it is back there fire %q", names)
	}
	if err := other.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.watches(t, 4*time.Minute, nil)
	if names := e.firing(); len(names) != 0 {
		t.Errorf("when it has stopped there fire %q", names)
	}
}

// While the database is away nobody knows of the other servers: those that were down still are, and for as long.
func TestServerIsDownWhileNobodyKnows(t *testing.T) {
	t.Parallel()
	e := newEndToEnd(t)
	if err := overview.New(e.app.Pool, "other", "v1", "abc", e.db.Clock.Now()).Here(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	e.watches(t, 4*time.Minute, nil)
	before := e.app.Firing()
	if len(before) != 1 || before[0].Name != "ConnectDown" {
		t.Fatalf("when the other one says nothing there fire %+v", before)
	}
	free := e.hold(t, "lock table servers in access exclusive mode")
	e.app.SetProbeLimit(20 * time.Millisecond)
	e.db.Clock.Advance(alerts.Interval)
	if err := e.app.Look(t.Context(), e.db.Clock.Now()); err == nil {
		t.Error("a look at a locked table found no fault")
	}
	if diff := cmp.Diff(before, e.app.Firing()); diff != "" {
		t.Errorf("while nobody knows (-before +now):\n%s", diff)
	}
	free()
	e.app.SetProbeLimit(wait.Patient.Probe)
	e.watches(t, alerts.Interval, nil)
	if diff := cmp.Diff(before, e.app.Firing()); diff != "" {
		t.Errorf("after it (-before +now):\n%s", diff)
	}
}

// Where the database is away, a look gives up and says so; the alerts of what this server knows by itself are right.
func TestWatchWithoutDatabase(t *testing.T) {
	t.Parallel()
	e := newEndToEnd(t)
	e.watches(t, time.Minute, nil)
	free := e.hold(t, "lock table servers in access exclusive mode")
	e.app.SetProbeLimit(20 * time.Millisecond)
	e.db.Clock.Advance(alerts.Interval)
	if err := e.app.Look(t.Context(), e.db.Clock.Now()); err == nil {
		t.Error("a look at a locked table found no fault")
	}
	free()
	e.app.SetProbeLimit(wait.Patient.Probe)
	e.watches(t, alerts.Interval, nil)
}

// Each alert has its advice in the guide.
func TestGuide(t *testing.T) {
	t.Parallel()
	guide := docs.Guide()
	names := regexp.MustCompile(`alert: (\w+)`).FindAllSubmatch(docs.Alerts, -1)
	if len(names) != len(guide) || len(names) < 10 {
		t.Errorf("%d alerts, and advice for %d", len(names), len(guide))
	}
	for _, name := range names {
		if advice := guide[string(name[1])]; len(advice.Meaning) < 10 || len(advice.Do) < 10 || strings.Contains(advice.Do, "](") {
			t.Errorf("%s: %+v", name[1], advice)
		}
	}
}
