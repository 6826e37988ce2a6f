package console

import (
	"encoding/csv"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/admin/portal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/uuid"
)

// ended are the connections of a partner whose first one the user has disconnected, and whose second one an operator. The third one's user is
// deleted. All had been revoked before, a day earlier each.
func (f *fixture) ended(t *testing.T) (partner pgtest.Client, grants []string) {
	t.Helper()
	partner = f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Ride Club" })
	f.DB.Webhook(t, partner.ID)
	for i := range 3 {
		user := f.DB.User(t)
		tokens := edgetest.Connect(t, f.OAuth, partner, scope.All, user.ID)
		grants = append(grants, tokens.GrantID.String())
		f.DB.Clock.Advance(time.Minute)
		if err := f.OAuth.Revoke(t.Context(), edgetest.Credentials(partner), tokens.RefreshToken); err != nil {
			t.Fatal(err)
		}
		f.DB.Clock.Advance(24 * time.Hour)
		var err error
		switch i {
		case 0:
			err = f.OAuth.DisconnectUser(t.Context(), user.ID, partner.ID)
		case 1:
			err = f.OAuth.DisconnectByOperator(work.WithActor(t.Context(), "grace"), user.ID, partner.ID)
		default:
			_, err = f.Accounts.DeleteUser(t.Context(), user.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.DB.Clock.Advance(time.Minute)
	}
	return partner, grants
}

// A partner sees which of its connections ended, when and why, on a page and in a file, filtered by reason and day, without a name of a user or of an
// operator; and nothing of another partner's.
func TestEndedConnections(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, grants := f.ended(t)
	other := f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Walk Club" })
	foreign := edgetest.Connect(t, f.OAuth, other, scope.All, f.User.ID).GrantID.String()
	if err := f.OAuth.DisconnectUser(t.Context(), f.User.ID, other.ID); err != nil {
		t.Fatal(err)
	}
	server := f.portal(t)
	users := pgtest.Value[[]string](t, f.DB, "select array_agg(distinct user_id::text) from audit_log where user_id is not null")
	home := portal.Path + "/" + partner.ID.String()
	for _, v := range []visitor{f.engineer(t, server, partner.ID, reading), f.signedIn(t, edgetest.GraceToken)} {
		path := home
		if v.Base == f.server.URL {
			path = pathOf(partner.ID)
		}
		ends := path + "/connections"
		all := v.Get(ends)
		v.shows(all, "Ride Club", "The user disconnected", "The operator disconnected", "The user was deleted", "The partner revoked the refresh token", "deleted user")
		for query, want := range map[string]int{
			"": 6, "reason=user_disconnected": 1, "reason=refresh_token_revoked": 3, "reason=lapsed": 0, "from=2026-03-12": 3, "to=2026-03-11": 3,
			"from=2026-03-11&to=2026-03-11": 2, "reason=account_deleted&from=2026-03-13": 1, "reason=account_deleted&from=2026-03-14": 0,
		} {
			if n := v.Get(ends + "?" + query).Find("tbody tr").Length(); n != want {
				t.Errorf("%s: %d ends, want %d", query, n, want)
			}
			file := v.Get(ends + ".csv?" + query)
			rows, err := csv.NewReader(strings.NewReader(file.Source)).ReadAll()
			if err != nil || len(rows) != want+1 || !slices.Equal(rows[0], []string{"ended_at", "reason", "grant_id", "connection_version"}) {
				t.Errorf("%s: status %d, %d rows: %v", query, file.StatusCode, len(rows), err)
			}
		}
		file := v.Get(ends + ".csv?reason=account_deleted")
		if !strings.Contains(file.Source, "Z,account_deleted,,1\n") || file.Header.Get("Content-Type") != "text/csv; charset=utf-8; header=present" {
			t.Errorf("the file of the deleted user's: %s", file.Source)
		}
		if file := v.Get(ends + ".csv?reason=operator_disconnected"); !strings.Contains(file.Source, "Z,operator_disconnected,"+grants[1]+",1\n") {
			t.Errorf("the file of the operator's: %s", file.Source)
		}
		for _, wrong := range []string{"reason=x", "from=yesterday", "to=2026-02-30"} {
			v.shows(v.Get(ends+"?"+wrong), "Ride Club", "The list is not filtered like this.")
			if got := v.Get(ends + ".csv?" + wrong); got.StatusCode != http.StatusNotFound {
				t.Errorf("%s: the file has status %d", wrong, got.StatusCode)
			}
		}

		first := v.Get(ends + "?grant=" + grants[0])
		v.shows(first, "Ride Club", grants[0], "disconnected", "It ended at 2026-03-11 12:3", "The user disconnected.", "The partner revoked the refresh token",
			"Ride Club exchanged the code: version 1", "Webhook connection.revoked: user_disconnected")
		second := v.Get(ends + "?grant=" + grants[1])
		v.shows(second, "Ride Club", grants[1], "It ended at 2026-03-12 12:3", "The operator disconnected.")
		third := v.Get(ends + "?grant=" + strings.ToUpper(grants[2]))
		v.shows(third, "Ride Club", "deleted user", "It ended at 2026-03-13 12:3", "The user was deleted.")
		v.shows(v.Get(ends+"?grant="+foreign), "Ride Club", "no connection")
		log := v.Get(path + "/log")
		v.shows(log, "Ride Club", "The user disconnected", grants[0])
		if strings.Contains(log.Source, grants[2]) {
			t.Error("the log has the grant of a deleted user")
		}
		for _, page := range []edgetest.Page{all, first, second, third, log} {
			main, err := page.Find("main").Html()
			if err != nil {
				t.Fatal(err)
			}
			for _, secret := range append(users, "grace", "@", "allow", foreign) {
				if strings.Contains(main, secret) && (page.Request.URL.Path != log.Request.URL.Path || secret != "allow") {
					t.Errorf("%s has %s", page.Request.URL, secret)
				}
			}
		}
	}
}

// The log names who acted, not the operator who has an act done again after a restore.
func TestLogNamesWhoActed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t)
	v := f.engineer(t, f.portal(t), partner.ID, reading)
	for by, want := range map[string]string{"user": "user", "client": "client", "grace": "operator", "partner:kim": "partner:kim"} {
		f.DB.Exec(t, `insert into audit_log (subject, user_id, client_id, actor, action, connection_version, detail, at)
			values ($1, $1, $2, 'operator', 'connection.disconnected', 3, jsonb_build_object('by', $3::text), connect_now())`, f.User.ID, partner.ID, by)
		log := v.Get(portal.Path + "/" + partner.ID.String() + "/log")
		if got := log.Find("tbody tr:contains('connection.disconnected') td").First().Text(); got != want {
			t.Errorf("what %s did is told of %q, want %s", by, got, want)
		}
		f.DB.Clock.Advance(time.Minute)
	}
}

// The lists of webhooks and of refused requests are filtered by the grant id of a connection, also by that of a deleted user.
func TestFilterByGrant(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, grants := f.ended(t)
	f.DB.Exec(t, "update webhook_events set state = 'failed', queued = true where grant_id = $1 and reason = 'user_disconnected'", grants[0])
	f.DB.Exec(t, `insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests, grant_ids)
		values ($1, true, connect_now(), 'requestToken', 400, 'invalid_grant', 'the user disconnected on 2026-03-11', 2, array[$2::uuid, $3::uuid]),
			($1, true, connect_now(), 'requestToken', 400, 'invalid_request', 'wrong', 1, '{}')`, partner.ID, grants[0], grants[1])
	v := f.signedIn(t, edgetest.GraceToken)
	for path, want := range map[string]int{
		"/webhooks": 6, "/webhooks?grant=" + grants[0]: 2, "/webhooks?state=failed&grant=" + grants[0]: 1, "/webhooks?state=failed&grant=" + grants[1]: 0,
		"/webhooks?grant=" + grants[2]: 2, "/webhooks?grant=" + uuid.NewString(): 0, "/webhooks?grant=x": 0,
		"/refused?grant=" + grants[0]: 1, "/refused?grant=" + grants[1]: 1, "/refused?grant=" + uuid.NewString(): 0, "/refused?grant=x": 0,
		"/refused?grant=" + uuid.Nil.String(): 0, "/refused?request=" + uuid.Nil.String(): 0,
	} {
		got := v.Get(pathOf(partner.ID) + path)
		if n := got.Find("tbody tr").Length(); got.StatusCode != http.StatusOK || n != want {
			t.Errorf("%s: status %d, %d rows, want %d", path, got.StatusCode, n, want)
		}
	}
	page := v.Get(pathOf(partner.ID) + "/webhooks?grant=" + grants[0])
	if to := page.Find("nav.tabs a[href*=failed]").AttrOr("href", ""); !strings.Contains(to, "grant="+grants[0]) {
		t.Errorf("the failed ones of the connection are at %q", to)
	}
}

// An engineer finds why a connection has ended with the keys alone, and the pages fit every screen.
func TestChromiumEnds(t *testing.T) {
	t.Parallel()
	s := newScreen(t)
	partner, grants := s.ended(t)
	s.DB.Exec(t, `insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests, request_ids, grant_ids)
		select $1, true, connect_now() - n * interval '1 minute', case when n > 3 then 'requestToken' else 'listCyclingActivities' end, case when n > 3 then 400 else 429 end,
			case when n > 3 then 'invalid_grant' else 'rate_limited' end,
			case when n > 3 then 'the user disconnected on 2026-03-11' else 'more requests than the rate policy allows' end, 2 * n, array[gen_random_uuid()], array[$2::uuid]
		from generate_series(1, 5) n`, partner.ID, grants[0])
	s.DB.Exec(t, "insert into client_error_counts values ($1, true, '2026-03-12', 'listCyclingActivities', 429, 'rate_limited', 123456)", partner.ID)
	server := s.portal(t)
	home := server.URL + portal.Path + "/" + partner.ID.String()
	s.Open(server.URL + s.link(t, partner.ID, reading))
	s.Submit(chromedp.Click(chromedp.CSS("button.act")))
	for name, path := range map[string]string{
		"ends": "/connections", "ends-none": "/connections?reason=lapsed", "ends-wrong": "/connections?from=x",
		"ended": "/connections?grant=" + grants[0], "ended-deleted": "/connections?grant=" + grants[2],
		"refused-kinds": "/refused", "refused-of-grant": "/refused?grant=" + grants[0], "webhooks-of-grant": "/webhooks?grant=" + grants[0], "log-ends": "/log",
	} {
		if status := s.Open(home + path); status != http.StatusOK {
			t.Errorf("%s answers %d", path, status)
		}
		s.looks(t, name)
	}

	s.Open(home + "/connections")
	s.to(t, "Reason")
	s.Do(chromedp.KeyEvent("The user d"))
	s.to(t, "Search")
	s.Submit(chromedp.KeyEvent(kb.Enter))
	var rows int
	s.Evaluate(`document.querySelectorAll("tbody tr").length`, &rows)
	if rows != 1 {
		t.Errorf("%d ends for the reason", rows)
	}
	s.to(t, grants[0])
	s.Submit(chromedp.KeyEvent(kb.Enter))
	s.to(t, "Its refused requests")
	s.Submit(chromedp.KeyEvent(kb.Enter))
	s.Evaluate(`document.querySelectorAll("tbody tr").length`, &rows)
	if rows != 5 {
		t.Errorf("%d refused requests of the connection", rows)
	}
}
