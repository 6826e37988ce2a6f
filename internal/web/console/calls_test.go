package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/account"
	"connect-svc/internal/activity"
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
