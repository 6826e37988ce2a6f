package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/usage"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// The month of a user has what is recorded, what partners see of it, and who corrected it. Looking is audited.
func TestMonth(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.putSteps(t, 9, 12_345)
	f.putSteps(t, 1, 0)
	ride := activity.RideRecord{UserID: f.User.ID, SourceID: "<b>ride</b>", Start: time.Date(2026, 3, 9, 10, 0, 0, 0, time.UTC), DistanceMeters: 4_000}
	if _, err := f.config.Activity.Put(t.Context(), activity.Batch{CyclingActivities: []activity.RideRecord{ride}}); err != nil {
		t.Fatal(err)
	}
	v := f.signedIn(t, edgetest.AdaToken)
	fields := with(with(with(sent(v.Get(userPath(f.User.ID)+"/adjust")), "date", "2026-03-09"), "delta", "-2000"), "note", "swing")
	v.goes(v.Post(userPath(f.User.ID)+"/adjust", sent(v.Post(userPath(f.User.ID)+"/adjust", fields...))...), userPath(f.User.ID)+"?done=activity_adjusted")
	grace := f.signedIn(t, edgetest.GraceToken)
	one := grace.Get(userPath(f.User.ID))
	grace.shows(one, f.User.Email, "Activity in 2026-03", "Steps that partners see of a day", "<b>ride</b>", "2026-03-09 10:00:00", "4,000")
	days := one.Find(`table[aria-labelledby="activity"] tbody tr`)
	if got := days.Text(); !strings.Contains(got, "2026-03-010–0") || !strings.Contains(got, "12,345−2,00010,345") || days.Length() != 2 {
		t.Errorf("days: %q", got)
	}
	if got := one.Find("figure .slots").First().Text(); got != "03-0103-1603-31" || !strings.Contains(one.Source, "2026-03-09: 10,345") {
		t.Errorf("below the chart: %q", got)
	}
	if by := one.Find(`table[aria-labelledby="corrections"] td[data-label="By"]`).Text(); by != "ada" {
		t.Errorf("the correction is by %q", by)
	}
	if n := pgtest.Value[int64](t, f.DB, "select count(*) from audit_log where actor = 'grace' and action = 'activity.viewed' and user_id = $1", f.User.ID); n != 1 {
		t.Errorf("%d entries of a view", n)
	}
	before := grace.Get(userPath(f.User.ID) + one.Find("a[rel=prev]").AttrOr("href", ""))
	grace.shows(before, f.User.Email, "Activity in 2026-02", "Nothing is recorded or corrected in this month.")
	for _, bad := range []string{"2026-13", "1899-12", "x"} {
		grace.fails(grace.Get(userPath(f.User.ID)+"?month="+bad), http.StatusBadRequest, "This form cannot be read")
	}
}

// The page of a user tells what happened to sign-ins. An operator lifts the limits once.
func TestSignIns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	send := func() error {
		return f.Accounts.SendCode(t.Context(), account.CodeRequest{SignIn: uuid.New(), Email: f.User.Email, Network: netip.MustParseAddr("192.0.2.1")})
	}
	f.Accounts = account.New(f.DB.Pool, f.Keys, nil, account.Settings{CodesPerEmail: 1, Limits: wait.Patient, Logger: slog.New(slog.DiscardHandler)})
	f.config.Accounts = f.Accounts
	f.serve(t)
	if err := send(); err != nil {
		t.Fatal(err)
	}
	if err := send(); !errors.Is(err, account.ErrTooManyCodes) {
		t.Fatal(err)
	}
	v := f.signedIn(t, edgetest.AdaToken)
	v.shows(v.Get(userPath(f.User.ID)), f.User.Email, "Nobody has asked for a code for this address within 7 days.", "admits the next code at 2026-03-10 13:3")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	f.Accounts.Run(ctx) // it stores what happened
	v.shows(v.Get(userPath(f.User.ID)), f.User.Email, "Asked for a code the email waits", "Refused: limit of the address until 2026-03-10 13:3")
	path := userPath(f.User.ID) + "/lift-limits"
	v.shows(v.Get(path), "Lift the limits of "+f.User.Email+"?")
	f.wasNoted(t)
	v.goes(v.Post(path), userPath(f.User.ID)+"?done=limits_lifted")
	f.wasNoted(t, "sign_in.limits_lifted")
	lifted := v.Get(userPath(f.User.ID) + "?done=limits_lifted")
	v.shows(lifted, f.User.Email, "The limits begin anew.", "The limits were liftedada")
	if strings.Contains(lifted.Source, "admits the next code") {
		t.Error("the limit still refuses")
	}
	if err := send(); err != nil {
		t.Errorf("after the limits were lifted: %v", err)
	}
	grace := f.signedIn(t, edgetest.GraceToken)
	grace.fails(grace.Post(path), http.StatusForbidden, headingReadOnly)
}

// The search box of every page leads to whatever an operator has in hand.
func TestFind(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, tokens := f.ConnectNew(t, "Ride & <b>Club</b>")
	f.ConnectNew(t, "Ride Club")
	f.ConnectNew(t, "ride club")
	f.DB.Webhook(t, partner.ID)
	if err := f.config.OAuth.DisconnectUser(t.Context(), f.User.ID, partner.ID); err != nil {
		t.Fatal(err)
	}
	event := pgtest.Value[uuid.UUID](t, f.DB, "select event_id from webhook_events")
	request := uuid.New()
	f.config.Usage.AddError(usage.ErrorKind{ClientID: partner.ID, Operation: "exchangeToken", Code: "invalid_client", Reason: "wrong secret", Status: 401}, request, uuid.Nil, netip.Prefix{})
	over, stop := context.WithCancel(t.Context())
	stop()
	f.config.Usage.Run(over) // writes what there is
	v := f.signedIn(t, edgetest.GraceToken)
	find := func(text string) edgetest.Page { return v.Get(toFind(text)) }
	for text, path := range map[string]string{
		f.User.ID.String(): userPath(f.User.ID), " " + strings.ToUpper(f.User.Email): userPath(f.User.ID),
		tokens.GrantID.String(): connectionPath(f.User.ID, partner.ID), partner.ID.String(): pathOf(partner.ID),
		"RIDE & <b>": pathOf(partner.ID), webhook.Event{ID: event}.MessageID(): pathOf(partner.ID) + "/webhooks/" + event.String(),
		event.String(): pathOf(partner.ID) + "/webhooks/" + event.String(),
	} {
		v.goes(find(text), path)
	}
	several := find("Ride Club")
	v.shows(several, "Search", "Ride Club", "ride club", "Partner")
	if links := several.Find("tbody a").Length(); links != 2 {
		t.Errorf("%d partners are called Ride Club", links)
	}
	v.goes(find(request.String()), pathOf(partner.ID)+"/refused?request="+request.String())
	long, _ := f.ConnectNew(t, strings.Repeat("จักรยาน", 14)) // 98 characters of three bytes
	v.goes(find(long.Name), pathOf(long.ID))
	for _, text := range []string{uuid.NewString(), "%25", "a'--", strings.Repeat("x", 300)} {
		v.shows(find(text), "Search", "Nothing has this address, name or ID.")
	}
	nobody := find("nobody@example.com")
	v.shows(nobody, "Search", "Nothing has this address, name or ID.", "Nobody has asked for a code for this address within 7 days.")
	if got := nobody.Find("header input[name=q]").AttrOr("value", ""); got != "nobody@example.com" {
		t.Errorf("the box has %q", got)
	}
	v.shows(v.Get(findPath), "Search", "An email address, a user ID")
	for _, path := range []string{usersPath, partnersPath, servicePath, auditPath, userPath(f.User.ID)} {
		if boxes := v.Get(path).Find(`header form[action="/console/find"] input[name=q]`).Length(); boxes != 1 {
			t.Errorf("%s has %d search boxes", path, boxes)
		}
	}
}

// The search lists the first twenty partners whose names contain a text, says so, and leads to all.
func TestFindMany(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	v := f.signedIn(t, edgetest.GraceToken)
	for n := 1; n <= 21; n++ {
		f.DB.Client(t, func(c *pgtest.Client) { c.Name = fmt.Sprintf("Club & Co %d", n) })
		if n < 19 {
			continue
		}
		found := v.Get(toFind("club & co"))
		more := found.Find(`a[href^="` + partnersPath + `?q="]`)
		if rows := found.Find("tbody tr").Length(); rows != min(n, 20) || more.Length() != n/20 {
			t.Errorf("%d partners: %d rows, %d links to more", n, rows, more.Length())
		}
		if n == 21 {
			if all := v.Get(more.AttrOr("href", "")); all.Find("tbody tr").Length() != n {
				t.Errorf("the link leads to %d of %d partners", all.Find("tbody tr").Length(), n)
			}
		}
	}
}

// An event for the operator's own webhook leads to what happened to its user, also once the user is deleted: it is of no partner.
func TestFindAnEventOfTheOperator(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.DB.Webhook(t, webhook.Operator)
	partner, _ := f.ConnectNew(t, "Ride Club")
	if _, err := f.Accounts.DeleteUser(t.Context(), f.User.ID); err != nil {
		t.Fatal(err)
	}
	v := f.signedIn(t, edgetest.GraceToken)
	event := webhook.Event{ID: pgtest.Value[uuid.UUID](t, f.DB, "select event_id from webhook_events where client_id = $1 and type = 'connection.ended'", webhook.Operator)}
	found := v.Get(toFind(event.MessageID()))
	v.goes(found, auditPath+"?user="+f.User.ID.String())
	v.shows(v.Get(auditPath+"?user="+f.User.ID.String()), "Audit log", "user.deleted", partner.Name)

	// Nor does the audit log lead to pages of a partner from what is done with that webhook.
	if err := f.config.Webhooks.RemoveEndpoint(t.Context(), webhook.Operator); err != nil {
		t.Fatal(err)
	}
	removed := v.Get(auditPath + "?action=webhook.removed")
	v.shows(removed, "Audit log", "webhook.removed")
	if links := removed.Find(`tbody a[href^="/console/partners/"]`).Length(); links != 0 {
		t.Errorf("%d links to a partner that there is not", links)
	}
}

// The audit log is filtered by address and by name, too.
func TestAuditByName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner, _ := f.ConnectNew(t, "Ride Club")
	other, _ := f.ConnectNew(t, "Walk Club")
	v := f.signedIn(t, edgetest.GraceToken)
	for _, test := range []struct {
		user, partner string
		shows, hides  uuid.UUID
	}{
		{"", "ride club", partner.ID, other.ID}, {strings.ToUpper(f.User.Email), "Walk Club", other.ID, partner.ID},
	} {
		page := v.Get(auditPath + "?" + url.Values{"user": {test.user}, "partner": {test.partner}}.Encode())
		if !strings.Contains(page.Source, pathOf(test.shows)) || strings.Contains(page.Source, pathOf(test.hides)) {
			t.Errorf("%+v: the wrong entries", test)
		}
	}
	f.ConnectNew(t, "WALK CLUB")
	for _, query := range []string{"user=nobody@example.com", "partner=Nobody", "partner=Walk+Club"} {
		v.shows(v.Get(auditPath+"?"+query), "Audit log", "no user has this ID or address, or not exactly one partner has this name")
	}
}
