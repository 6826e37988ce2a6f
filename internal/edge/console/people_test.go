package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// noted are the acts of ada in the audit log, the newest first, without that she signed in and viewed activity and sign-ins.
func (f *fixture) noted(t *testing.T) (actions []string) {
	t.Helper()
	page, err := f.config.Audit.Search(t.Context(), audit.Filter{Actor: "ada"}, page.Key{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range page.Events {
		if !strings.HasPrefix(event.Action, "console.") && event.Action != "activity.viewed" && event.Action != "user.exported" && event.Action != "sign_ins.viewed" {
			actions = append(actions, event.Action)
		}
	}
	return actions
}

func (f *fixture) wasNoted(t *testing.T, actions ...string) {
	t.Helper()
	if got := f.noted(t); fmt.Sprint(got) != fmt.Sprint(actions) {
		t.Errorf("ada did %v, want %v", got, actions)
	}
}

// putSteps records steps of a day of March 2026.
func (f *fixture) putSteps(t *testing.T, day, steps int) {
	t.Helper()
	record := activity.StepsRecord{UserID: f.User.ID, Date: time.Date(2026, 3, day, 0, 0, 0, 0, time.UTC), Steps: steps}
	if _, err := f.config.Activity.Put(t.Context(), activity.Batch{DailySteps: []activity.StepsRecord{record}}); err != nil {
		t.Fatal(err)
	}
}

// sent are the fields that a confirm page sends, and those that are written into it.
func sent(p edgetest.Page) (fields []string) {
	for _, one := range p.Find("main form[method=post] input[name], main form textarea, main form select").EachIter() {
		value := one.AttrOr("value", "")
		switch {
		case one.Is("textarea"):
			value = one.Text()
		case one.Is("select"):
			value = one.Find("option[selected]").AttrOr("value", "")
		}
		fields = append(fields, one.AttrOr("name", ""), value)
	}
	return fields
}

func with(fields []string, name, value string) []string {
	changed := append([]string{}, fields...)
	for i := 0; i < len(changed); i += 2 {
		if changed[i] == name {
			changed[i+1] = value
			return changed
		}
	}
	return append(changed, name, value)
}

func TestUserPage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, tokens := f.ConnectNew(t, "Ride Club")
	gone, _ := f.ConnectNew(t, "Ancient Walkers")
	if err := f.config.OAuth.DisconnectUser(t.Context(), f.User.ID, gone.ID); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		if _, err := f.config.Activity.Adjust(t.Context(), activity.AdjustedSteps, activity.AdjustmentRecord{UserID: f.User.ID, Date: start.Truncate(24 * time.Hour), Delta: i + 1, Note: fmt.Sprintf("note %d", i+1)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, token := range []string{edgetest.AdaToken, edgetest.GraceToken} {
		v := f.signedIn(t, token)
		one := v.Get(userPath(f.User.ID))
		v.shows(one, f.User.Email, "Ride Club", "authorized", "daily_steps:read", "2026-03-10", "disconnected", "never", "+60", "note 60")
		if first := strings.TrimSpace(one.Find("#connections ~ table tbody th").First().Text()); first != "Ancient Walkers" {
			t.Errorf("the first connection is with %s", first)
		}
		if links := one.Find(`a[href="` + connectionPath(f.User.ID, partner.ID) + `"]`).Length(); links != 1 {
			t.Errorf("%d links to the connection", links)
		}
		if links := one.Find(`a[href="/console/audit?user=` + f.User.ID.String() + `"]`).Length(); links != 1 {
			t.Errorf("%d links to the audit log", links)
		}
		if acts := one.Find("a.other:not([rel])").Length() > 0; acts != (token == edgetest.AdaToken) {
			t.Errorf("%s: acts are shown: %t", token, acts)
		}
		second := v.Get(one.Find("a[rel=next]").AttrOr("href", ""))
		v.shows(second, f.User.Email, "note 10", "+1")
		if strings.Contains(second.Source, "note 11<") || second.Find(`a[rel=next]`).Length() != 0 {
			t.Error("the second page of corrections has those of the first, or is not the last")
		}
	}
	v := f.signedIn(t, edgetest.GraceToken)
	v.goes(v.Get(findPath+"?q="+tokens.GrantID.String()), connectionPath(f.User.ID, partner.ID))
	v.fails(v.Get(userPath(f.User.ID)+"?after2=x"), http.StatusBadRequest, "This page of the list does not exist")
	v.fails(v.Get(userPath(f.User.ID)+"?x=1"), http.StatusBadRequest, "This form cannot be read")
}

func TestChangeUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.ConnectNew(t, "Ride Club")
	other := f.DB.User(t)
	f.DB.Exec(t, "insert into account_sessions values ($1, sha256('x'), connect_now() + interval '1 minute')", f.User.ID)
	path := userPath(f.User.ID) + "/change"
	v := f.signedIn(t, edgetest.AdaToken)
	form := v.Get(path)
	v.shows(form, "Change "+f.User.Email+"?",
		"A new address ends 1 session of the account pages, 0 sign-ins under way and 0 authorization requests, and forgets 0 known browsers.")
	fields := sent(form)
	v.goes(v.Post(path, fields...), userPath(f.User.ID)) // nothing was changed
	f.wasNoted(t)
	for name, test := range map[string]struct{ field, value, says string }{
		"no address":     {"email", "x", "It must be an address such as name@example.com"},
		"taken":          {"email", strings.ToUpper(other.Email), "Another user has this address."},
		"no time zone":   {"timezone", "Europe/Nowhere", "It must be a name of the time zone database"},
		"no day":         {"registered_on", "2026-02-30", "It must be a date from 1900-01-01 to 9999-12-31."},
		"no early day":   {"registered_on", "1899-12-31", "It must be a date from 1900-01-01 to 9999-12-31."},
		"hostile":        {"timezone", `"><script>alert(1)</script>`, "It must be a name of the time zone database"},
		"hostile in rtl": {"timezone", "\u202eUTC", "It must be a name of the time zone database"},
	} {
		refused := v.Post(path, with(fields, test.field, test.value)...)
		if refused.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: status %d", name, refused.StatusCode)
		}
		v.shows(refused, "Change "+f.User.Email+"?", test.says)
		if got := refused.Find("#f-"+test.field).AttrOr("value", ""); got != test.value || refused.Find("[aria-invalid]").Length() != 1 {
			t.Errorf("%s: the field has %q", name, got)
		}
	}
	f.wasNoted(t)

	// Somebody else changes the time zone meanwhile: it stays.
	f.DB.Exec(t, "update users set timezone = 'Asia/Tokyo' where user_id = $1", f.User.ID)
	v.goes(v.Post(path, with(with(fields, "email", "new@example.com"), "registered_on", "2024-05-06")...), userPath(f.User.ID)+"?done=user_changed")
	v.shows(v.Get(userPath(f.User.ID)+"?done=user_changed"), "new@example.com", "The user is changed.", "Asia/Tokyo", "2024-05-06")
	f.wasNoted(t, "user.changed")
	v.shows(v.Get(path), "Change new@example.com?", "0 sessions")

	// Two operators change the same field: the second one is told, and decides.
	mine := with(sent(v.Get(path)), "timezone", "Asia/Seoul")
	for range 2 { // the button is pressed twice
		v.goes(v.Post(path, with(sent(form), "timezone", "Asia/Tokyo")...), userPath(f.User.ID)+"?done=user_changed")
	}
	v.goes(v.Post(path, with(mine, "timezone", "Europe/Rome")...), userPath(f.User.ID)+"?done=user_changed")
	told := v.Post(path, mine...)
	if told.StatusCode != http.StatusUnprocessableEntity || told.Find("#f-timezone[aria-invalid]").AttrOr("value", "") != "Asia/Seoul" {
		t.Errorf("status %d, the field has %q", told.StatusCode, told.Find("#f-timezone").AttrOr("value", ""))
	}
	v.shows(told, "Change new@example.com?", "It was changed after you opened the form.")
	v.shows(v.Get(userPath(f.User.ID)), "new@example.com", "Europe/Rome")
	v.goes(v.Post(path, sent(told)...), userPath(f.User.ID)+"?done=user_changed")
	v.shows(v.Get(userPath(f.User.ID)), "new@example.com", "Asia/Seoul")
	grace := f.signedIn(t, edgetest.GraceToken)
	grace.fails(grace.Post(path, fields...), http.StatusForbidden, headingReadOnly)
	v.fails(v.Post(userPath(uuid.New())+"/change", fields...), http.StatusNotFound, "There is no such user")
}

// A correction is read before it is made, and is made once, however often its form is sent.
func TestAdjust(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.ConnectNew(t, "Ride Club")
	f.putSteps(t, 9, 12_345)
	path := userPath(f.User.ID) + "/adjust"
	v := f.signedIn(t, edgetest.AdaToken)
	form := v.Get(path)
	v.shows(form, "Correct a day of "+f.User.Email)
	fields := with(with(with(sent(form), "date", "2026-03-09"), "delta", "-2000"), "note", `<script>"counted twice"`)
	asked := v.Post(path, fields...)
	v.shows(asked, "12,345 → 10,345 steps on 2026-03-09", "0 partners can read this day.", `Note: <script>"counted twice"`)
	f.wasNoted(t)
	agreed := sent(asked)
	for range 2 {
		v.goes(v.Post(path, agreed...), userPath(f.User.ID)+"?done=activity_adjusted")
	}
	v.shows(v.Get(userPath(f.User.ID)+"?done=activity_adjusted"), f.User.Email, "The day is corrected.", "−2,000")
	f.wasNoted(t, "activity.adjusted")
	v.shows(v.Post(path, with(fields, "delta", "−20000")...), "10,345 → 0 steps on 2026-03-09")
	v.shows(v.Post(path, with(fields, "date", "2026-03-10")...), "Steps on 2026-03-10: nothing recorded", "−2,000, for "+f.User.Email, "Partners see the correction when something is recorded.")
	v.shows(v.Post(path, with(fields, "dataset", "cycling_daily")...), "Cycling on 2026-03-09: nothing recorded")

	// Those who can read the day now.
	f.putSteps(t, 10, 100)
	steps := func(want string) {
		t.Helper()
		v.shows(v.Post(path, with(fields, "date", "2026-03-10")...), "100 → 0 steps on 2026-03-10", want)
	}
	steps("1 partner can read this day.")
	f.DB.Exec(t, "update users set registered_on = '2026-03-11'")
	steps("0 partners can read this day.")
	f.DB.Exec(t, "update users set registered_on = '2020-01-01'")
	f.DB.Exec(t, "update clients set status = 'disabled'")
	steps("0 partners can read this day.")

	// The confirmed change must still be the same.
	stale := sent(v.Post(path, with(fields, "delta", "100")...))
	f.putSteps(t, 9, 20_000)
	moved := v.Post(path, stale...)
	if moved.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("the day has changed: status %d", moved.StatusCode)
	}
	v.shows(moved, "18,000 → 18,100 steps on 2026-03-09", "The day has changed since you opened this page.")
	f.wasNoted(t, "activity.adjusted")

	// Whether a date is too late depends on the user's zone, so the correction itself says it.
	late := with(fields, "date", "2026-03-14")
	refused := v.Post(path, sent(v.Post(path, late...))...)
	if value, _ := refused.Find("input[name=date]").Attr("value"); refused.StatusCode != http.StatusUnprocessableEntity || value != "2026-03-14" {
		t.Errorf("a date that is too late: status %d, date %q", refused.StatusCode, value)
	}
	v.shows(refused, "Correct a day of "+f.User.Email, "It must be at most two days after today in the user's time zone.")
	f.wasNoted(t, "activity.adjusted")

	for name, test := range map[string]struct{ field, value, says string }{
		"no date":       {"date", "2026-02-30", "It must be a date YYYY-MM-DD from 1900-01-01 to 9999-12-31."},
		"an early date": {"date", "1899-12-31", "It must be a date YYYY-MM-DD from 1900-01-01 to 9999-12-31."},
		"nothing":       {"delta", "0", "It must be a whole number from -2147483648 to 2147483647, and not 0."},
		"no number":     {"delta", "1e3", "It must be a whole number from -2147483648 to 2147483647, and not 0."},
		"too much":      {"delta", "2147483648", "It must be a whole number from -2147483648 to 2147483647, and not 0."},
		"a long note":   {"note", strings.Repeat("ü", 1001), "It must have at most 1000 characters"},
	} {
		refused := v.Post(path, with(fields, test.field, test.value)...)
		if refused.StatusCode != http.StatusUnprocessableEntity || refused.Find("[aria-invalid]").Length() != 1 {
			t.Errorf("%s: status %d", name, refused.StatusCode)
		}
		v.shows(refused, "Correct a day of "+f.User.Email, test.says)
	}
	long := v.Post(path, with(fields, "note", strings.Repeat("🚴", 1000))...) // each takes twelve bytes of a form
	v.shows(long, "18,000 → 16,000 steps on 2026-03-09")
	v.goes(v.Post(path, sent(long)...), userPath(f.User.ID)+"?done=activity_adjusted")
	f.wasNoted(t, "activity.adjusted", "activity.adjusted")
	for _, bad := range [][]string{with(fields, "dataset", "x"), with(agreed, "correction", "x"), with(agreed, "correction", uuid.Nil.String())} {
		v.fails(v.Post(path, bad...), http.StatusBadRequest, "This form cannot be read")
	}
	grace := f.signedIn(t, edgetest.GraceToken)
	grace.fails(grace.Post(path, agreed...), http.StatusForbidden, headingReadOnly)
}

func TestRemoveAdjustment(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.putSteps(t, 9, 12_345)
	correction, err := f.config.Activity.Adjust(t.Context(), activity.AdjustedSteps, activity.AdjustmentRecord{UserID: f.User.ID, Date: time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC), Delta: -2000, Note: "counted twice"})
	if err != nil {
		t.Fatal(err)
	}
	path := userPath(f.User.ID) + "/corrections/daily_steps/" + correction.ID.String() + "/remove"
	grace := f.signedIn(t, edgetest.GraceToken)
	grace.fails(grace.Post(path), http.StatusForbidden, headingReadOnly)
	v := f.signedIn(t, edgetest.AdaToken)
	v.shows(v.Get(path), "10,345 → 12,345 steps on 2026-03-09", "This removes the correction of −2,000 for "+f.User.Email, "counted twice")
	for range 2 {
		v.goes(v.Post(path), userPath(f.User.ID)+"?done=adjustment_removed")
	}
	v.shows(v.Get(userPath(f.User.ID)+"?done=adjustment_removed"), f.User.Email, "The correction is removed.", "There are no corrections.")
	f.wasNoted(t, "activity.adjustment_removed")
	v.fails(v.Get(path), http.StatusNotFound, "There is no such correction")
	v.fails(v.Get(userPath(f.User.ID)+"/corrections/rides/"+correction.ID.String()+"/remove"), http.StatusNotFound, "There is no such page")
}

// A page that asks for a correction shows what is recorded of a day. Looking at it is audited, also if nothing is corrected then.
func TestTotalsOfCorrectionsAreAudited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.putSteps(t, 8, 4_000)
	f.putSteps(t, 9, 12_345)
	correction, err := f.config.Activity.Adjust(t.Context(), activity.AdjustedSteps, activity.AdjustmentRecord{UserID: f.User.ID, Date: time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC), Delta: -2000})
	if err != nil {
		t.Fatal(err)
	}
	viewed := func(actor, want string) {
		t.Helper()
		if got := pgtest.Value[string](t, f.DB, `select coalesce(string_agg(detail->>'from' || ' ' || (detail->>'to'), ', '), '') from audit_log
			where actor = $1 and action = 'activity.viewed' and user_id = $2`, actor, f.User.ID); got != want {
			t.Errorf("%s has viewed %q, want %q", actor, got, want)
		}
	}
	grace, ada, path := f.signedIn(t, edgetest.GraceToken), f.signedIn(t, edgetest.AdaToken), userPath(f.User.ID)
	grace.shows(grace.Get(path+"/corrections/daily_steps/"+correction.ID.String()+"/remove"), "10,345 → 12,345 steps on 2026-03-09")
	viewed("grace", "2026-03-09 2026-03-09")
	viewed("ada", "")
	ada.shows(ada.Post(path+"/adjust", "dataset", "daily_steps", "date", "2026-03-08", "delta", "1", "note", ""), "4,000 → 4,001 steps on 2026-03-08")
	viewed("ada", "2026-03-08 2026-03-08")
	f.wasNoted(t)
}

// The page of a connection says why it stopped, whatever stopped it.
func TestWhyAConnectionStopped(t *testing.T) {
	t.Parallel()
	type act func(t *testing.T, f *fixture, partner pgtest.Client, tokens oauth.Tokens) oauth.Tokens
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	refresh := func(t *testing.T, f *fixture, partner pgtest.Client, tokens oauth.Tokens) oauth.Tokens {
		t.Helper()
		f.DB.Clock.Advance(time.Hour)
		next, err := f.config.OAuth.Refresh(t.Context(), edgetest.Credentials(partner), tokens.RefreshToken)
		must(t, err)
		return next
	}
	replayed := func(action string, version int64, by string) act { // after a restore
		return func(t *testing.T, f *fixture, partner pgtest.Client, tokens oauth.Tokens) oauth.Tokens {
			t.Helper()
			lost := oauth.Act{
				UserID: f.User.ID, ClientID: partner.ID, Version: version, Action: action, Actor: by, At: f.DB.Now(), Until: f.DB.Now().Add(time.Minute),
			}
			switch action {
			case "connection.revoked":
				lost.Reason = "refresh_token_revoked"
			case "connection.authorized":
				lost.Scopes = scope.All
			}
			changed, err := oauth.Replay(work.WithActor(t.Context(), "grace"), f.DB.Pool, []oauth.Act{lost})
			if must(t, err); changed[action] != 1 {
				t.Errorf("replayed: %v", changed)
			}
			return tokens
		}
	}
	for name, test := range map[string]struct {
		acts []act
		says []string
	}{
		"nothing": {nil, []string{"authorized", "It works. The user authorized it at 2026-03-10 12:34", "has not read anything yet", "none"}},
		"read": {[]act{refresh, refresh, func(t *testing.T, f *fixture, _ pgtest.Client, tokens oauth.Tokens) oauth.Tokens {
			f.Read(t, tokens, scope.DailySteps)
			return tokens
		}}, []string{"It works. The user authorized it at 2026-03-10 12:34", "last read data in the hour from 2026-03-10 14:00:00", "2, most recently about 2026-03-10 14:34"}},
		"lapsed": {[]act{refresh, func(_ *testing.T, f *fixture, _ pgtest.Client, tokens oauth.Tokens) oauth.Tokens {
			f.DB.Clock.Advance(91 * 24 * time.Hour)
			return tokens
		}}, []string{"lapsed", "did not refresh it within 90 days of the last refresh, about 2026-03-10 13:34"}},
		"lapsed, never refreshed": {[]act{func(_ *testing.T, f *fixture, _ pgtest.Client, tokens oauth.Tokens) oauth.Tokens {
			f.DB.Clock.Advance(91 * 24 * time.Hour)
			return tokens
		}}, []string{"It lapsed at 2026-06-08 12:34", "The user authorized it at 2026-03-10 12:34"}},
		"a replay": {[]act{refresh, func(t *testing.T, f *fixture, partner pgtest.Client, tokens oauth.Tokens) oauth.Tokens {
			refresh(t, f, partner, tokens)
			if _, err := f.config.OAuth.Refresh(t.Context(), edgetest.Credentials(partner), tokens.RefreshToken); err == nil {
				t.Error("a used token works")
			}
			return tokens
		}}, []string{"revoked", "It was revoked at 2026-03-10 14:34", "presented a used refresh token",
			"presented a used refresh token: version 1 was revoked", "Webhook connection.revoked: refresh_token_replayed", "pending", "Not sent yet."}},
		"the partner revokes": {[]act{func(t *testing.T, f *fixture, partner pgtest.Client, tokens oauth.Tokens) oauth.Tokens {
			must(t, f.config.OAuth.Revoke(t.Context(), edgetest.Credentials(partner), tokens.RefreshToken))
			return tokens
		}}, []string{"Club revoked it at 2026-03-10 12:34", "Club revoked version 1"}},
		"the partner disconnects": {[]act{func(t *testing.T, f *fixture, partner pgtest.Client, tokens oauth.Tokens) oauth.Tokens {
			must(t, f.config.OAuth.Disconnect(t.Context(), edgetest.Credentials(partner), tokens.GrantID))
			return tokens
		}}, []string{"Club disconnected at 2026-03-10 12:34"}},
		"the user disconnects": {[]act{func(t *testing.T, f *fixture, partner pgtest.Client, tokens oauth.Tokens) oauth.Tokens {
			must(t, f.config.OAuth.DisconnectUser(t.Context(), f.User.ID, partner.ID))
			return tokens
		}}, []string{"The user disconnected <Ride> Club at 2026-03-10 12:34"}},
		"the operator disconnects": {[]act{func(t *testing.T, f *fixture, partner pgtest.Client, tokens oauth.Tokens) oauth.Tokens {
			must(t, f.config.OAuth.DisconnectByOperator(t.Context(), f.User.ID, partner.ID))
			return tokens
		}}, []string{"The operator disconnected <Ride> Club at 2026-03-10 12:34"}},
		"an authorization, replayed": {[]act{refresh, replayed("connection.authorized", 2, "client")}, []string{
			"lapsed The database was restored to a time before the user authorized it at 2026-03-10 13:34", "works again once <Ride> Club refreshes it"}},
		"the user disconnects, replayed": {[]act{replayed("connection.disconnected", 2, "user")}, []string{
			"The user disconnected <Ride> Club at 2026-03-10 12:34", "The user disconnected", "Webhook connection.revoked: user_disconnected"}},
		"the partner disconnects, replayed": {[]act{replayed("connection.disconnected", 2, "client")}, []string{"Club disconnected at 2026-03-10 12:34"}},
		"ada disconnects, replayed": {[]act{replayed("connection.disconnected", 2, "ada")}, []string{
			"The operator ada disconnected <Ride> Club at 2026-03-10 12:34", "The operator ada disconnected"}},
		"the partner revokes, replayed": {[]act{replayed("connection.revoked", 1, "client")}, []string{
			"Club revoked it at 2026-03-10 12:34", "Club revoked version 1"}},
		"ada revokes, replayed": {[]act{replayed("connection.revoked", 1, "ada")}, []string{
			"ada revoked all tokens of <Ride> Club at 2026-03-10 12:34", "ada revoked all tokens of <Ride> Club: version 1 was revoked"}},
		"the partner is disabled": {[]act{func(t *testing.T, f *fixture, partner pgtest.Client, tokens oauth.Tokens) oauth.Tokens {
			must(t, f.config.Clients.Disable(t.Context(), partner.ID))
			return tokens
		}}, []string{"partner disabled", "Club has been disabled since 2026-03-10 12:34"}},
		"the partner is offboarded": {[]act{func(t *testing.T, f *fixture, partner pgtest.Client, tokens oauth.Tokens) oauth.Tokens {
			_, err := f.config.Clients.Offboard(t.Context(), partner.ID)
			must(t, err)
			return tokens
		}}, []string{"It ended at 2026-03-10 12:34", "Club was offboarded"}},
		"the partner is offboarded, and the connection is not ended yet": {[]act{func(t *testing.T, f *fixture, partner pgtest.Client, tokens oauth.Tokens) oauth.Tokens {
			interrupted := errors.New("no time left")
			clients := client.NewRegistry(f.DB.Pool, func(context.Context, *postgres.Pool, uuid.UUID) (int64, error) { return 0, interrupted })
			if _, err := clients.Offboard(t.Context(), partner.ID); !errors.Is(err, interrupted) {
				t.Fatal(err)
			}
			return tokens
		}}, []string{"authorized partner offboarded It ended at 2026-03-10 12:34", "when <Ride> Club was offboarded."}},
		"a scope is gone": {[]act{func(t *testing.T, f *fixture, partner pgtest.Client, tokens oauth.Tokens) oauth.Tokens {
			f.DB.Exec(t, "update clients set scopes = 3 where client_id = $1", partner.ID)
			return tokens
		}}, []string{"cannot refresh it, because its registration no longer has cycling_activities:read"}},
		"revoked, and forgotten": {[]act{func(t *testing.T, f *fixture, partner pgtest.Client, tokens oauth.Tokens) oauth.Tokens {
			must(t, f.config.OAuth.Revoke(t.Context(), edgetest.Credentials(partner), tokens.RefreshToken))
			f.DB.Exec(t, "delete from audit_log")
			return tokens
		}}, []string{"It was revoked. The audit log no longer says when."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			partner, tokens := f.ConnectNew(t, "<Ride> Club")
			f.DB.Webhook(t, partner.ID)
			for _, act := range test.acts {
				tokens = act(t, f, partner, tokens)
			}
			v := f.signedIn(t, edgetest.GraceToken)
			v.shows(v.Get(connectionPath(f.User.ID, partner.ID)), f.User.Email+" – <Ride> Club", test.says...)
		})
	}
}

// A timeline has everything that happened once, newest first, page by page.
func TestTimeline(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, _ := f.ConnectNew(t, "Ride Club")
	other, _ := f.ConnectNew(t, "Walk Club")
	f.DB.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, datasets, first_date, last_date, created_at, state, queued, attempts)
		select $1, c, 'activity.updated', gen_random_uuid(), 1, 3, '2026-03-10', '2026-03-11', connect_now() + n * interval '3 minutes', 'delivered', true, 1
		from generate_series(1, 70) n, unnest($2::uuid[]) c`, f.User.ID, []uuid.UUID{partner.ID, other.ID})
	f.DB.Exec(t, `insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, status, fault)
		select user_id, event_id, a, created_at, 120 * (a - 1), case a when 2 then 204 end, case a when 1 then 'connection refused' end
		from webhook_events, generate_series(1, 2) a`)
	f.DB.Exec(t, `insert into audit_log (subject, actor, action, user_id, client_id, connection_version, at)
		select $1, 'client', 'access_token.revoked', $1, c, 1, connect_now() + n * interval '5 minutes' from generate_series(1, 40) n, unnest($2::uuid[]) c`,
		f.User.ID, []uuid.UUID{partner.ID, other.ID})
	f.DB.Exec(t, `insert into step_corrections select $1, '2026-03-10', gen_random_uuid(), n, 'note ' || n, connect_now() + n * interval '7 minutes' from generate_series(1, 20) n`, f.User.ID)
	f.DB.Exec(t, `insert into cycling_adjustments select $1, '2026-03-10', gen_random_uuid(), n, '', connect_now() + n * interval '7 minutes' from generate_series(1, 10) n`, f.User.ID)
	f.DB.Exec(t, "update connections set scopes = 1 where client_id = $1", partner.ID) // no distance
	v := f.signedIn(t, edgetest.GraceToken)
	var instants []string
	kinds := map[string]int{}
	path, read := connectionPath(f.User.ID, partner.ID), 0
	for path != "" {
		list := v.Get(path)
		read++
		for _, item := range list.Find(".life > li").EachIter() {
			if item.Find("li > div > details").Length() > 0 {
				continue // its items come next
			}
			instants = append(instants, item.Find("time").First().AttrOr("datetime", ""))
			text := item.Text()
			for _, kind := range []string{"Webhook activity.updated", "revoked one access token", "corrected the steps", "exchanged the code", "allowed", "distance of"} {
				if strings.Contains(text, kind) {
					kinds[kind]++
				}
			}
			if strings.Contains(text, "Webhook") && (!strings.Contains(text, "answered 204 after 120 ms") || !strings.Contains(text, "no answer after < 1 ms. connection refused")) {
				t.Errorf("an event without its attempts: %s", text)
			}
		}
		if event := list.Find(`.life a[href*="/webhooks/"]`).First().AttrOr("href", ""); event != "" {
			v.shows(v.Get(event), v.Get(event).Find("h1").Text(), "activity.updated", "< 1 ms")
		}
		path = list.Find("a[rel=next]").AttrOr("href", "")
	}
	want := map[string]int{"Webhook activity.updated": 70, "revoked one access token": 40, "corrected the steps": 20, "exchanged the code": 1, "allowed": 1}
	if fmt.Sprint(kinds) != fmt.Sprint(want) || read != 3 {
		t.Errorf("on %d pages: %v, want %v", read, kinds, want)
	}
	for i := 1; i < len(instants); i++ {
		if instants[i] > instants[i-1] {
			t.Errorf("%s comes after %s", instants[i], instants[i-1])
		}
	}
	v.fails(v.Get(connectionPath(f.User.ID, uuid.New())), http.StatusNotFound, "There is no such connection")
	v.fails(v.Get(connectionPath(uuid.New(), partner.ID)), http.StatusNotFound, "There is no such user")
}

// Three changes of activity in a row, or more, are one entry that opens, if all were delivered.
func TestTimelineFolds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, _ := f.ConnectNew(t, "Ride Club")
	f.DB.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, datasets, first_date, last_date, created_at, state, queued, attempts)
		select $1, $2, 'activity.updated', gen_random_uuid(), 1, 3, '2026-03-10', '2026-03-11', connect_now() + n * interval '1 minute',
			case n when 3 then 'failed' else 'delivered' end, true, 1
		from generate_series(1, 6) n`, f.User.ID, partner.ID)
	page := f.signedIn(t, edgetest.GraceToken).Get(connectionPath(f.User.ID, partner.ID))
	if got := page.Find("section > .life > li summary").Text(); got != "3 webhooks activity.updated since 2026-03-10 12:38:00, all delivered" {
		t.Errorf("the summary says %q", got)
	}
	if folded, entries := page.Find(".life details li").Length(), page.Find("section > .life > li").Length(); folded < 3 || entries != 6 {
		t.Errorf("%d lines are folded, of %d entries", folded, entries)
	}
}

// However many entries a user has with other partners, a page is full of those of its own: it looks at no others.
func TestTimelineBehindManyOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, tokens := f.ConnectNew(t, "Ride Club")
	if err := f.config.OAuth.Revoke(t.Context(), edgetest.Credentials(partner), tokens.RefreshToken); err != nil {
		t.Fatal(err)
	}
	other, _ := f.ConnectNew(t, "Walk Club")
	f.DB.Exec(t, `insert into audit_log (subject, actor, action, user_id, client_id, connection_version, at)
		select $1, 'client', 'access_token.revoked', $1, $2, 1, now() + n * interval '1 second' from generate_series(1, 25000) n`, f.User.ID, other.ID)
	f.DB.Exec(t, `insert into audit_log (subject, actor, action, user_id, client_id, connection_version, at)
		select $1, 'client', 'access_token.revoked', $1, $2, 1, connect_now() + interval '1 day' from generate_series(1, 50)`, f.User.ID, partner.ID)
	f.DB.Exec(t, `insert into step_corrections values ($1, '2026-03-10', gen_random_uuid(), 7, 'the oldest', connect_now() - interval '1 day')`, f.User.ID)
	v := f.signedIn(t, edgetest.GraceToken)
	first := v.Get(connectionPath(f.User.ID, partner.ID))
	if got := first.Find(".life > li").Length(); got != 50 {
		t.Errorf("%d moments on the first page", got)
	}
	v.shows(first, f.User.Email+" – Ride Club", "Ride Club revoked it at 2026-03-10 12:34")
	rest := v.Get(first.Find("a[rel=next]").AttrOr("href", ""))
	v.shows(rest, f.User.Email+" – Ride Club", "exchanged the code", "allowed", "the oldest", "Ride Club revoked it at 2026-03-10 12:34")
	if got := rest.Find(".life > li").Length(); got != 4 || rest.Find("a[rel=next]").Length() != 0 {
		t.Errorf("%d moments on the second page, which is the last one", got)
	}
}

func TestDisconnect(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, _ := f.ConnectNew(t, "Ride Club")
	page := connectionPath(f.User.ID, partner.ID)
	path := page + "/disconnect"
	v := f.signedIn(t, edgetest.AdaToken)
	heading := "Disconnect " + f.User.Email + " from Ride Club?"
	v.shows(v.Get(path), heading, "This ends 1 connection: version 1 with daily_steps:read", "0 refreshes", "Ride Club has no webhook")
	f.DB.Webhook(t, partner.ID)
	v.shows(v.Get(path), heading, "Ride Club is notified by its webhook.")
	f.DB.Exec(t, "update webhook_endpoints set paused_at = now()")
	v.shows(v.Get(path), heading, "its webhook is paused")
	f.DB.Exec(t, "update webhook_endpoints set stopped_at = now()")
	v.shows(v.Get(path), heading, "its webhook is stopped")
	grace := f.signedIn(t, edgetest.GraceToken)
	if acts := grace.Get(page).Find(".acts").Length(); acts != 0 {
		t.Errorf("who may only look is shown %d acts", acts)
	}
	grace.fails(grace.Post(path), http.StatusForbidden, headingReadOnly)
	f.wasNoted(t)
	for range 2 {
		v.goes(v.Post(path), page+"?done=connection_disconnected")
	}
	v.shows(v.Get(page+"?done=connection_disconnected"), f.User.Email+" – Ride Club", "The connection has ended.",
		"The operator ada disconnected Ride Club at 2026-03-10 12:34")
	f.wasNoted(t, "connection.disconnected")
	v.goes(v.Get(path), page)
	v.fails(v.Post(connectionPath(f.User.ID, uuid.New())+"/disconnect"), http.StatusNotFound, "There is no such connection")
}

// People's words are text, and break no page.
func TestHostileTextsOfPeople(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const hostile = `<script>alert(1)</script>"><img src=x onerror=alert(1)>`
	partner, _ := f.ConnectNew(t, hostile+"\u202e")
	if _, err := f.config.Activity.Adjust(t.Context(), activity.AdjustedSteps, activity.AdjustmentRecord{UserID: f.User.ID, Date: start.Truncate(24 * time.Hour), Delta: 1, Note: hostile + strings.Repeat("x", 200)}); err != nil {
		t.Fatal(err)
	}
	f.DB.Exec(t, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason) values ($1, $2, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected')`, f.User.ID, partner.ID)
	f.DB.Exec(t, `insert into webhook_attempts (user_id, event_id, attempt, at, duration_ms, fault) select user_id, event_id, 1, now(), 1, $1 from webhook_events`, hostile)
	v := f.signedIn(t, edgetest.AdaToken)
	paths := []string{userPath(f.User.ID), connectionPath(f.User.ID, partner.ID), connectionPath(f.User.ID, partner.ID) + "/disconnect",
		findPath + "?q=" + url.QueryEscape("nobody "+hostile)}
	paths = append(paths, v.Get(paths[0]).Find(`a[href$="/remove"]`).AttrOr("href", ""))
	for _, path := range paths {
		got := v.Get(path)
		if got.StatusCode != http.StatusOK || got.Find("script, img[src=x], [onerror]").Length() != 0 {
			t.Errorf("%s: status %d, or markup of somebody else's", path, got.StatusCode)
		}
	}
}
