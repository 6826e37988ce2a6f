package partner

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// today is the day on which a fixture begins, tomorrow and yesterday the days beside it.
const today, tomorrow, yesterday = "2026-03-10", "2026-03-11", "2026-03-09"

// reads are the three endpoints with the scope that each needs.
var reads = []struct {
	name  string
	scope scope.Set
}{
	{"daily-activity", scope.DailySteps},
	{"cycling-daily", scope.CyclingDaily},
	{"cycling-activities", scope.CyclingActivities},
}

// read is a request for one day.
func read(endpoint string, grant uuid.UUID, token, day string) outgoing {
	return outgoing{
		Method: "GET", Target: fmt.Sprintf("/connect-svc/v1/grants/%s/%s?from=%s&to=%s", grant, endpoint, day, day),
		Header: http.Header{"Authorization": {"Bearer " + token}},
	}
}

// steps is a read of today's steps.
func steps(grant uuid.UUID, token string) outgoing {
	return read("daily-activity", grant, token, today)
}

// replace changes a part of the address.
func replace(old, with string) func(*outgoing) {
	return func(out *outgoing) { out.Target = strings.Replace(out.Target, old, with, 1) }
}

// pad makes the whole address, with the base URL, as long as length by a longer `to`.
func pad(length int) func(*outgoing) {
	return func(out *outgoing) { out.Target += strings.Repeat("x", length-len(baseURL)-len(out.Target)) }
}

// row of a read: what is changed, what the answer is, and whether the limiter counted it.
type readRow struct {
	name    string
	change  func(*outgoing)
	status  int
	code    string
	counted bool
}

const (
	counted   = true
	uncounted = false
)

func checkReads(t *testing.T, f *fixture, base outgoing, rows []readRow) {
	t.Helper()
	for _, row := range rows {
		out := base
		out.Header = base.Header.Clone()
		row.change(&out)
		got := f.send(t, out)
		got.Check(t, row.status, row.code, row.name)
		for _, name := range []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
			if has := got.Header.Get(name) != ""; has != row.counted {
				t.Errorf("%s: %s is there: %t, want %t", row.name, name, has, row.counted)
			}
		}
	}
}

func TestReads_4_6(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.Connect(t, f.client, scope.All)
	grant := tokens.GrantID.String()
	for _, endpoint := range reads {
		t.Run(endpoint.name, func(t *testing.T) {
			t.Parallel()
			noToken := header("Authorization", "Bearer svca_unknown")
			checkReads(t, f, read(endpoint.name, tokens.GrantID, tokens.AccessToken, today), []readRow{
				{"4.6 one day", query(""), 200, "", counted},
				{"8 to is tomorrow", replace("to="+today, "to="+tomorrow), 200, "", counted},
				{"8 from is tomorrow", all(replace("from="+today, "from="+tomorrow), replace("to="+today, "to="+tomorrow)), 200, "", counted},

				{"5.2 no header", header("Authorization"), 401, "invalid_access_token", uncounted},
				{"5.2 empty header", header("Authorization", ""), 401, "invalid_access_token", uncounted},
				{"5.2 no token", header("Authorization", "Bearer "), 401, "invalid_access_token", uncounted},
				{"5.2 two headers", header("Authorization", "Bearer "+tokens.AccessToken, "Bearer "+tokens.AccessToken), 401, "invalid_access_token", uncounted},
				{"5.2 another scheme", header("Authorization", edgetest.BasicOf(f.client)), 401, "invalid_access_token", uncounted},
				{"5.2 unknown token", noToken, 401, "invalid_access_token", uncounted},
				{"5.2 altered token", header("Authorization", "Bearer "+tokens.AccessToken+"A"), 401, "invalid_access_token", uncounted},
				{"5.2 refresh token", header("Authorization", "Bearer "+tokens.RefreshToken), 401, "invalid_access_token", uncounted},
				{"5.2 token in the query", all(header("Authorization"), query("&access_token="+tokens.AccessToken)), 401, "invalid_access_token", uncounted},

				{"4.6 another grant", replace(grant, uuid.NewString()), 404, "not_found", uncounted},
				{"4.6 grant in capitals", replace(grant, strings.ToUpper(grant)), 404, "not_found", uncounted},
				{"4.6 grant is no UUID", replace(grant, "123"), 404, "not_found", uncounted},
				{"4.6 escaped slash", replace(grant+"/", grant+"%2F"), 404, "not_found", uncounted},
				{"4.6 NUL in the grant", replace(grant, grant+"%00"), 404, "not_found", uncounted},

				{"7.4 unknown parameter", query("&tz=UTC"), 400, "invalid_request", uncounted},
				{"7.4 parameter without name", query("&=1"), 400, "invalid_request", uncounted},
				{"7.4 repeated from", query("&from=" + today), 400, "invalid_request", uncounted},
				{"7.4 repeated to", query("&to=" + today), 400, "invalid_request", uncounted},
				{"7.4 bad percent-encoding", query("%zz"), 400, "invalid_request", uncounted},
				{"7.4 semicolon", query(";a=b"), 400, "invalid_request", uncounted},
				{"7.4 NUL", query("%00"), 400, "invalid_request", uncounted},
				{"7.4 broken UTF-8", query("%ff"), 400, "invalid_request", uncounted},
				{"7.4 body", extend("x"), 400, "invalid_request", uncounted},
				{"7.4 body, chunked", func(out *outgoing) { out.Body, out.Chunked = "x", true }, 400, "invalid_request", uncounted},
				{"8 URL of 4096 characters", pad(4096), 400, "invalid_date_range", counted},
				{"8 URL of 4097 characters", pad(4097), 400, "invalid_request", uncounted},

				{"7.4 no parameters", func(out *outgoing) { out.Target, _, _ = strings.Cut(out.Target, "?") }, 400, "invalid_date_range", counted},
				{"7.4 no from", replace("from="+today+"&", ""), 400, "invalid_date_range", counted},
				{"7.4 no to", replace("&to="+today, ""), 400, "invalid_date_range", counted},
				{"7.4 empty from", replace("from="+today, "from="), 400, "invalid_date_range", counted},
				{"7.4 empty to", replace("to="+today, "to="), 400, "invalid_date_range", counted},
				{"7.4 from without value", replace("from="+today, "from"), 400, "invalid_date_range", counted},
				{"7.4 short date", replace("from="+today, "from=2026-3-10"), 400, "invalid_date_range", counted},
				{"7.4 date without hyphens", replace("from="+today, "from=20260310"), 400, "invalid_date_range", counted},
				{"7.4 date with time", replace("to="+today, "to="+today+"T00:00:00Z"), 400, "invalid_date_range", counted},
				{"7.4 date with a space", replace("to="+today, "to="+today+"%20"), 400, "invalid_date_range", counted},
				{"7.4 date of other digits", replace("to="+today, "to=%D9%A2026-03-10"), 400, "invalid_date_range", counted},
				{"7.4 two dates in one", replace("to="+today, "to="+today+","+today), 400, "invalid_date_range", counted},
				{"7.4 no such day", replace("to="+today, "to=2026-02-30"), 400, "invalid_date_range", counted},
				{"7.4 year 0", replace("from="+today, "from=0000-01-01"), 400, "invalid_date_range", counted},
				{"7.4 from after to", replace("from="+today, "from="+tomorrow), 400, "invalid_date_range", counted},
				{"8 from before history_from", replace("from="+today, "from="+yesterday), 400, "invalid_date_range", counted},
				{"8 to after tomorrow", replace("to="+today, "to=2026-03-12"), 400, "invalid_date_range", counted},

				{"order: token before grant", all(noToken, replace(grant, "123")), 401, "invalid_access_token", uncounted},
				{"order: token before shape", all(noToken, query("&tz=UTC")), 401, "invalid_access_token", uncounted},
				{"order: token before dates", all(noToken, replace("to="+today, "")), 401, "invalid_access_token", uncounted},
				{"order: grant before shape", all(replace(grant, "123"), query("&tz=UTC")), 404, "not_found", uncounted},
				{"order: grant before URL length", all(replace(grant, "123"), pad(4097)), 404, "not_found", uncounted},
				{"order: shape before dates", all(replace("to="+today, "to="), query("&tz=UTC")), 400, "invalid_request", uncounted},
			})
		})
	}
}

// A range of 31 dates and not one more, and the bounds below it.
func TestRange_8(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.Connect(t, f.client, scope.All)
	f.DB.Clock.Advance(60 * 24 * time.Hour)
	tokens = checkedRefresh(t, f, f.client, tokens)
	between := func(from, to string) func(*outgoing) {
		return all(replace("from="+today, "from="+from), replace("to="+today, "to="+to))
	}
	for _, endpoint := range reads {
		checkReads(t, f, read(endpoint.name, tokens.GrantID, tokens.AccessToken, today), []readRow{
			{endpoint.name + " 31 dates", between("2026-04-01", "2026-05-01"), 200, "", counted},
			{endpoint.name + " 32 dates", between("2026-04-01", "2026-05-02"), 400, "invalid_date_range", counted},
			{endpoint.name + " from is history_from", between(today, today), 200, "", counted},
			{endpoint.name + " from is the day before", between(yesterday, today), 400, "invalid_date_range", counted},
		})
	}
}

// Steps have a second lower bound, the user's registration day (specification 4.6).
func TestRegistrationDay_4_6(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.Connect(t, f.client, scope.All)
	f.DB.Exec(t, "update users set registered_on = $1", tomorrow)
	for i, endpoint := range reads {
		status, code := 200, ""
		if i == 0 {
			status, code = 400, "invalid_date_range"
		}
		f.send(t, read(endpoint.name, tokens.GrantID, tokens.AccessToken, today)).Check(t, status, code)
		f.send(t, read(endpoint.name, tokens.GrantID, tokens.AccessToken, tomorrow)).Check(t, 200, "")
	}
}

func TestScope_5_2(t *testing.T) {
	t.Parallel()
	for _, granted := range reads {
		t.Run(granted.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			tokens := f.Connect(t, f.client, granted.scope)
			for _, endpoint := range reads {
				base := read(endpoint.name, tokens.GrantID, tokens.AccessToken, today)
				if endpoint.name == granted.name {
					f.send(t, base).Check(t, 200, "")
					continue
				}
				checkReads(t, f, base, []readRow{
					{"5.2 scope", query(""), 403, "insufficient_scope", uncounted},
					{"order: scope before grant", replace(tokens.GrantID.String(), "123"), 403, "insufficient_scope", uncounted},
					{"order: scope before shape", query("&tz=UTC"), 403, "insufficient_scope", uncounted},
				})
				got := f.send(t, base)
				if challenge := got.Header.Get("WWW-Authenticate"); challenge != `Bearer realm="svc-connect", error="insufficient_scope"` {
					t.Errorf("WWW-Authenticate is %q", challenge)
				}
			}
		})
	}
}

// Users see what a partner has read, by dataset: a read counts once its rows were read, and recording it is not in its way.
func TestRecordedReads(t *testing.T) {
	t.Parallel()
	type sent struct {
		change func(*outgoing)
		status int
		code   string
	}
	away := func(table string) func(*testing.T, *fixture) {
		return func(t *testing.T, f *fixture) { f.DB.Exec(t, "alter table "+table+" rename to away") }
	}
	for name, test := range map[string]struct {
		before func(*testing.T, *fixture)
		sent   map[string][]sent // by endpoint
		want   scope.Set
	}{
		"two datasets within an hour": {nil, map[string][]sent{
			reads[0].name: {{query(""), 200, ""}, {query(""), 200, ""}}, reads[2].name: {{query(""), 200, ""}},
		}, reads[0].scope | reads[2].scope},
		"dates": {nil, map[string][]sent{
			reads[0].name: {{replace("to="+today, "to=2026-02-30"), 400, "invalid_date_range"}},
			reads[1].name: {{replace("from="+today, "from="+yesterday), 400, "invalid_date_range"}},
			reads[2].name: {{query(""), 200, ""}},
		}, reads[2].scope},
		"cursor": {nil, map[string][]sent{
			reads[0].name: {{query(""), 200, ""}}, reads[2].name: {{query("&cursor=cc1_x"), 400, "invalid_cursor"}},
		}, reads[0].scope},
		"shape": {nil, map[string][]sent{reads[0].name: {{query("&tz=UTC"), 400, "invalid_request"}}}, 0},
		"steps away": {away("daily_steps"), map[string][]sent{
			reads[0].name: {{query(""), 503, "data_unavailable"}}, reads[1].name: {{query(""), 200, ""}},
		}, reads[1].scope},
		"rides away": {away("cycling_activities"), map[string][]sent{
			reads[0].name: {{query(""), 200, ""}}, reads[1].name: {{query(""), 503, "data_unavailable"}}, reads[2].name: {{query(""), 503, "data_unavailable"}},
		}, reads[0].scope},
		"a record that fails": {func(t *testing.T, f *fixture) {
			f.DB.Exec(t, "create function refuse() returns trigger language plpgsql as 'begin raise exception ''refused''; end'")
			f.DB.Exec(t, "create trigger refuse before update on connections for each row execute function refuse()")
		}, map[string][]sent{reads[0].name: {{query(""), 200, ""}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "a record that fails" {
				pgtest.NotOnCluster(t, "a trigger is on the shards")
			}
			t.Parallel()
			f := newFixture(t)
			tokens := f.Connect(t, f.client, scope.All)
			if test.before != nil {
				test.before(t, f)
			}
			for endpoint, all := range test.sent {
				for _, one := range all {
					out := read(endpoint, tokens.GrantID, tokens.AccessToken, today)
					one.change(&out)
					f.send(t, out).Check(t, one.status, one.code)
				}
			}
			f.RecordReads(t)
			var got scope.Set
			c, err := f.OAuth.Connection(t.Context(), f.User.ID, f.client.ID)
			for _, r := range c.Reads {
				got |= r.Of
			}
			if err != nil || got != test.want {
				t.Errorf("recorded %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

// Why an access token ends, as far as the edge has a part in it (specification 5.2).
func TestAccessTokenEnds_5_2(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		end  func(t *testing.T, f *fixture)
	}{
		{"expired", func(_ *testing.T, f *fixture) { f.DB.Clock.Advance(300 * time.Second) }},
		{"lapsed", func(t *testing.T, f *fixture) {
			f.DB.Exec(t, "update connections set refresh_deadline = connect_now()")
		}},
		{"user deleted", func(t *testing.T, f *fixture) { f.DB.Exec(t, "delete from users") }},
		{"client disabled", func(t *testing.T, f *fixture) {
			if err := f.Clients.Disable(t.Context(), f.client.ID); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			tokens := f.Connect(t, f.client, scope.All)
			request := steps(tokens.GrantID, tokens.AccessToken)
			f.send(t, request).Check(t, 200, "")
			test.end(t, f)
			got := f.send(t, request)
			got.Check(t, 401, "invalid_access_token")
			if challenge := got.Header.Get("WWW-Authenticate"); challenge != `Bearer realm="svc-connect", error="invalid_token"` {
				t.Errorf("WWW-Authenticate is %q", challenge)
			}
		})
	}
}

// checkBody compares an answer, except for snapshot_at, which must be now.
func (f *fixture) checkBody(t *testing.T, request outgoing, want string) {
	t.Helper()
	before := f.DB.Now().Truncate(time.Millisecond)
	got := f.send(t, request)
	got.Check(t, 200, "")
	var body, wanted map[string]any
	if err := json.Unmarshal([]byte(got.Body), &body); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	meta, _ := body["meta"].(map[string]any)
	text, _ := meta["snapshot_at"].(string)
	snapshot, err := time.Parse(instant, text)
	if err != nil || snapshot.Before(before) || snapshot.After(f.DB.Now()) {
		t.Errorf("snapshot_at is %q, want now", text)
	}
	delete(meta, "snapshot_at")
	if diff := cmp.Diff(wanted, body); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func TestDailySteps_4_7(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.Connect(t, f.client, scope.All)
	request := read("daily-activity", tokens.GrantID, tokens.AccessToken, today)
	f.checkBody(t, request, `{
		"data": [],
		"meta": {"from": "2026-03-10", "to": "2026-03-10", "date_basis": "svc_recorded_date", "source": "svc"}
	}`)
	f.DB.Exec(t, "insert into daily_steps (user_id, date, steps) values ($1, $2, 10), ($1, $3, 8421), ($1, $4, 0)",
		f.User.ID, yesterday, today, tomorrow)
	replace("to="+today, "to="+tomorrow)(&request)
	f.checkBody(t, request, `{
		"data": [
			{"date": "2026-03-10", "steps": 8421, "updated_at": null},
			{"date": "2026-03-11", "steps": 0, "updated_at": null}
		],
		"meta": {"from": "2026-03-10", "to": "2026-03-11", "date_basis": "svc_recorded_date", "source": "svc"}
	}`)
}

// addRide stores a ride of the fixture's user.
func (f *fixture) addRide(t testing.TB, id, start string, end *string, meters int) {
	t.Helper()
	f.DB.Exec(t, `insert into cycling_activities (user_id, source_id, start_time, end_time, distance_meters)
		values ($1, $2, $3::text::timestamp, $4::text::timestamp, $5)`, f.User.ID, id, start, end, meters)
}

func TestCyclingDaily_4_8(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.Connect(t, f.client, scope.All)
	f.addRide(t, "a", today+" 07:00:00", nil, 1000)
	f.addRide(t, "b", today+" 17:42:10.25", nil, 11840)
	f.checkBody(t, read("cycling-daily", tokens.GrantID, tokens.AccessToken, today), `{
		"data": [{"date": "2026-03-10", "distance_meters": 12840, "source": "svc", "updated_at": null}],
		"meta": {"from": "2026-03-10", "to": "2026-03-10", "date_basis": "svc_recorded_date"}
	}`)
}

func TestCyclingActivities_4_9(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.Connect(t, f.client, scope.All)
	end := today + " 18:20:03.5"
	f.addRide(t, "a", today+" 07:00:00", nil, 1000)
	f.addRide(t, "b", today+" 17:42:10.123456", &end, 11840)

	request := read("cycling-activities", tokens.GrantID, tokens.AccessToken, today)
	var page struct {
		Data []struct{ ID string }
	}
	if err := json.Unmarshal([]byte(f.send(t, request).Body), &page); err != nil || len(page.Data) != 2 {
		t.Fatalf("%d rows, %v", len(page.Data), err)
	}
	f.checkBody(t, request, `{
		"data": [{
			"id": "`+page.Data[0].ID+`", "date": "2026-03-10", "distance_meters": 1000,
			"recorded_start_time": "2026-03-10T07:00:00.000000", "recorded_end_time": null,
			"timezone": null, "manual": null, "granularity": "unknown", "source": "svc", "updated_at": null
		}, {
			"id": "`+page.Data[1].ID+`", "date": "2026-03-10", "distance_meters": 11840,
			"recorded_start_time": "2026-03-10T17:42:10.123456", "recorded_end_time": "2026-03-10T18:20:03.500000",
			"timezone": null, "manual": null, "granularity": "unknown", "source": "svc", "updated_at": null
		}],
		"meta": {"from": "2026-03-10", "to": "2026-03-10", "date_basis": "svc_recorded_date",
			"time_basis": "svc_recorded_clock", "next_cursor": null}
	}`)
}

// page is the part of a page that paging is about.
type page struct {
	Data []struct{ ID string }
	Meta struct {
		NextCursor *string `json:"next_cursor"`
	}
}

func (f *fixture) page(t *testing.T, request outgoing) page {
	t.Helper()
	got := f.send(t, request)
	got.Check(t, 200, "")
	var p page
	if err := json.Unmarshal([]byte(got.Body), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPaging_4_9(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.Connect(t, f.client, scope.All)
	for i := range 101 {
		f.addRide(t, strconv.Itoa(i), today+" 07:00:00", nil, i)
	}
	base := read("cycling-activities", tokens.GrantID, tokens.AccessToken, today)
	with := func(parameters string) outgoing {
		request := base
		request.Target += parameters
		return request
	}

	seen := map[string]bool{}
	var sizes []int
	for next := ""; ; {
		p := f.page(t, with("&limit=40"+next))
		sizes = append(sizes, len(p.Data))
		for _, ride := range p.Data {
			seen[ride.ID] = true
		}
		if p.Meta.NextCursor == nil {
			break
		}
		next = "&cursor=" + url.QueryEscape(*p.Meta.NextCursor)
	}
	if diff := cmp.Diff([]int{40, 40, 21}, sizes); diff != "" || len(seen) != 101 {
		t.Errorf("saw %d rides, in pages (-want +got):\n%s", len(seen), diff)
	}

	// Without a limit it is 100, also for the cursor (4.9).
	first := f.page(t, base)
	if len(first.Data) != 100 || first.Meta.NextCursor == nil {
		t.Fatalf("a page without limit has %d rides", len(first.Data))
	}
	cursor := "&cursor=" + url.QueryEscape(*first.Meta.NextCursor)
	if last := f.page(t, with(cursor+"&limit=100")); len(last.Data) != 1 || last.Meta.NextCursor != nil {
		t.Errorf("the last page has %d rides", len(last.Data))
	}

	checkReads(t, f, base, []readRow{
		{"4.9 limit 1", query("&limit=1"), 200, "", counted},
		{"4.9 limit 500", query("&limit=500"), 200, "", counted},
		{"4.9 limit 0", query("&limit=0"), 400, "invalid_request", uncounted},
		{"4.9 limit 501", query("&limit=501"), 400, "invalid_request", uncounted},
		{"4.9 limit below zero", query("&limit=-1"), 400, "invalid_request", uncounted},
		{"4.9 limit with leading zero", query("&limit=0100"), 400, "invalid_request", uncounted},
		{"4.9 limit with sign", query("&limit=%2B100"), 400, "invalid_request", uncounted},
		{"4.9 limit with fraction", query("&limit=100.0"), 400, "invalid_request", uncounted},
		{"4.9 limit with exponent", query("&limit=1e2"), 400, "invalid_request", uncounted},
		{"4.9 limit with space", query("&limit=100%20"), 400, "invalid_request", uncounted},
		{"4.9 limit with line break", query("&limit=100%0A"), 400, "invalid_request", uncounted},
		{"4.9 limit in hexadecimal", query("&limit=0x10"), 400, "invalid_request", uncounted},
		{"4.9 limit of other digits", query("&limit=%D9%A1"), 400, "invalid_request", uncounted},
		{"4.9 long limit", query("&limit=" + strings.Repeat("9", 30)), 400, "invalid_request", uncounted},
		{"4.9 empty limit", query("&limit="), 400, "invalid_request", uncounted},
		{"7.4 repeated limit", query("&limit=1&limit=1"), 400, "invalid_request", uncounted},
		{"4.9 empty cursor", query("&cursor="), 400, "invalid_request", uncounted},
		{"7.4 repeated cursor", query(cursor + cursor), 400, "invalid_request", uncounted},
		{"7.4 unknown cursor", query("&cursor=cc1_unknown"), 400, "invalid_cursor", counted},
		{"7.4 altered cursor", query(cursor + "A"), 400, "invalid_cursor", counted},
		{"7.4 access token as cursor", query("&cursor=" + tokens.AccessToken), 400, "invalid_cursor", counted},
		{"7.4 cursor of another limit", query(cursor + "&limit=99"), 400, "invalid_cursor", counted},
		{"7.4 cursor of another range", all(query(cursor), replace("to="+today, "to="+tomorrow)), 400, "invalid_cursor", counted},
		{"order: limit before dates", all(query("&limit=0"), replace("to="+today, "to=x")), 400, "invalid_request", uncounted},
		{"order: dates before cursor", all(query("&cursor=x"), replace("to="+today, "to=x")), 400, "invalid_date_range", counted},
	})
	for _, endpoint := range reads[:2] {
		checkReads(t, f, read(endpoint.name, tokens.GrantID, tokens.AccessToken, today), []readRow{
			{endpoint.name + " has no limit", query("&limit=1"), 400, "invalid_request", uncounted},
			{endpoint.name + " has no cursor", query("&cursor=x"), 400, "invalid_request", uncounted},
		})
	}

	// 7.4: a cursor of an older connection version.
	again := f.Connect(t, f.client, scope.All)
	request := read("cycling-activities", again.GrantID, again.AccessToken, today)
	fresh := f.page(t, request)
	request.Target += cursor
	f.send(t, request).Check(t, 400, "invalid_cursor")

	// 7.4, 8: a cursor 15 minutes after its first page.
	f.DB.Clock.Advance(15 * time.Minute)
	again = checkedRefresh(t, f, f.client, again)
	request = read("cycling-activities", again.GrantID, again.AccessToken, today)
	request.Target += "&cursor=" + url.QueryEscape(*fresh.Meta.NextCursor)
	f.send(t, request).Check(t, 400, "invalid_cursor")
}
