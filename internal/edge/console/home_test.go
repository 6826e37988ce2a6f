package console

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/testing/edgetest"
)

// eventful gives the partners of ask a day on which much happens, and something goes wrong.
func (f *fixture) eventful(t testing.TB, a asked) {
	t.Helper()
	f.DB.Exec(t, "update clients set name = $2 where client_id = $1", a.steady, hostileName)
	f.DB.Exec(t, `insert into usage_days (client_id, day, metric, n)
		select client_id, day, metric, n
		from (select distinct client_id, day from usage_days) d, (values ('authorized', 12), ('refreshed', 3456), ('lapsed', 7), ('revoked', 2), ('replayed', 1),
			('disconnected_by_user', 4), ('disconnected_by_client', 5), ('active_users', 1234), ('codes_sent', 20), ('codes_tried', 21),
			('webhooks_delivered', 900)) figures (metric, n)
		on conflict (client_id, day, metric) do update set n = excluded.n`)
	f.DB.Exec(t, "insert into usage_days values ($1, $2, 'webhooks_failed', 3)", a.steady, start)
}

// The console begins with the last days, and with what needs attention.
func TestHome(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := f.signedIn(t, edgetest.GraceToken)
	v.goes(v.Get(Path+"/"), Path)
	v.shows(v.Get(Path), "Overview", "Nothing needs attention.", "The last 35 days")

	nobody := v.Get(Path)
	v.shows(nobody, "Overview", "No request came in these 35 days.")
	if rows := nobody.Find("#days ~ table tr").Length(); rows != 0 {
		t.Errorf("nothing happened, in %d rows", rows)
	}
	a := f.ask(t)
	f.eventful(t, a)
	f.DB.Exec(t, "insert into usage_days values ($1, $2, 'authorized', 2)", a.nowhere, start)
	if without := v.Get(pathOf(a.nowhere)); without.Find("#days ~ table tbody").Text() == "" || without.Find("#days ~ table tbody tr").Length() != 1 ||
		!strings.Contains(without.Find("main").Text(), "No request came in these 35 days.") {
		t.Errorf("a partner without a request: %s", without.Find("#days ~ table").Text())
	}
	f.DB.Exec(t, "insert into usage_days values ($1, $2::date - 34, 'authorized', 500), ($1, $2::date - 35, 'authorized', 9000)", uuid.Nil, start)
	home := v.Get(Path)
	v.shows(home, "Overview", "3 webhooks were given up today", "1 used refresh token came again today", "40 requests failed (5xx) today",
		hostileName)
	row := func(name string) (cells []string) {
		for _, cell := range home.Find(`tbody th:contains("` + name + `") ~ td`).EachIter() {
			cells = append(cells, cell.Text())
		}
		return cells
	}
	for name, want := range map[string]string{
		"Active users": "1,234 1,234", "Active partners": "2 2", "Connections made": "12 12", "Revoked": "3 3", "Disconnected": "9 9",
		"Sign-in codes": "20, 21 20, 21",
	} {
		if cells := row(name); len(cells) != 3 || strings.Join(cells[:2], " ") != want {
			t.Errorf("%s: %q, want %q", name, cells, want)
		}
	}
	if made := row("Connections made"); made[2] != "608" { // nine days of 12, and the first of 35 days
		t.Errorf("connections made in 35 days: %s", made[2])
	}
	if charts := home.Find("figure").Length(); charts != 2 {
		t.Errorf("%d charts", charts)
	}
	if address := home.Find(".needs a").First().AttrOr("href", ""); address != pathOf(a.steady) {
		t.Errorf("the first that needs attention is %s", address)
	}
	one := v.Get(pathOf(a.busy))
	v.shows(one, "Stride & Co <Rides>", "The last 35 days", "3,456")
	if one.Find(`tbody th:contains("Active partners")`).Length() != 0 {
		t.Error("a partner has active partners")
	}
	v.fails(v.Get(Path+"?x=y"), http.StatusBadRequest, "This form cannot be read")
	f.DB.Exec(t, "alter table usage_days rename to away")
	v.fails(v.Get(Path), http.StatusInternalServerError, "Something went wrong")
}

// Of many partners in need the worst ten are on the home page, which says so, and leads to all.
func TestHomeOfABadDay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := f.signedIn(t, edgetest.GraceToken)
	const more = "More partners need attention. These are the worst."
	for n := 1; n <= mostInNeed+1; n++ {
		f.DB.Exec(t, "insert into usage_days values ($1, $2, 'failed', $3)", f.DB.Client(t).ID, start, n)
		home := v.Get(Path)
		if got := home.Find(".needs li").Length(); got != n {
			t.Errorf("%d lines of %d partners", got, n)
		}
		if told := strings.Contains(home.Find(".needs").Text(), more); told != (n > mostInNeed) {
			t.Errorf("%d partners: more are told of: %t", n, told)
		}
	}
	all := v.Get(v.Get(Path).Find(".needs li a").Last().AttrOr("href", ""))
	v.shows(all, "Partners")
	if rows := all.Find("tbody tr").Length(); rows != mostInNeed+1 {
		t.Errorf("the list has %d partners", rows)
	}
}

// Firing alerts are on the home page, with a way to their advice.
func TestHomeAlerts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.config.Alerts = func(context.Context) Facts { return busyService() }
	f.serve(t)
	v := f.signedIn(t, edgetest.GraceToken)
	home := v.Get(Path)
	v.shows(home, "Overview", "ConnectLimiterFailing", "The rate limiter cannot decide: reads get 503.", "b.example.com")
	if address := home.Find(".needs a").First().AttrOr("href", ""); address != servicePath+"#alerts" {
		t.Errorf("an alert leads to %s", address)
	}
}

func TestChromiumHome(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.eventful(t, s.ask(t))
	s.config.Alerts = func(context.Context) Facts { return busyService() }
	s.serve(t)
	s.at(t, partnersPath+"?q=e")
	s.looks(t, "found-partners")
	s.at(t, Path)
	s.looks(t, "home")
}

// The overview has five figures, each with its week before, a drawing that is there in words, too, and its list.
func TestGlances(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := f.signedIn(t, edgetest.GraceToken)
	if quiet := v.Get(Path).Find("#glance").Length(); quiet != 0 {
		t.Error("figures of nothing")
	}
	f.DB.Exec(t, `insert into usage_days (client_id, day, metric, n)
		select $1, $2::date - d, metric, n
		from (values (0, 'authorized', 1000), (1, 'authorized', 3), (7, 'authorized', 4), (8, 'authorized', 5), (14, 'authorized', 5), (15, 'authorized', 2000),
			(1, 'now_authorized', 120), (8, 'now_authorized', 100), (2, 'requests', 1000), (2, 'rate_limited', 30), (2, 'refused', 15), (2, 'failed', 5),
			(9, 'requests', 2000), (9, 'failed', 20), (3, 'webhooks_failed', 7)) figures (d, metric, n)`, uuid.Nil, start)
	glances := func() (texts []string) {
		t.Helper()
		for _, item := range v.Get(Path).Find(".glances li").EachIter() {
			texts = append(texts, strings.Join(strings.Fields(item.Text()), " ")+" → "+item.Find("a").AttrOr("href", "")+" "+item.Find("svg").AttrOr("aria-label", ""))
		}
		return texts
	}
	want := []string{
		"Active connections120 +20%; a week before 100 → /console/partners By day: 120 at most, on 2026-03-09; 120 yesterday",
		"New connections7 −30%; a week before 10 → /console/audit?action=connection.authorized By day: 2,000 at most, on 2026-02-23; 3 yesterday",
		"Requests1,000 −50%; a week before 2,000 → /console/partners?hours=168 By day: 2,000 at most, on 2026-03-01; 0 yesterday",
		"Refused or failed5% a week before 1% → /console/partners?hours=168&order=failures By day: 50 at most, on 2026-03-08; 0 yesterday",
		"Webhooks given up7 a week before 0 → /console/partners?hours=168&failing=1&order=failures By day: 7 at most, on 2026-03-07; 0 yesterday",
	}
	if diff := cmp.Diff(want, glances()); diff != "" {
		t.Errorf("the figures (-want +got):\n%s", diff)
	}
	f.DB.Exec(t, "insert into usage_days values ($1, $2, 'now_authorized', 50), ($1, $2::date - 7, 'now_authorized', 100)", uuid.Nil, start)
	if now := glances(); !strings.HasPrefix(now[0], "Active connections50 −50%; a week before 100 ") {
		t.Errorf("today's count: %s", now[0])
	}
	f.DB.Exec(t, "update usage_days set metric = 'now_disconnected' where metric = 'now_authorized' and day = $1", start)
	if now := glances(); !strings.HasPrefix(now[0], "Active connections0 −100%; a week before 100 ") {
		t.Errorf("all have ended today: %s", now[0])
	}
	for _, item := range v.Get(Path).Find(".glances a").EachIter() {
		if list := v.Get(item.AttrOr("href", "")); list.StatusCode != http.StatusOK {
			t.Errorf("%s leads to status %d", item.Text(), list.StatusCode)
		}
	}
}
