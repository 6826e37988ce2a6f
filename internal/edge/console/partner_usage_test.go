package console

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"

	"connect-svc/internal/admin/usage"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// asked are three partners: one busy and sometimes refused, one steady, one that never asked.
type asked struct{ busy, steady, nowhere uuid.UUID }

// ask has partners ask for eight days.
func (f *fixture) ask(t testing.TB) asked {
	t.Helper()
	name := func(name string) uuid.UUID { return f.DB.Client(t, func(c *pgtest.Client) { c.Name = name }).ID }
	a := asked{name("Stride & Co <Rides>"), name("Pedal Analytics"), name("Not yet")}
	f.DB.Exec(t, "update clients set status = 'disabled' where client_id = $1", a.nowhere)

	// Eight days: more by day than by night, slower in the evening; the answers' times are in the buckets up to 5, 10, 25 and
	// 100 ms. Charged requests come every ten minutes.
	f.DB.Exec(t, `with counted as (
			select client, hour, operation, status,
				ceil(4.5 * scale * share * (1 + .8 * sin((extract(hour from hour) - 8) / 12 * pi())))::bigint n
			from generate_series($3::timestamptz - interval '8 days', $3, '1 hour') hour,
				(values ($1::uuid, 620), ($2, 90)) c (client, scale),
				(values ('readDailyActivity', 200, .6), ('readCyclingActivities', 200, .25), ('requestToken', 200, .1),
					('requestToken', 400, .01), ('revokeToken', 200, .004), ('readDailyActivity', 429, .08)) o (operation, status, share)
			where status <> 429 or client = $1 and extract(hour from hour) between 12 and 16
		), charged as (
			insert into usage_minutes (client_id, minute, charged)
			select client, hour + i * interval '10 minutes', ceil(sum(n) * (6 + i) / 51.0) from counted, generate_series(0, 5) i
			where status = 200 and operation like 'read%' group by client, hour, i
		)
		insert into usage_hours (client_id, hour, operation, status, requests, durations)
		select client, hour, operation, status, n, case when status = 429 then array[0, n]
			when extract(hour from hour) > 17 then array[0, 0, 0, n - n / 20, 0, 0, n / 20]
			else array[0, 0, n - n / 3, n / 3 - n / 30, n / 30] end
		from counted`, a.busy, a.steady, start.Truncate(time.Hour))
	f.DB.Exec(t, `insert into usage_hours (client_id, hour, operation, status, requests, durations)
		values ($1, $2, 'readDailyActivity', 503, 40, array[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40])`, a.busy, start.Truncate(time.Hour).Add(-5*time.Hour))
	f.DB.Exec(t, `with made as (
			insert into users (user_id, email, timezone, registered_on, created_at)
			select gen_random_uuid(), n || '@user.example', 'UTC', '2020-01-01', connect_now() from generate_series(1, 1500) n returning user_id
		)
		insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
			refresh_generation, refresh_hash, refresh_deadline)
		select user_id, $1, gen_random_uuid(), 1, case when n % 20 = 0 then 'revoked' when n % 9 = 0 then 'disconnected' else 'authorized' end,
			1, '2026-03-01', connect_now(), 1, case when n % 20 = 0 or n % 9 = 0 then null else sha256('') end,
			connect_now() + (n % 7) * interval '1 day'
		from (select user_id, row_number() over () n from made) u`, a.busy)
	f.fold(t)
	return a
}

// fold brings the figures of days up to date, as servers do every minute.
func (f *fixture) fold(t testing.TB) {
	t.Helper()
	if err := f.config.Usage.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func english() writer { return newWriter(locale.Default().Locale("en")) }

func TestUsage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.ask(t)
	v := f.signedIn(t, edgetest.GraceToken)
	busy, err := f.config.Usage.Of(t.Context(), a.busy, start.Add(-23*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	in := english()

	days, err := f.config.Usage.Clients(t.Context(), usage.Ranking{}, start.Add(-23*time.Hour), page.Key{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	list := v.Get(partnersPath)
	v.shows(list, "Partners", "2026-03-09 00:00 to 2026-03-10 12:34 UTC", in.Number(days[0].Total.Requests), "Not yet disabled")
	var names []string
	list.Find("tbody th").Each(func(_ int, cell *goquery.Selection) { names = append(names, cell.Text()) })
	if got := strings.Join(names, ", "); got != "Stride & Co <Rides>, Pedal Analytics, Not yet disabled" {
		t.Errorf("the partners are %s", got)
	}
	if address := list.Find("tbody tr:nth-child(2) a").AttrOr("href", ""); address != pathOf(a.steady) {
		t.Errorf("a partner's page is %s", address)
	}

	day := v.Get(pathOf(a.busy) + "/usage")
	v.shows(day, "Stride & Co <Rides>", "2026-03-09 13:00 to 2026-03-10 12:34 UTC")
	for name, want := range map[string]string{
		"Requests": in.Number(busy.Total.Requests), "Answered 429": in.percent(busy.Total.RateLimitedShare()), "Failed (5xx)": "40",
		"Budget used": in.percent(busy.BudgetUsed()), "Busiest minute": in.percent(busy.PeakBudgetUsed()), "p99": in.took(busy.Total.Quantile(.99)),
	} {
		if got := day.Find(`.figures dt:contains("` + name + `") + dd`).Text(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	// The drawing has the hours of the table.
	if hours := day.Find(`table.hours tbody tr`).Length(); hours != 24 || day.Find("figure:first-of-type .mark").Length() != hours {
		t.Errorf("%d hours in the table, %d in the drawing", hours, day.Find("figure:first-of-type .mark").Length())
	}
	if leak := regexp.MustCompile(`@user|<script|style=|javascript:`).FindString(day.Source + list.Source); leak != "" {
		t.Errorf("a page holds %q", leak)
	}

	week := v.Get(pathOf(a.busy) + "/usage?hours=168")
	v.shows(week, "Stride & Co <Rides>", "2026-03-03 13:00 to 2026-03-10 12:34 UTC")
	if !strings.Contains(week.Source, `viewBox="0 0 1680 100"`) || strings.Contains(week.Source, "Pedal") {
		t.Error("a week of one partner is something else")
	}
	v.shows(v.Get(partnersPath+"?hours=168"), "Partners", "2026-03-03 00:00")
	found := v.Get(partnersPath + "?hours=168&q=PEDAL")
	if found.Find("tbody tr").Length() != 1 || found.Find("#q").AttrOr("value", "") != "PEDAL" ||
		found.Find(".tabs a").First().AttrOr("href", "") != "?hours=24&q=PEDAL" {
		t.Errorf("a search shows %s", found.Find("main").Text())
	}
	f.DB.Exec(t, "update clients set callback_url = 'https://Stride.example:8443/back' where client_id = $1", a.busy)
	for query, want := range map[string]int{
		"?host=stride.example": 1, "?host=stride.example:8443&failing=1": 1, "?host=nowhere.example": 0, "?status=disabled": 1, "?status=offboarded": 0, "?change=1": 0, "?failing=1": 1, "?order=name": 3,
		"?order=failures": 3, "?order=limited&host=&status=&q=": 3,
	} {
		if listed := v.Get(partnersPath + query).Find("tbody tr").Length(); listed != want {
			t.Errorf("%s: %d partners, want %d", query, listed, want)
		}
	}
	filtered := v.Get(partnersPath + "?failing=1&order=name&q=%26")
	if to := filtered.Find(".tabs a").Last().AttrOr("href", ""); to != "?hours=168&failing=1&order=name&q=%26" ||
		filtered.Find("#order option[selected]").AttrOr("value", "") != "name" || filtered.Find("input[name=failing][checked]").Length() != 1 {
		t.Errorf("the filters are lost: %s", to)
	}
	v.shows(v.Get(partnersPath+"?q=nobody"), "Partners", "No partner matches.")
	v.shows(v.Get(pathOf(a.nowhere)+"/usage"), "Not yet disabled", "There were no requests.")

	for _, path := range []string{partnersPath + "?hours=25", partnersPath + "?client=x", partnersPath + "?order=x", pathOf(a.busy) + "/usage?hours=x"} {
		v.fails(v.Get(path), http.StatusBadRequest, "This form cannot be read")
	}
	for path, heading := range map[string]string{
		pathOf(uuid.New()) + "/usage": "There is no such partner", partnersPath + "/x/usage": "There is no such page",
		pathOf(uuid.Nil): "There is no such partner",
	} {
		v.fails(v.Get(path), http.StatusNotFound, heading)
	}
	f.DB.Exec(t, "alter table usage_days rename to away")
	v.fails(v.Get(partnersPath), http.StatusInternalServerError, "Something went wrong")
}

func TestChromiumUsage(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	s.at(t, partnersPath)
	s.looks(t, "no-partners")
	a := s.ask(t)
	s.at(t, partnersPath+"?hours=168")
	s.looks(t, "partners")
	s.at(t, pathOf(a.busy)+"/usage")
	s.looks(t, "usage-day")
	s.at(t, pathOf(a.busy)+"/usage?hours=168")
	s.looks(t, "usage-week")
	s.at(t, pathOf(a.nowhere)+"/usage")
	s.looks(t, "usage-none")
}

// Counts that are not exact say so.
func TestConnectionsInWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		counted          usage.Connections
		authorized, note string
	}{
		{usage.Connections{Authorized: 1200}, "1,200", ""},
		{usage.Connections{}, "0", "No connections."},
		{usage.Connections{Authorized: 1200, Precision: usage.Estimated, At: start}, "1,200", "Counted at 2026-03-10 12:34:00 UTC."},
		{usage.Connections{Authorized: 1200, Precision: usage.AtLeast}, "at least 1,200", "Only the first ones were counted. There are more."},
		{usage.Connections{Precision: usage.Unknown}, "unknown", "Not counted, because it took too long."},
	} {
		if v := english().counted(test.counted); v.Authorized != test.authorized || v.Note != test.note {
			t.Errorf("%+v: %q, %q", test.counted, v.Authorized, v.Note)
		}
	}
}

// TestBrand: the console is the operator's.
func TestBrand(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	logo, err := brand.ReadLogo([]byte(`<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h9v9z"/></svg>`))
	if err != nil {
		t.Fatal(err)
	}
	color, err := brand.ParseColor("#5b21b6")
	if err != nil {
		t.Fatal(err)
	}
	f.config.Brand = brand.Brand{Name: "Acme & Move", Logo: logo, Color: color}
	f.serve(t)
	v := f.signedIn(t, edgetest.AdaToken)
	page := v.Get(partnersPath)
	if title := page.Find("title").Text(); title != "Partners · Console · Acme & Move" {
		t.Errorf("title %q", title)
	}
	if shown := page.Find(".whose img").AttrOr("src", ""); shown != Path+"/static/"+logo.Name {
		t.Errorf("logo %q", shown)
	}
	css := Path + "/static/" + f.config.Brand.Style()
	if page.Find(`link[rel=stylesheet][href="`+css+`"]`).Length() != 1 || !strings.Contains(v.Get(css).Source, "--link: #5b21b6") {
		t.Error("the color is not the operator's")
	}
}
