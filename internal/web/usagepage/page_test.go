package usagepage

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"connect-svc/internal/brand"
	"connect-svc/internal/testing/browsertest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/usage"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// now is when the page is looked at.
var now = time.Date(2026, 3, 10, 12, 34, 0, 0, time.UTC)

// fixture is the page on a database with three clients: one busy and sometimes refused, one steady, one that never asked.
type fixture struct {
	db                    *pgtest.DB
	counted               *usage.Usage
	page                  http.Handler
	busy, steady, nowhere uuid.UUID
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	db := pgtest.New(t)
	db.Clock.Set(time.Until(now))
	counted := usage.New(db.Pool, slog.New(slog.NewTextHandler(t.Output(), nil)), db.Clock.Now)
	f := &fixture{db: db, counted: counted, page: New(counted, brand.Brand{}, db.Clock.Now)}
	name := func(name string) uuid.UUID {
		id := db.Client(t).ID
		db.Exec(t, "update clients set name = $2 where client_id = $1", id, name)
		return id
	}
	f.busy, f.steady, f.nowhere = name("Stride & Co <Rides>"), name("Pedal Analytics"), name("Not yet")
	db.Exec(t, "update clients set status = 'disabled' where client_id = $1", f.nowhere)

	// Eight days, every ten minutes: more by day than by night, slower in the evening; the answers' times are in the
	// buckets up to 5, 10, 25 and 100 ms.
	db.Exec(t, `insert into usage_minutes (client_id, minute, operation, status, requests, charged, durations)
		select client, minute, operation, status, n, case when status <> 429 and operation like 'read%' then n else 0 end,
			case when status = 429 then array[0, n]
				when extract(hour from minute) > 17 then array[0, 0, 0, n - n / 20, 0, 0, n / 20]
				else array[0, 0, n - n / 3, n / 3 - n / 30, n / 30] end
		from (
			select client, minute, operation, status,
				ceil(scale * share * (1 + .8 * sin((extract(hour from minute) - 8) / 12 * pi()))
					* (1 + extract(minute from minute) / 60) / 2)::bigint n
			from generate_series($3::timestamptz - interval '8 days', $3, '10 minutes') minute,
				(values ($1::uuid, 620), ($2, 90)) c (client, scale),
				(values ('readDailyActivity', 200, .6), ('readCyclingActivities', 200, .25), ('requestToken', 200, .1),
					('requestToken', 400, .01), ('revokeToken', 200, .004), ('readDailyActivity', 429, .08)) o (operation, status, share)
			where status <> 429 or client = $1 and extract(hour from minute) between 12 and 16
		) counted`, f.busy, f.steady, now.Truncate(time.Minute))
	db.Exec(t, `insert into usage_minutes (client_id, minute, operation, status, requests, charged, durations)
		values ($1, $2, 'readDailyActivity', 503, 40, 0, array[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40])`, f.busy, now.Add(-5*time.Hour))
	db.Exec(t, `with made as (
			insert into users (user_id, email, timezone, registered_on, created_at)
			select gen_random_uuid(), n || '@user.example', 'UTC', '2020-01-01', connect_now() from generate_series(1, 1500) n returning user_id
		)
		insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
			refresh_generation, refresh_hash, refresh_deadline)
		select user_id, $1, gen_random_uuid(), 1, case when n % 20 = 0 then 'revoked' when n % 9 = 0 then 'disconnected' else 'authorized' end,
			1, '2026-03-01', connect_now(), 1, case when n % 20 = 0 or n % 9 = 0 then null else sha256('') end,
			connect_now() + (n % 7) * interval '1 day'
		from (select user_id, row_number() over () n from made) u`, f.busy)
	return f
}

func (f *fixture) get(target string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	f.page.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, target, nil))
	return answer
}

func TestPage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	answer := f.get("/usage")
	text := answer.Body.String()
	if answer.Code != http.StatusOK || answer.Header().Get("Content-Security-Policy") != policy {
		t.Fatalf("status %d, headers %v", answer.Code, answer.Header())
	}
	busy, err := f.counted.Of(t.Context(), f.busy, now.Add(-23*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<h2 id="n-` + f.busy.String() + `">Stride &amp; Co &lt;Rides&gt;</h2>`,
		`<a href="#c-` + f.steady.String() + `">Pedal Analytics</a>`,
		"<dt>Requests</dt><dd>" + thousands(busy.Total.Requests) + "</dd>",
		"<dt>Answered 429</dt><dd>" + percent(busy.Total.RateLimitedShare()) + "</dd>",
		"<dt>Failed (5xx)</dt><dd>40</dd>",
		"<dt>Budget used</dt><dd>" + percent(busy.BudgetUsed()) + "</dd>",
		"Mon 9 Mar 13:00", "Tue 10 Mar 12:34",
		`<b>Not yet</b> <span class="status">disabled</span>`,
		">authorized</dt><dd>1,08",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if found := regexp.MustCompile(`@user|<script|style=|javascript:`).FindString(text); found != "" {
		t.Errorf("the page holds %q", found)
	}
	// The table of the hours adds up to what is said above it.
	if rows := strings.Count(text, `scope="row">Tue 10 Mar 12:00`); rows != 2 {
		t.Errorf("the hour that runs is told %d times, want once for each of two clients", rows)
	}

	week := f.get("/usage?hours=168&client=" + f.busy.String()).Body.String()
	if strings.Contains(week, "Pedal") || !strings.Contains(week, `viewBox="0 0 1680 100"`) || !strings.Contains(week, "Tue 3 Mar 13:00") {
		t.Error("a week of one client is something else")
	}
	for target, want := range map[string]int{
		"/usage?hours=25": 400, "/usage?client=x": 400, "/usage?client=" + uuid.Nil.String(): 400,
		"/usage?client=" + uuid.NewString(): 404, "/usage/other": 404, "/usage/usage.css": 200, "/usage/mark.svg": 200,
	} {
		if got := f.get(target).Code; got != want {
			t.Errorf("%s answers %d, want %d", target, got, want)
		}
	}
	f.db.Exec(t, "alter table usage_minutes rename to away")
	if answer := f.get("/usage"); answer.Code != http.StatusServiceUnavailable || strings.Contains(answer.Body.String(), "usage_minutes") {
		t.Errorf("without its table: %d %s", answer.Code, answer.Body)
	}
}

// With very many clients the busiest are drawn, and the others are a row that leads to a page of their own.
func TestManyClients(t *testing.T) {
	t.Parallel()
	var reports []usage.Report
	for i := range mostCards + 3 {
		reports = append(reports, usage.Report{ClientID: uuid.New(), RequestsPerMinute: 600, Hours: make([]usage.Hour, 24),
			Total: usage.Figures{Requests: int64(i + 1)}})
	}
	v := newView(reports, brand.Brand{}, 24, uuid.Nil, now)
	if len(v.Clients) != mostCards+3 || len(v.Cards()) != mostCards || v.Clients[0].Total.Requests != mostCards+3 || v.Clients[mostCards].Charts != nil {
		t.Errorf("%d clients, %d cards, first with %d requests", len(v.Clients), len(v.Cards()), v.Clients[0].Total.Requests)
	}
	var text strings.Builder
	if err := page.Execute(&text, v); err != nil {
		t.Fatal(err)
	}
	last := v.Clients[mostCards+2].ClientID.String()
	if !strings.Contains(text.String(), `href="/usage?client=`+last+`"`) || strings.Contains(text.String(), "#c-"+last) {
		t.Error("a client that is not drawn has no page")
	}
}

func TestChromium(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	server := httptest.NewServer(f.page)
	t.Cleanup(server.Close)
	tab := browsertest.Start(t).NewTab(t)
	empty := newEmpty(t)

	for name, address := range map[string]string{
		"day":   server.URL + "/usage",
		"week":  server.URL + "/usage?hours=168",
		"one":   server.URL + "/usage?client=" + f.busy.String(),
		"empty": empty + "/usage",
	} {
		if status := tab.Open(address); status != http.StatusOK {
			t.Fatalf("%s answers %d", name, status)
		}
		tab.Do(chromedp.Evaluate[chromedp.Void](`void document.querySelectorAll("details").forEach((d, i) => d.open = i === 0)`))
		for scheme, rules := range map[string][]string{"light": nil, "dark": {"color-contrast", "link-in-text-block"}} { // all, and what colors decide
			tab.Media("prefers-color-scheme", scheme)
			for _, violation := range tab.Violations(rules...) {
				t.Errorf("%s, %s: %s", name, scheme, violation)
			}
			for _, width := range []int64{1280, 320} {
				tab.Do(chromedp.EmulateViewport(width, 800))
				for _, fault := range tab.LayoutFaults() {
					t.Errorf("%s, %s, %d px: %s", name, scheme, width, fault)
				}
				if browsertest.Pictures() {
					tab.Screenshot(filepath.Join(t.ArtifactDir(), fmt.Sprintf("%s-%s-%d.png", name, scheme, width)))
				}
			}
		}
		headings := 0
		for _, node := range tab.Accessible() {
			switch {
			case node.Role == "heading" && node.Is("level", "1"):
				headings++
			case node.Role == "image" && node.Name == "":
				t.Errorf("%s: a drawing without words", name)
			case node.Is("focusable", "true") && node.Role != "RootWebArea" && node.Name == "":
				t.Errorf("%s: no name: %s", name, node.Role)
			}
		}
		if headings != 1 {
			t.Errorf("%s: %d main headings", name, headings)
		}
	}
	if problems := tab.Problems(); len(problems) != 0 {
		t.Errorf("the console shows:\n%s", strings.Join(problems, "\n"))
	}
}

// newEmpty is a page on a database without clients.
func newEmpty(t *testing.T) (address string) {
	t.Helper()
	db := pgtest.New(t)
	server := httptest.NewServer(New(usage.New(db.Pool, slog.New(slog.DiscardHandler), db.Clock.Now), brand.Brand{}, db.Clock.Now))
	t.Cleanup(server.Close)
	return server.URL
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
		{usage.Connections{Authorized: 1200, Precision: usage.Estimated}, "about 1,200", "Estimated from a sample."},
		{usage.Connections{Authorized: 1200, Precision: usage.AtLeast}, "at least 1,200", "The first that were counted: there are more."},
		{usage.Connections{Precision: usage.Unknown}, "unknown", "Not counted: it took too long."},
	} {
		if v := inWords(test.counted); v.Authorized != test.authorized || v.Note != test.note {
			t.Errorf("%+v: %q, %q", test.counted, v.Authorized, v.Note)
		}
	}
}

// TestBrand: the page is the operator's.
func TestBrand(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	logo, err := brand.ReadLogo([]byte(`<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h9v9z"/></svg>`))
	if err != nil {
		t.Fatal(err)
	}
	color, err := brand.ParseColor("#5b21b6")
	if err != nil {
		t.Fatal(err)
	}
	page := New(usage.New(db.Pool, slog.New(slog.DiscardHandler), db.Clock.Now), brand.Brand{Name: "Acme & Move", Logo: logo, Color: color}, db.Clock.Now)
	get := func(path string) string {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK {
			t.Errorf("%s: status %d", path, w.Code)
		}
		return w.Body.String()
	}
	text := get("/usage")
	for _, want := range []string{"<title>Usage · Acme &amp; Move</title>", `src="/usage/` + logo.Name + `"`, "Acme &amp; Move</p>"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s", want)
		}
	}
	if css := get("/usage/" + (brand.Brand{Color: color}).Style()); !strings.Contains(css, "--link: #5b21b6") || !strings.Contains(get("/usage/"+logo.Name), "<svg") {
		t.Errorf("the style sheet is %q", css)
	}
}
