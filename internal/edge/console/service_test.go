package console

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"

	"connect-svc/internal/admin/servers"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/alerts"
	"connect-svc/internal/testing/edgetest"
)

const headingService = "Service"

// hostileName is what a partner may be called.
const hostileName = `<script>alert(1)</script>"'>&`

// busyService are facts of a service with everything in it: trouble, a lost server, a hostile partner.
func busyService() Facts {
	self, other, lost := uuid.New(), uuid.New(), uuid.New()
	waiting := alerts.Alert{Name: "ConnectWebhooksWaiting", Severity: "ticket", Since: start.Add(-2 * time.Hour),
		Summary: hostileName + ": its receiver has not accepted an event for more than an hour."}
	limiter := alerts.Alert{Name: "ConnectLimiterFailing", Severity: "page", Since: start.Add(-time.Minute),
		Summary: "The rate limiter cannot decide: reads get 503."}
	f := Facts{
		At: start, Version: "v1.4.0", Commit: "0123456789abcdef0123456789abcdef01234567", Go: "go1.26.8", Contract: "1.2.3", Self: self,
		Alerts: []alerts.Alert{waiting, limiter},
		Certificates: []Certificate{
			{Listener: "public", Names: []string{"connect.example.com", "www.connect.example.com"}, NotAfter: start.Add(50 * 24 * time.Hour)},
			{Listener: "private", NotAfter: start.Add(9 * time.Hour), Problem: "is not for the host of the base URL"},
		},
		Mail:   Mail{Sent: 12345, Failed: 2, Used: true, Trouble: "454 4.7.0 " + hostileName},
		Reload: Reload{At: start.Add(-time.Hour), Problem: "CONNECT_OPERATOR_TOKENS_FILE: line 3: " + hostileName},
		Redis:  true, Limiter: Optional[time.Duration]{Known: true, Value: 1700 * time.Microsecond},
		Replicas: []Replica{
			{Name: "replica-1:5432", Used: true, Lag: 900 * time.Millisecond}, {Name: "replica-2:5432"},
		},
	}
	f.Servers = Optional[[]servers.Server]{Known: true, Value: []servers.Server{
		{ID: self, Host: "a.example.com", Version: f.Version, Commit: f.Commit, StartedAt: start.Add(-50 * time.Hour), Alerts: []alerts.Alert{limiter}},
		{ID: other, Host: "b.example.com", Version: f.Version, Commit: f.Commit, StartedAt: start.Add(-5 * time.Hour), Ago: 7 * time.Second,
			PublicCertificateEnds: new(start.Add(9 * 24 * time.Hour)),
			Alerts:                []alerts.Alert{{Name: waiting.Name, Severity: waiting.Severity, Summary: waiting.Summary, Since: start.Add(-3 * time.Hour)}}},
		{ID: lost, Host: "c.example.com", Version: "v1.3.0", Commit: f.Commit, StartedAt: start.Add(-500 * time.Hour), Ago: 3 * time.Hour,
			PublicCertificateEnds: new(start.Add(time.Hour)),
			Alerts:                []alerts.Alert{{Name: "ConnectSlow", Severity: "ticket", Summary: "token: slow", Since: start}}},
	}}
	f.Migrations = Optional[Migrations]{Known: true, Value: Migrations{Applied: 11, Known: 10}}
	f.Keys = Optional[[]Key]{Known: true, Value: []Key{
		{ID: "1234567890", Status: "retired", Since: start.Add(-9000 * time.Hour)}, {ID: "2345678901", Status: "primary", Since: start.Add(-90 * time.Hour)},
		{ID: "3456789012", Status: "next"}, {Status: "identifiers", Since: start.Add(-9000 * time.Hour)},
	}}
	f.MailWaiting = Optional[MailWaiting]{Known: true, Value: MailWaiting{Count: 3, Oldest: 80 * time.Second}}
	f.Webhooks = Optional[webhook.Queue]{Known: true, Value: webhook.Queue{
		Waiting: 12345, Due: 17, Oldest: 30 * time.Hour, Failed: 10_000,
		Ages: []webhook.Age{{UpTo: time.Minute, Count: 5}, {UpTo: 5 * time.Minute, Count: 40}, {UpTo: time.Hour, Count: 300},
			{UpTo: 6 * time.Hour, Count: 10000}, {UpTo: 24 * time.Hour, Count: 1900}, {Count: 100}},
	}}
	var database servers.Database
	database.Version, database.Bytes = "17.2", 12_345_678_901
	for day := 30; day >= 0; day-- {
		if day == 12 {
			continue // nobody looked
		}
		database.Sizes = append(database.Sizes, servers.Size{
			Day: start.Truncate(24*time.Hour).AddDate(0, 0, -day), Bytes: 12_345_678_901 - int64(day)*100_000_000,
		})
	}
	database.Tables = []servers.Table{{Name: "audit_log", Bytes: 4_000_000_000, Indexes: 3_000_000_000, Rows: 10_000_000}, {Name: "turns", Bytes: 8192}}
	f.Database = Optional[servers.Database]{Known: true, Value: database}
	return f
}

// quietService is a service just after its first start, of whose questions nobody has answered any.
func quietService() Facts {
	return Facts{At: start, Version: "development", Commit: "unknown", Go: "go1.26.8", Contract: "1.0.0", Self: uuid.New()}
}

// slow has requests take long, a week ago and lately, through the fault of the database.
func (f *fixture) slow(t testing.TB) {
	t.Helper()
	f.DB.Exec(t, `insert into latency_hours (hour, operation, requests, total_us, database_us, limiter_us, durations)
		select date_trunc('hour', $1::timestamptz) - h * interval '1 hour', operation, n, 1000 * total, 1000 * db, 1000 * limiter, buckets
		from (values (168, 'readDailyActivity', 10, 9000, 8500, 100, array[0, 0, 0, 0, 0, 0, 0, 0, 0, 10]),
			(10, 'readDailyActivity', 100, 1120, 920, 100, array[0, 0, 50, 40, 0, 10]), (0, 'readDailyActivity', 10, 200, 180, 10, array[0, 0, 0, 0, 0, 0, 10]),
			(1, 'requestToken', 20, 40, 20, 0, array[0, 10, 5, 5]), (200, 'gone', 1, 1, 1, 1, array[1])) l (h, operation, n, total, db, limiter, buckets)`, start)
}

// textOf is the text of a page, with a space between any two elements.
func textOf(p edgetest.Page) string {
	var parts []string
	for _, node := range p.Find("body *").Contents().EachIter() {
		if goquery.NodeName(node) == "#text" {
			parts = append(parts, node.Text())
		}
	}
	return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
}

// A server that is lost can be dismissed, and its alert names it, not those that noticed it.
func TestDismiss(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	facts := busyService()
	down := alerts.Alert{Name: "ConnectDown", Severity: "page", Summary: "c.example.com does not answer on its private listener.", Since: start, Server: "c.example.com"}
	facts.Alerts, facts.Servers.Value[1].Alerts = []alerts.Alert{down}, []alerts.Alert{down}
	f.config.Facts = func(context.Context) Facts { return facts }
	var dismissed []uuid.UUID
	f.config.Dismiss = func(_ context.Context, id uuid.UUID) error {
		dismissed = append(dismissed, id)
		return nil
	}
	f.serve(t)
	v := f.signedIn(t, edgetest.UnnamedToken)
	page := v.Get(servicePath)
	v.shows(page, headingService, "Since 2026-03-10 12:34:00 · c.example.com What", "c.example.com lost Dismiss")
	lost := facts.Servers.Value[2].ID
	if got := page.Find("form input[name=server]").AttrOr("value", ""); got != lost.String() {
		t.Errorf("the page dismisses %q", got)
	}
	v.goes(v.Post(servicePath+"/dismiss", "server", lost.String()), servicePath+"?done=server_dismissed")
	v.shows(v.Get(servicePath+"?done=server_dismissed"), headingService, "The server is dismissed.")
	v.fails(v.Post(servicePath+"/dismiss", "server", "x"), 400, headingBadForm)
	if len(dismissed) != 1 || dismissed[0] != lost {
		t.Errorf("dismissed: %v", dismissed)
	}
}

func TestService(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	facts := busyService()
	f.config.Facts = func(context.Context) Facts { return facts }
	f.serve(t)
	v := f.signedIn(t, edgetest.GraceToken)
	v.shows(v.Get(servicePath), headingService, "There were no requests.")
	f.slow(t)
	page := v.Get(servicePath)
	v.shows(page, headingService, "Since 2026-03-10 09:34:00 · b.example.com, a.example.com")
	for _, want := range []string{
		"ConnectLimiterFailing page", "The rate limiter cannot decide: reads get 503.", "the limiter cannot reach its store: reads get 503, never a free pass",
		"look at its responses; write to the partner",
		"a.example.com this one", "c.example.com lost", "3 h ago", "v1.3.0",
		"PostgreSQL 17.2", "11 applied, this program has 10 do not match", "Partner API 1.2.3", "Settings read again 2026-03-10 11:34:00 some could not be used CONNECT_OPERATOR_TOKENS_FILE: line 3: " + hostileName,
		"Grew by 2.8 GiB in 30 days.", "11 GiB", "audit_log 3.7 GiB 2.8 GiB 10,000,000",
		"Waiting 12,345", "Oldest 30 h", "Given up in 24 hours ≥ 10,000", "≤ 6 h 10,000",
		"Sent by this server 12,345", "80 s", "failed: 454 4.7.0",
		"readDailyActivity 110 75 ms 12 ms 83% 8.3%", "requestToken 20 9 ms 2 ms 50% 0%", "readDailyActivity 2026-03-10 12:00 10 100 ms 20 ms 90% 5%",
		"Redis answered in 1.7 ms", "replica-1:5432 used 900 ms", "replica-2:5432 left out –",
		"a.example.com Public connect.example.com, www.connect.example.com 2026-04-29 12:34:00 50 d",
		"a.example.com is not for the host of the base URL Private – 2026-03-10 21:34:00 9 h", "b.example.com Public – 2026-03-19 12:34:00 9 d",
		"1234567890 opens what it sealed", "2345678901 primary: seals and opens 2026-03-06 18:34:00", "3456789012 known, seals nothing yet –",
	} {
		if !strings.Contains(textOf(page), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if first := page.Find(".alert h3").First().Text(); !strings.HasPrefix(first, "ConnectLimiterFailing") {
		t.Errorf("the first alert is %s", first)
	}
	if page.Find("script").Length() > 0 || !strings.Contains(page.Find("body").Text(), hostileName) {
		t.Error("a partner's name is not shown as it is")
	}
	if strings.Contains(page.Find("#alerts").Parent().Text(), "ConnectSlow") {
		t.Error("an alert of a server that is gone is shown")
	}
	if strings.Contains(page.Find("#certificates").Parent().Text(), "c.example.com") {
		t.Error("the certificate of a server that is gone is shown")
	}
	if drawn := page.Find("#latency ~ table svg").AttrOr("aria-label", ""); drawn != "readDailyActivity: p95 of 1 s at most, at 2026-03-03 12:00 UTC" {
		t.Errorf("the drawing says %q", drawn)
	}
	if drawn := page.Find("figure svg").Length(); drawn != 2 {
		t.Errorf("%d charts", drawn)
	}
	if rows := page.Find("table[aria-label='Days as a table'] tbody tr").Length(); rows != 30 {
		t.Errorf("the chart of %d days has a table of %d", 30, rows)
	}

	facts = quietService()
	page = v.Get(servicePath)
	v.shows(page, headingService, "No alerts are firing.", "as at the start", "This could not be determined in time.", "PostgreSQL does not answer",
		"There are no read replicas.", "No listener has a certificate", "has not used the mail server yet")
	if drawn := page.Find("figure").Length(); drawn != 0 {
		t.Errorf("%d charts of nothing", drawn)
	}

	facts = busyService()
	facts.Database.Value.Sizes = nil
	v.shows(v.Get(servicePath), headingService, "Growth is known from the second day on.")
	facts.Database.Value.Sizes = []servers.Size{{Day: start.Truncate(24*time.Hour).AddDate(0, 0, -1), Bytes: facts.Database.Value.Bytes + 1<<20}}
	v.shows(v.Get(servicePath), headingService, "Shrank by 1 MiB in 1 day.")
}

func TestChromiumService(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	facts := busyService()
	s.config.Facts = func(context.Context) Facts { return facts }
	s.slow(t)
	s.serve(t)
	s.at(t, servicePath)
	s.looks(t, "service")
	facts = quietService()
	s.at(t, servicePath)
	s.looks(t, "service-quiet")
}
