package console

import (
	"encoding/csv"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

const headingAudit = "Audit log"

// happened fills the log: 120 entries by ada about two partners, of whom one has a hostile name, one a minute, the oldest first.
func (f *fixture) happened(t testing.TB) (named, plain pgtest.Client) {
	t.Helper()
	named = f.DB.Client(t, func(c *pgtest.Client) { c.Name = hostileName })
	plain = f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Walk Club" })
	f.DB.Exec(t, `insert into audit_log (subject, user_id, client_id, actor, action, at, connection_version, detail)
		select coalesce(u, c), u, c, 'ada', case when c = $2 then 'client.updated' else 'connection.disconnected' end,
			$4::timestamptz - (120 - n) * interval '1 minute', case when u is not null then n end,
			case when n % 10 = 0 then jsonb_build_object('note', '=cmd|'' /C calc''!A1' || '<script>alert(1)</script>') else '{}' end
		from (select n, case when n % 2 = 0 then $1::uuid end as u, case when n % 3 = 0 then $2 else $3::uuid end as c from generate_series(1, 120) n) made`,
		f.User.ID, named.ID, plain.ID, start)
	return named, plain
}

func TestAudit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	named, _ := f.happened(t)
	v := f.signedIn(t, edgetest.GraceToken)
	page := v.Get(auditPath)
	v.shows(page, headingAudit, "2026-03-10 12:34:00", "client.updated", hostileName, "version 120", "=cmd|' /C calc'!A1<script>alert(1)</script>")
	if page.Find("script").Length() > 0 {
		t.Error("a text of a partner is a script")
	}
	if rows := page.Find("tbody tr").Length(); rows != rowsPerPage {
		t.Errorf("%d rows", rows)
	}
	rowsOf := func(query string) (rows int, times []string) {
		for path := auditPath + query; path != ""; {
			list := v.Get(path)
			rows += list.Find("tbody tr").Length()
			for _, at := range list.Find("tbody th time").EachIter() {
				times = append(times, at.AttrOr("datetime", ""))
			}
			path = list.Find("a[rel=next]").AttrOr("href", "")
		}
		return rows, times
	}
	made := func(where string, args ...any) int {
		return pgtest.Value[int](t, f.DB, "select count(*) from audit_log where "+where, args...)
	}
	for query, want := range map[string]int{
		"":                                  made("true"),
		"?actor=ada":                        120,
		"?actor=ada&action=client.updated":  made("actor = 'ada' and action = 'client.updated'"),
		"?actor=nobody":                     0,
		"?user=" + f.User.ID.String():       made("user_id = $1", f.User.ID),
		"?partner=" + named.ID.String():     made("client_id = $1", named.ID),
		"?partner=" + uuid.NewString():      0,
		"?from=2026-03-10T12:24":            made("at >= '2026-03-10 12:24Z'"),
		"?to=2026-03-10T12:24:00&actor=ada": 109,
		"?from=2026-03-10&to=2026-03-10":    0,
		"?actor=&action=&user=&from=&to=":   made("true"),
		"?partner=" + named.ID.String() + "&user=" + f.User.ID.String() + "&actor=ada&action=client.updated&from=2026-03-10T11:00": made(
			"client_id = $1 and user_id = $2 and at >= '2026-03-10 11:00Z'", named.ID, f.User.ID),
	} {
		rows, times := rowsOf(query)
		if rows != want {
			t.Errorf("%q: %d rows, want %d", query, rows, want)
		}
		for i := 1; i < len(times); i++ {
			if times[i] > times[i-1] {
				t.Errorf("%q: %s comes after %s", query, times[i], times[i-1])
			}
		}
	}
	for _, wrong := range []string{
		"?from=yesterday", "?user=1", "?partner=x", "?to=2026-13-01", "?user=" + uuid.Nil.String(), "?partner=" + uuid.Nil.String(),
	} {
		v.shows(v.Get(auditPath+wrong), headingAudit, "A time is malformed,")
	}
	v.fails(v.Get(auditPath+"?who=ada"), http.StatusBadRequest, "This form cannot be read")
	next := page.Find("a[rel=next]").AttrOr("href", "")
	v.fails(v.Get(strings.Replace(next, "?", "?actor=ada&", 1)), http.StatusBadRequest, "This page of the list does not exist")

	// The form keeps the search, and each entry leads to more like it.
	page = v.Get(auditPath + "?actor=ada&from=2026-03-10T12:00")
	if actor, from := page.Find("#actor").AttrOr("value", ""), page.Find("#from").AttrOr("value", ""); actor != "ada" || from != "2026-03-10T12:00" {
		t.Errorf("the form has %q from %q", actor, from)
	}
	v.shows(v.Get(page.Find("tbody td a").Eq(1).AttrOr("href", "")), headingAudit, "client.updated")
}

// A search that finds next to nothing among very many says how far it came, and goes on from there.
func TestAuditSearchesInParts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.happened(t)
	f.DB.Exec(t, `insert into audit_log (subject, client_id, actor, action, at)
		select client_id, client_id, 'grace', 'client.enabled', $1::timestamptz + n * interval '1 second'
		from (select client_id from clients limit 1) c, generate_series(1, 21000) n`, start)
	f.DB.Exec(t, "insert into audit_log (subject, client_id, actor, action, at) select client_id, client_id, 'grace', 'client.disabled', $1 from clients limit 1", start)
	v := f.signedIn(t, edgetest.AdaToken)
	path, pages, rows := auditPath+"?actor=grace&action=client.disabled", 0, 0
	for ; path != ""; pages++ {
		page := v.Get(path)
		rows += page.Find("tbody tr").Length()
		if path = page.Find("a[rel=next]").AttrOr("href", ""); path != "" {
			v.shows(page, headingAudit, "Searched back to 2026-03-10", "The next page continues from there.")
		}
	}
	if pages < 2 || rows != 1 {
		t.Errorf("%d rows on %d pages", rows, pages)
	}
}

func TestAuditCSV(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	named, _ := f.happened(t)
	v := f.signedIn(t, edgetest.GraceToken)
	link := v.Get(auditPath+"?actor=ada&partner="+named.ID.String()).Find(".ways a.other").AttrOr("href", "")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.server.URL+link, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := v.Client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if kind, as := answer.Header.Get("Content-Type"), answer.Header.Get("Content-Disposition"); answer.StatusCode != http.StatusOK ||
		kind != "text/csv; charset=utf-8; header=present" || as != `attachment; filename="audit.csv"` || answer.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("status %d, %s, %s", answer.StatusCode, kind, as)
	}
	rows, err := csv.NewReader(answer.Body).ReadAll()
	if err != nil || len(rows) != 41 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	found, err := f.config.Audit.Search(t.Context(), audit.Filter{Actor: "ada", ClientID: named.ID}, page.Key{}, 50)
	if err != nil {
		t.Fatal(err)
	}
	for i, event := range found.Events {
		if row := rows[i+1]; row[0] != event.At.UTC().Format(time.RFC3339Nano) || row[4] != named.ID.String() || row[6] != string(event.Detail) {
			t.Errorf("row %d is %q", i+1, row)
		}
	}
	v.fails(v.Get(auditPath+".csv?from=yesterday"), http.StatusNotFound, "There is no such page")
	out := f.visitor(t)
	if got := out.Get(auditPath + ".csv"); got.StatusCode != http.StatusSeeOther {
		t.Errorf("who is not signed in gets %d", got.StatusCode)
	}
}

func TestChromiumAudit(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	_, plain := s.happened(t)
	s.DB.Exec(t, `insert into audit_log (subject, user_id, client_id, actor, action, at, connection_version, detail)
		values ($1, $1, $2, 'operator', 'connection.disconnected', connect_now(), 12, jsonb_build_object('scopes', repeat('cycling_activities:read ', 3), 'reason', 'x'))`,
		s.User.ID, plain.ID)
	s.at(t, auditPath)
	s.looks(t, "audit")
	s.at(t, auditPath+"?from=yesterday")
	s.looks(t, "audit-wrong")
	s.at(t, auditPath+"?actor=nobody")
	s.looks(t, "audit-none")
}
