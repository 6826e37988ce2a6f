package app_test

import (
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/docs"
	"connect-svc/internal/admin/servers"
	"connect-svc/internal/app"
	"connect-svc/internal/foundation/alerts"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/logtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// watches lets time pass, with a look at each interval.
func watches(t *testing.T, e *e2e.Service, d time.Duration, each func()) {
	t.Helper()
	for range d / alerts.Interval {
		e.DB.Clock.Advance(alerts.Interval)
		if each != nil {
			each()
		}
		if err := e.App.Look(t.Context(), e.DB.Clock.Now()); err != nil {
			t.Fatal(err)
		}
	}
}

// firing are the names of the alerts that fire.
func firing(e *e2e.Service) (names []string) {
	for _, alert := range e.App.Firing() {
		names = append(names, alert.Name)
	}
	return names
}

// A restored database asks for a reconciliation, once.
func TestRestoredDatabase(t *testing.T) {
	pgtest.NotOnCluster(t, "its history is not watched")
	t.Parallel()
	log := new(logtest.Buffer)
	e := e2e.New(t, func(config *app.Config) { config.Logger = telemetry.NewLogger(log, slog.LevelInfo) })
	const asks = "connect-svc restore reconcile"
	watches(t, e, time.Minute, nil)
	if strings.Contains(log.String(), asks) {
		t.Errorf("a database that was not restored asks:\n%s", log)
	}
	e.DB.Exec(t, "update database_history set reconciled = 'another'")
	watches(t, e, time.Minute, nil)
	if strings.Count(log.String(), asks) != 1 {
		t.Errorf("the log:\n%s", log)
	}
}

// A fault raises the alert of docs/alerts.yaml that is for it, after the time that is written there, on this server and in its
// row; when it is over, the alert ends.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	watches(t, e, 10*time.Minute, nil)
	if names := firing(e); len(names) != 0 {
		t.Fatalf("while all is well there fire %q", names)
	}
	_, token := e.Connect(t)
	e.DB.Exec(t, "alter table rate_limits rename to gone")
	began := e.DB.Clock.Now()
	watches(t, e, 2*time.Minute, func() {
		if status := e.Read(t, token); status != http.StatusServiceUnavailable {
			t.Fatalf("without the limiter's table a read answers %d", status)
		}
	})
	if names := firing(e); len(names) != 0 {
		t.Errorf("after two minutes there fire %q", names)
	}
	watches(t, e, 4*time.Minute, nil)
	fired := e.App.Firing()
	if names := strings.Join(firing(e), " "); names != "ConnectFailing ConnectLimiterFailing" {
		t.Fatalf("after six minutes there fire %q", names)
	}
	limiter := fired[1]
	if limiter.Severity != "page" || limiter.Summary != "The rate limiter cannot decide: reads get 503." ||
		limiter.Since.Before(began) || limiter.Since.After(began.Add(time.Minute)) {
		t.Errorf("the alert is %+v", limiter)
	}
	servers, err := e.App.Servers(t.Context())
	if err != nil || len(servers) != 1 || len(servers[0].Alerts) != 2 || servers[0].Alerts[1].Name != limiter.Name {
		t.Errorf("the servers are %+v, %v", servers, err)
	}
	e.DB.Exec(t, "alter table gone rename to rate_limits")
	watches(t, e, 10*time.Minute, nil)
	if names := firing(e); len(names) != 0 {
		t.Errorf("when it is over there fire %q", names)
	}
}

// An operator's requests in the console may take long, such as a report of all partners or an offboarding, and raise no alert. The
// same requests of a partner raise both alerts.
func TestConsoleRaisesNoAlerts(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	slow := func(operations ...string) {
		t.Helper()
		watches(t, e, 16*time.Minute, func() {
			for _, operation := range operations {
				for _, status := range []int{http.StatusOK, http.StatusServiceUnavailable} {
					e.App.Observe(&telemetry.Event{Operation: operation, Status: status, Duration: 3 * time.Second})
				}
			}
		})
	}
	slow("/console", "/console/partners", "/console/partners/{partner}/offboard")
	if names := firing(e); len(names) != 0 {
		t.Errorf("for the console there fire %q", names)
	}
	slow("readDailyActivity")
	if names := strings.Join(firing(e), " "); names != "ConnectFailing ConnectSlow" {
		t.Errorf("for reads there fire %q", names)
	}
}

// A server that was killed is known by the others; one that stopped is not expected back.
func TestServerGoesDown(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	other := servers.New(e.App.Pool, "other", "v1", "abc", e.DB.Clock.Now())
	here := func() {
		if err := other.Heartbeat(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	watches(t, e, 3*time.Minute, here)
	if names := firing(e); len(names) != 0 {
		t.Errorf("while both are up there fire %q", names)
	}
	watches(t, e, 4*time.Minute, nil)
	if names := firing(e); len(names) != 1 || names[0] != "ConnectDown" {
		t.Errorf("when the other one says nothing any more there fire %q", names)
	}
	watches(t, e, time.Minute, here)
	if names := firing(e); len(names) != 0 {
		t.Errorf("when it is back there fire %q", names)
	}
	if err := other.Deregister(t.Context()); err != nil {
		t.Fatal(err)
	}
	watches(t, e, 4*time.Minute, nil)
	if names := firing(e); len(names) != 0 {
		t.Errorf("when it has stopped there fire %q", names)
	}
}

// The alert of a server that was killed names it, and ends when another process starts on its host. A process on another host ends
// nothing; an operator does.
func TestDownEnds(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	start := func(host string) *servers.Servers {
		t.Helper()
		other := servers.New(e.App.Pool, host, "v1", "abc", e.DB.Clock.Now())
		if err := other.Heartbeat(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		return other
	}
	down := func(when string, want ...string) {
		t.Helper()
		var hosts []string
		for _, alert := range e.App.Firing() {
			if alert.Name != "ConnectDown" || alert.Summary != alert.Server+" does not answer on its private listener." {
				t.Errorf("%s there fires %+v", when, alert)
			}
			hosts = append(hosts, alert.Server)
		}
		if diff := cmp.Diff(want, hosts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	killed, gone := start("web-1"), start("web-2")
	watches(t, e, 4*time.Minute, nil)
	down("when both were killed", "web-1", "web-2")
	elsewhere, again := start("web-3"), start("web-1")
	alive := func() {
		for _, one := range []*servers.Servers{elsewhere, again} {
			if err := one.Heartbeat(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	watches(t, e, time.Minute, alive)
	down("when one has started again", "web-2")
	for _, id := range []uuid.UUID{killed.ID(), elsewhere.ID(), uuid.New()} { // the second one is alive
		if err := e.App.Dismiss(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	watches(t, e, time.Minute, alive)
	down("when others were dismissed", "web-2")
	if err := e.App.Dismiss(t.Context(), gone.ID()); err != nil {
		t.Fatal(err)
	}
	watches(t, e, alerts.Interval, alive)
	down("when it was dismissed")
	if n := pgtest.Value[int](t, e.DB, "select count(*)::int from audit_log where action = 'server.dismissed'"); n != 2 {
		t.Errorf("the audit log has %d dismissals", n)
	}
}

// A server without news sends a heartbeat at every other look, and news at once.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	sent := func() bool {
		t.Helper()
		watches(t, e, alerts.Interval, nil)
		list, err := e.App.Servers(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		return list[0].Ago < alerts.Interval/2
	}
	for look := range 6 {
		if got, want := sent(), look%2 == 0; got != want {
			t.Errorf("look %d: a heartbeat was sent: %t", look, got)
		}
	}
	if !sent() {
		t.Error("no heartbeat was sent")
	}
	for range 20 {
		e.App.Observe(&telemetry.Event{Operation: "token", Refresh: telemetry.RefreshReplayed})
	}
	if !sent() || len(firing(e)) == 0 {
		t.Errorf("no heartbeat was sent at once with %q", firing(e))
	}
}

// The first of the servers that are up sweeps, by id, and the next one when that stops or is lost, or does not sweep because a clock is wrong. It leaves no trace in the database
// if there is nothing to sweep: no row of the turns was ever locked.
func TestOneServerSweeps(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	start := func(before bool) *servers.Servers {
		for {
			other := servers.New(e.App.Pool, "other", "v1", "abc", e.DB.Clock.Now())
			if (other.ID().String() < e.App.ID()) == before {
				if err := other.Heartbeat(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				return other
			}
		}
	}
	sweptElsewhere := func(want bool, when string) {
		t.Helper()
		watches(t, e, alerts.Interval, nil)
		if e.App.SweptElsewhere() != want {
			t.Errorf("%s another server sweeps: %t", when, !want)
		}
	}
	start(false)
	sweptElsewhere(false, "beside a later one")
	first := start(true)
	sweptElsewhere(true, "beside an earlier one")
	if err := first.Deregister(t.Context()); err != nil {
		t.Fatal(err)
	}
	sweptElsewhere(false, "when that has stopped")
	start(true)
	sweptElsewhere(true, "beside another one")
	for _, wrong := range []string{"clock_ahead = interval '-2 minutes'", "clock_believed = false"} {
		e.DB.Exec(t, "update servers set "+wrong+" where host = 'other'")
		sweptElsewhere(false, "while that does not sweep, with "+wrong)
		e.DB.Exec(t, "update servers set clock_ahead = '0', clock_believed = true where host = 'other'")
	}
	start(true)
	sweptElsewhere(true, "beside one with a clock that is right")
	watches(t, e, time.Minute, nil)
	sweptElsewhere(false, "when that is lost")
	e.App.Sweep(t.Context(), e.DB.Now())
	if n := pgtest.Value[int](t, e.DB, "select count(*)::int from turns where xmax <> 0 and turn <> 'limiter'"); n != 0 {
		t.Errorf("%d turns were taken", n)
	}
}

// While the database is away nobody knows of the other servers: those that were down still are, and for as long.
func TestServerIsDownWhileNobodyKnows(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	if err := servers.New(e.App.Pool, "other", "v1", "abc", e.DB.Clock.Now()).Heartbeat(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	watches(t, e, 4*time.Minute, nil)
	before := e.App.Firing()
	if len(before) != 1 || before[0].Name != "ConnectDown" {
		t.Fatalf("when the other one says nothing there fire %+v", before)
	}
	free := e.Hold(t, "lock table servers in access exclusive mode")
	e.App.SetProbeLimit(20 * time.Millisecond)
	e.DB.Clock.Advance(alerts.Interval)
	if err := e.App.Look(t.Context(), e.DB.Clock.Now()); err == nil {
		t.Error("a look at a locked table found no fault")
	}
	if diff := cmp.Diff(before, e.App.Firing()); diff != "" {
		t.Errorf("while nobody knows (-before +now):\n%s", diff)
	}
	free()
	e.App.SetProbeLimit(wait.Patient.Probe)
	watches(t, e, alerts.Interval, nil)
	if diff := cmp.Diff(before, e.App.Firing()); diff != "" {
		t.Errorf("after it (-before +now):\n%s", diff)
	}
}

// If the database is away, an evaluation gives up and says so; alerts about what this server knows by itself are right.
func TestWatchWithoutDatabase(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	watches(t, e, time.Minute, nil)
	free := e.Hold(t, "lock table servers in access exclusive mode")
	e.App.SetProbeLimit(20 * time.Millisecond)
	e.DB.Clock.Advance(alerts.Interval)
	if err := e.App.Look(t.Context(), e.DB.Clock.Now()); err == nil {
		t.Error("a look at a locked table found no fault")
	}
	free()
	e.App.SetProbeLimit(wait.Patient.Probe)
	watches(t, e, alerts.Interval, nil)
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
