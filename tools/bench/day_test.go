//go:build faults

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/net/html"
)

const (
	dayTimes = 40                     // how often each step is taken, each time for another user and partner
	dayBound = 200 * time.Millisecond // what 99 of 100 pages and answers of the API stay within
)

// step is one thing that an operator does: a command, a page, a form or a request. It fails if the answer is not what it should be.
type step struct {
	name string
	take func(ctx context.Context, n int) error
}

// call is what somebody asks the operator, and the ways to answer it. Each has three steps at most.
type call struct {
	name                      string
	commands, requests, pages []step
}

// operatorDesk is what operators use: the command line, the API and a session of the console.
type operatorDesk struct {
	*stage
	partners int
	service  *service
	session  string // cookie
}

// testDay builds a large world and plays the calls of a day in it. A step that fails, and a page or an answer of the API that is slow, fail
// the test. Of the users there are two thirds as many connections again, and 2.7 times as many entries of the audit log; the first partner has
// half of them.
func testDay(t *testing.T, s *stage, users, partners int) {
	ctx := s.life
	must(t, errors.Join(s.startDatabase(ctx), s.populateDay(ctx, users, partners)))
	served, err := s.serve(ctx, "day", false)
	must(t, err)
	looking, err := s.serve(ctx, lookingOn, false)
	must(t, err)
	d := &operatorDesk{s, partners, served, ""}
	yesterday := &operatorDesk{s, partners, looking, ""} // of the same database: a copy of it would be restored for longer than all else takes
	must(t, errors.Join(d.awaitDays(ctx), d.signIn(ctx), yesterday.signIn(ctx)))
	file, err := os.Create("bin/day.txt")
	must(t, err)
	defer file.Close()
	table := tabwriter.NewWriter(io.MultiWriter(os.Stdout, file), 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "call\tstep\tp50 ms\tp99 ms\t")
	for _, asked := range d.calls(yesterday) {
		for _, way := range []struct {
			steps []step
			bound time.Duration
		}{{asked.commands, 0}, {asked.requests, dayBound}, {asked.pages, dayBound}} {
			if len(way.steps) > 3 && asked.name != everyPage {
				t.Errorf("%s takes %d steps", asked.name, len(way.steps))
			}
			for _, step := range way.steps {
				took := make([]time.Duration, dayTimes)
				for n := range took {
					began := time.Now()
					if err := step.take(ctx, n); err != nil {
						t.Errorf("%s: %s: %v", asked.name, step.name, err)
						break
					}
					took[n] = time.Since(began)
				}
				slices.Sort(took)
				p50, p99 := took[len(took)/2], took[len(took)*99/100]
				fmt.Fprintf(table, "%s\t%s\t%.0f\t%.0f\t\n", asked.name, step.name, 1000*p50.Seconds(), 1000*p99.Seconds())
				if way.bound > 0 && p99 > way.bound {
					t.Errorf("%s: %s took %s, more than %s", asked.name, step.name, p99.Round(time.Millisecond), way.bound)
				}
			}
		}
	}
	must(t, table.Flush())
}

// awaitDays waits until the service has counted the days of the past, which it does once.
func (d *operatorDesk) awaitDays(ctx context.Context) error {
	for counted := false; !counted; until(time.Now().Add(time.Second), ctx.Done()) {
		if err := errors.Join(ctx.Err(), d.conn.QueryRow(ctx, "select exists (select 1 from usage_days where day = current_date and metric = 'now_authorized' and n > 0)").Scan(&counted)); err != nil {
			return err
		}
	}
	return nil
}

// run is a step at the command line. Its arguments are made for each user and partner.
func (d *operatorDesk) run(args func(n int) string) step {
	return step{"connect-svc " + generic(args(0)), func(ctx context.Context, n int) error {
		return d.command(ctx, strings.Split(args(n), " ")...)
	}}
}

// ask is a step with the operator API: a method, a path and a body, if there is one.
func (d *operatorDesk) ask(request func(n int) string) step {
	return step{generic(request(0)), func(ctx context.Context, n int) error {
		method, rest, _ := strings.Cut(request(n), " ")
		path, body, _ := strings.Cut(rest, " ")
		_, err := d.send(ctx, method, "/operator/v1/"+path, body, operatorHeader)
		return err
	}}
}

// look is a step in the console: a page, or what a search leads to.
func (d *operatorDesk) look(path func(n int) string) step {
	return step{"GET /console/" + generic(path(0)), func(ctx context.Context, n int) error {
		_, err := d.page(ctx, path(n))
		return err
	}}
}

func (d *operatorDesk) page(ctx context.Context, path string) ([]byte, error) {
	return d.send(ctx, http.MethodGet, strings.TrimSuffix("/console/"+path, "/"), "", http.Header{"Cookie": {d.session}})
}

// fill is a step in the console: the form of a page with some fields filled in, name=value, and all others as they are.
func (d *operatorDesk) fill(path func(n int) string, fields ...string) step {
	return step{"form /console/" + generic(path(0)), func(ctx context.Context, n int) error {
		page, err := d.page(ctx, path(n))
		if err != nil {
			return err
		}
		form, err := formOf(page)
		if err != nil {
			return err
		}
		for _, field := range fields {
			name, value, _ := strings.Cut(field, "=")
			form.Set(name, value)
		}
		_, err = d.send(ctx, http.MethodPost, "/console/"+path(n), form.Encode(), http.Header{
			"Cookie": {d.session}, "Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}})
		return err
	}}
}

var anyID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
var anyAddress = regexp.MustCompile(`user-[0-9]+(@|%40)user.example`)

// generic is a text without the ids and addresses in it.
func generic(text string) string {
	return anyAddress.ReplaceAllString(anyID.ReplaceAllString(text, "ID"), "EMAIL")
}

// send asks the private listener, and keeps the session.
func (d *operatorDesk) send(ctx context.Context, method, path, body string, header http.Header) ([]byte, error) {
	answer, cookies, err := d.service.ask(ctx, method, path, body, header)
	for _, cookie := range cookies {
		d.session = cookie.Name + "=" + cookie.Value
	}
	return answer, err
}

func (d *operatorDesk) signIn(ctx context.Context) error {
	_, err := d.send(ctx, http.MethodPost, "/console/sign-in", url.Values{"token": {secret}, "to": {""}}.Encode(), http.Header{
		"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}})
	if err == nil && d.session == "" {
		err = errors.New("the console gave no session")
	}
	return err
}

// formOf returns the fields of the last form on a page before its foot, with what is in them.
func formOf(page []byte) (url.Values, error) {
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		return nil, err
	}
	var fields url.Values
	for node := range root.Descendants() {
		if node.Data == "footer" {
			break
		}
		attribute := map[string]string{}
		for _, a := range node.Attr {
			attribute[a.Key] = a.Val
		}
		_, isChecked := attribute["checked"]
		switch name := attribute["name"]; {
		case node.Type != html.ElementNode:
		case node.Data == "form":
			fields = url.Values{}
		case fields == nil || name == "" || node.Data == "button":
		case node.Data == "textarea" && node.FirstChild != nil:
			fields.Set(name, node.FirstChild.Data)
		case node.Data == "input" && (attribute["type"] != "radio" && attribute["type"] != "checkbox" || isChecked):
			fields.Add(name, attribute["value"])
		}
	}
	if fields == nil {
		return nil, errors.New("a page without a form")
	}
	return fields, nil
}

// everyPage is not a call, but all pages and lists that operators see.
const everyPage = "every page"

// calls are what people ask an operator in a day. yesterday is the desk of somebody who looks at a backup. Acts come last, so that what they ask about is still there.
func (d *operatorDesk) calls(yesterday *operatorDesk) []call {
	email := func(n int) string { return userEmail(firstCaller + n) }
	user := func(n int) string { return userID(firstCaller + n).String() }
	partner := func(n int) string { return clientID(firstAsking + n).String() }
	query := func(n int) string { return url.QueryEscape(email(n)) }
	of := func(path string) func(int) string { return func(int) string { return path } }
	about := func(format string, of ...func(int) string) func(int) string {
		return func(n int) string {
			var values []any
			for _, value := range of {
				values = append(values, value(n))
			}
			return fmt.Sprintf(format, values...)
		}
	}
	// The partner that a user is connected with.
	connected := func(n int) string { return clientID(1 + (firstCaller+n)*7919%(d.partners-1)).String() }
	// Acts are about others each time, so that none has been done before.
	later := func(text func(int) string, place int) func(int) string {
		return func(n int) string { return text(n + place*dayTimes) }
	}
	month := "from=" + time.Now().AddDate(0, 0, -30).Format(time.DateOnly) + "&to=" + time.Now().Format(time.DateOnly)
	return []call{
		{everyPage, nil, []step{
			d.ask(of("GET clients")), d.ask(of("GET clients?query=partner+77")), d.ask(of("GET users")), d.ask(of("GET audit-log")), d.ask(of("GET webhook-events")),
			d.ask(about("GET connections?client_id=%s", func(int) string { return clientID(0).String() })),
		}, []step{
			d.look(of("")), d.look(of("users")), d.look(of("partners")), d.look(of("partners?q=partner+77")), d.look(of("audit")), d.look(of("service")),
			d.look(of("partners/" + clientID(0).String())), d.look(of("partners/" + clientID(0).String() + "/usage")),
			d.look(of("partners/" + clientID(0).String() + "/refused")), d.look(of("partners/" + clientID(0).String() + "/webhooks")),
			d.look(about("users/%s/connections/%s", user, connected)),
		}},
		{"yesterday's backup", nil,
			[]step{yesterday.ask(about("GET users/%s", user)), yesterday.ask(about("GET users/%s/connections", user)), yesterday.ask(about("GET audit-log?client_id=%s", partner))},
			[]step{yesterday.look(about("find?q=%s", query)), yesterday.look(about("users/%s", user)), yesterday.look(about("partners/%s/log", partner))}},
		{"disk", []step{{"psql: the largest tables", func(ctx context.Context, _ int) error {
			_, err := d.conn.Exec(ctx, "select relname, pg_total_relation_size(relid) from pg_stat_user_tables order by 2 desc limit 10")
			return err
		}}}, nil, []step{d.look(of("service"))}},
		{"the code never came", []step{d.run(about("user sign-ins %s", email))},
			[]step{d.ask(about("GET users?email=%s", query)), d.ask(about("GET users/%s/sign-ins", user))},
			[]step{d.look(about("find?q=%s", query)), d.look(about("users/%s", user))}},
		{"the steps are wrong", []step{d.run(about("user activity %s --from "+month[5:15]+" --to "+month[19:], email))},
			[]step{d.ask(about("GET users?email=%s", query)), d.ask(about("GET users/%s/activity?"+month, user))},
			[]step{d.look(about("find?q=%s", query)), d.look(about("users/%s", user))}},
		{"the partner gets 401", []step{d.run(about("client errors %s", partner))},
			[]step{d.ask(about("GET clients/%s/errors", partner))}, []step{d.look(about("partners/%s/refused", partner))}},
		{"webhooks do not come", []step{d.run(about("webhook list --client %s --state failed", partner))},
			[]step{d.ask(about("GET webhook-events?client_id=%s&state=failed", partner))}, []step{d.look(about("partners/%s/webhooks?state=failed", partner))}},
		{"who changed what", []step{d.run(about("audit list --client %s", partner))},
			[]step{d.ask(about("GET audit-log?client_id=%s", partner))}, []step{d.look(about("audit?partner=%s", partner))}},
		{"how many this month", []step{d.run(of("report --since 30d"))},
			[]step{d.ask(of("GET report?since=" + month[5:15] + "T00:00:00Z"))}, []step{d.look(of(""))}},
		{"is it slow", []step{d.run(about("usage --client %s", partner))},
			[]step{d.ask(about("GET clients/%s/usage", partner))}, []step{d.look(about("partners/%s/usage", partner))}},
		{"which break", []step{d.run(of("client list --callback-host shared.example --webhook-host shared.example"))},
			[]step{d.ask(of("GET clients?callback_host=shared.example&webhook_host=shared.example"))}, []step{d.look(of("partners?host=shared.example"))}},
		{"more budget", []step{d.run(about("client update %s --requests-per-minute 1200", partner))},
			[]step{d.ask(about(`PATCH clients/%s {"requests_per_minute":1300}`, partner))},
			[]step{d.fill(about("partners/%s/change", partner), "requests-per-minute=1400")}},
		{"a new secret", []step{d.run(about("client rotate-secret %s --overlap 24h", partner))},
			[]step{d.ask(about(`POST clients/%s/secret {"overlap_seconds":86400}`, partner))}, []step{d.fill(about("partners/%s/secret", partner), "overlap=86400")}},
		{"hacked partner", []step{d.run(about("client suspend %s --yes", partner)), d.run(about("client resume %s --yes", partner))},
			[]step{d.ask(about("POST clients/%s/suspend", partner)), d.ask(about("POST clients/%s/resume", partner))},
			[]step{d.fill(about("partners/%s/disable", partner)), d.fill(about("partners/%s/resume", partner))}},
		{"tokens leaked", []step{d.run(about("client revoke-tokens %s --yes", partner))},
			[]step{d.ask(about("POST clients/%s/revoke-tokens", partner))}, []step{d.fill(about("partners/%s/revoke", partner))}},
		{"disconnect", []step{d.run(about("connection disconnect --user %s --client %s --yes", email, connected))},
			[]step{d.ask(later(about("DELETE users/%s/connections/%s", user, connected), 1))},
			[]step{d.fill(later(about("users/%s/connections/%s/disconnect", user, connected), 2))}},
		{"a copy of my data", []step{d.run(about("user export %s", email))},
			[]step{d.ask(about("GET users?email=%s", query)), d.ask(about("GET users/%s/export", user))},
			[]step{d.look(about("find?q=%s", query)), d.look(about("users/%s", user)), d.look(about("users/%s/export", user))}},
		{"delete me", []step{d.run(later(about("user delete %s --yes", email), 3))}, []step{d.ask(later(about("DELETE users/%s", user), 4))},
			[]step{d.fill(later(about("users/%s/delete", user), 5))}},
	}
}

// In the world of a day, users, partners and their connections are numbered. The callers' steps begin with these.
const (
	firstCaller = 1000
	firstAsking = 100
)

func userEmail(n int) string { return fmt.Sprintf("user-%d@user.example", n) }

// populateDay fills an empty database: each user is connected with one partner of many, half of them with the first, too, and a tenth with a
// third one. One of twenty connections has lapsed, and one is revoked.
func (s *stage) populateDay(ctx context.Context, users, partners int) error {
	const of = "md5('client ' || %s)::uuid"
	client := func(n string) string { return fmt.Sprintf(of, n) }
	began := time.Now()
	for _, statement := range []struct {
		sql  string
		args []any
	}{
		{"alter system set max_wal_size = '16GB'", nil}, // no checkpoints while it is filled
		{"select pg_reload_conf()", nil},
		{"set statement_timeout = 0", nil},
		{"set session_replication_role = replica", nil},
		{"set synchronous_commit = off", nil},
		{`insert into clients (client_id, name, callback_url, scopes, secret_hash, requests_per_minute, burst, concurrent_reads, contact_email, created_at)
			select ` + client("n") + `, 'Partner ' || n, case when n % 500 = 7 then 'https://shared.example/callback' else $1 end, 7, $2, 600, 60, 10,
				'it-' || n || '@partner.example', now() - n * interval '1 minute'
			from generate_series(0, $3 - 1) n`, []any{callback, secretHash[:], partners}},
		{`insert into users (user_id, email, timezone, registered_on, created_at)
			select md5('user ' || n)::uuid, 'user-' || n || '@user.example', 'UTC', '2020-01-01', now() from generate_series(0, $1 - 1) n`, []any{users}},
		{"insert into user_addresses (address, user_id, email) select email, user_id, email from users", nil},
		{`insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
				refresh_generation, refresh_hash, refresh_deadline, last_read_at, steps_read_at)
			select md5('user ' || n)::uuid, c, gen_random_uuid(), 1, case when n % 20 = 7 then 'revoked' else 'authorized' end, 7, current_date - 30,
				at, 1, case when n % 20 <> 7 then sha256('limit') end, case when n % 20 = 8 then now() - interval '1 day' else now() + interval '90 days' end, now(), now()
			from (select n, ` + client("1 + n * 7919::bigint % ($2 - 1)") + ` as c, now() - n % 400 * interval '1 day' as at from generate_series(0, $1 - 1) n
				union all select n, ` + client("0") + `, now() - n % 30 * interval '1 day' from generate_series(0, $1 / 2 - 1) n
				union all select n, ` + client("1 + (n * 7919::bigint + 1) % ($2 - 1)") + `, now() - n % 90 * interval '1 day' from generate_series(0, $1 / 10 - 1) n
			) pairs`, []any{users, partners}},
		{"insert into grant_directory (grant_id, user_id, client_id) select grant_id, user_id, client_id from connections", nil},
		{`insert into audit_log (subject, actor, action, user_id, client_id, connection_version, detail, at)
			select c.user_id, actor, action, c.user_id, c.client_id, 1, detail::jsonb, c.authorized_at + wait
			from connections c
			cross join (values ('user', 'consent.allowed', '{"scopes": 7}', interval '0'), ('client', 'connection.authorized', '{"scopes": 7}', interval '1 second'))
				as act (actor, action, detail, wait)
			where action <> 'connection.authorized' or c.authorized_at > now() - interval '270 days'
			union all
			select c.user_id, 'client', 'connection.revoked', c.user_id, c.client_id, 1, '{"reason": "refresh_token_revoked"}', now()
			from connections c where c.state = 'revoked'`, nil},
		{`insert into daily_steps (user_id, date, steps)
			select md5('user ' || n)::uuid, current_date - d, 1000 + (n * 7919::bigint + d * 31) % 15000
			from generate_series($1::int, $1 + 999) n, generate_series(0, 61) d`, []any{firstCaller}},
		{`insert into usage_hours (client_id, hour, operation, status, requests, durations)
			select ` + client("n") + `, date_trunc('hour', now()) - h * interval '1 hour', operation, status, 100, array[0, 50, 50]
			from generate_series(0, $1 - 1) n, generate_series(0, 23) h,
				(values ('listDailyActivity', 200), ('requestToken', 200), ('listDailyActivity', 429)) as kind (operation, status)`, []any{partners}},
		{`insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests)
			select ` + client("n") + `, true, now() - e * interval '1 minute', 'requestToken', 400, 'invalid_grant', 'refresh_token is not the current one', 1
			from generate_series(0, 999) n, generate_series(1, 50) e`, nil},
		{`insert into webhook_endpoints (client_id, url, secret) select ` + client("n") + `, 'https://partner.example/hook', 'sealed' from generate_series(0, 999) n`, nil},
		{`insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason, queued, state, attempts, created_at)
			select gen_random_uuid(), ` + client("n % 1000") + `, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected', true,
				case when n % 10000 < 1000 then 'failed' else 'delivered' end, 10, now() - n * interval '20 seconds'
			from generate_series(0, 99999) n`, nil},
		{"insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, fault) select user_id, event_id, 10, now(), 5000, 'cannot connect' from webhook_events where state = 'failed'", nil},
		{"set session_replication_role = origin", nil},
		{"vacuum analyze", nil},
		{"checkpoint", nil},
	} {
		if _, err := s.conn.Exec(ctx, statement.sql, statement.args...); err != nil {
			return fmt.Errorf("%.60s: %w", statement.sql, err)
		}
	}
	fmt.Printf("the world of %d users took %s\n", users, time.Since(began).Round(time.Second))
	return nil
}
