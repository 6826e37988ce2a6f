package sandbox

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/local/mailcatcher"
	"connect-svc/internal/testing/wait"
)

// The document's words on each kind, over 210 days, which hold all its periods.
func TestRecords(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) // a Monday
	to := from.AddDate(0, 0, 209)
	type counts struct{ Steps, Rides, StepCorrections, CyclingAdjustments int }
	for kind, want := range map[sandboxapi.Kind]counts{
		sandboxapi.KindActive:    {210, 330, 0, 0},
		sandboxapi.KindSparse:    {42, 14, 0, 0},
		sandboxapi.KindGaps:      {135, 225, 0, 0},
		sandboxapi.KindCorrected: {210, 330, 120, 70},
		sandboxapi.KindNew:       {},
	} {
		one := &person{User: sandboxapi.User{UserId: uuid.New(), Kind: kind}, number: 3}
		batch := records(one, from, to)
		got := counts{len(batch.DailySteps), len(batch.CyclingActivities), len(batch.StepCorrections), len(batch.CyclingAdjustments)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
		inParts := records(one, from, from.AddDate(0, 0, 100))
		rest := records(one, from.AddDate(0, 0, 101), to)
		if diff := cmp.Diff(batch.DailySteps, append(inParts.DailySteps, rest.DailySteps...)); diff != "" {
			t.Errorf("%s: in parts it is something else: %s", kind, diff)
		}
		if diff := cmp.Diff(batch.CyclingActivities, append(inParts.CyclingActivities, rest.CyclingActivities...)); diff != "" {
			t.Errorf("%s: in parts it is something else: %s", kind, diff)
		}
	}
}

// Everybody has recorded up to their own today, however the clock came there, and nobody beyond it.
func testPeopleRecordUpToToday(t *testing.T, r *running) {
	check := func(what string) {
		t.Helper()
		for _, one := range r.people.list {
			var days int
			var last *time.Time
			if err := r.service.Pool.QueryRow(t.Context(), "select count(*), max(date) from daily_steps where user_id = $1", one.UserId).Scan(&days, &last); err != nil {
				t.Fatal(err)
			}
			recorded := records(one, one.RegisteredOn.Time, r.today(one)).DailySteps
			if days != len(recorded) || days > 0 && !last.Equal(recorded[days-1].Date) {
				t.Errorf("%s: %s has %d days until %v, want %d", what, one.Kind, days, last, len(recorded))
			}
		}
	}
	check("at the start")
	r.advanceBy(t, 45*24*time.Hour)
	check("after a move")
	r.clock.Advance(30 * time.Hour)
	if err := r.growAll(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	check("after a day that came by itself")
}

// A sign-in by the pages: the email is caught, and its code lasts ten minutes of the clock.
func testSignInFollowsTheClock(t *testing.T, r *running) {
	accounts := r.service.Accounts
	codes := func() []mailcatcher.Email { // without receipts
		return slices.DeleteFunc(r.mail.Emails(), func(e mailcatcher.Email) bool { return e.Code == "" })
	}
	signIn := func() (uuid.UUID, string) {
		t.Helper()
		id, before := uuid.New(), len(codes())
		if err := accounts.SendCode(t.Context(), account.CodeRequest{SignIn: id, Email: r.described.Users[0].Email, Network: netip.MustParseAddr("127.0.0.1")}); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "an email comes", func() bool { return len(codes()) > before })
		return id, codes()[0].Code
	}
	id, code := signIn()
	if verified, err := accounts.VerifyCode(t.Context(), id, code); err != nil || verified.UserID != r.described.Users[0].UserId {
		t.Errorf("at once: %s, %v", verified.UserID, err)
	}
	id, code = signIn()
	r.advanceBy(t, 601*time.Second)
	if _, err := accounts.VerifyCode(t.Context(), id, code); !errors.Is(err, account.ErrCodeExpired) {
		t.Errorf("after ten minutes: %v", err)
	}
}

// Users get receipts as in production, and a partner's tests can see what they are told.
func TestNotices(t *testing.T) {
	t.Parallel()
	r := start(t)
	if got := want[sandboxapi.Notices](t, r, 200, "GET", "/sandbox/notices", "").Data; len(got) != 0 {
		t.Errorf("before anything happened: %+v", got)
	}
	r.advanceBy(t, 48*time.Hour)
	r.newPartner(t, sandboxapi.KindSparse).connect(t)
	var notices []sandboxapi.Notice
	wait.Until(t, "a receipt comes", func() bool {
		notices = want[sandboxapi.Notices](t, r, 200, "GET", "/sandbox/notices", "").Data
		return len(notices) > 0
	})
	if got := notices[0]; got.To != "sparse-6@example.com" || got.Subject != "Sandbox Partner can now see your activity" || !strings.Contains(got.Text, r.baseURL+"/account/") ||
		got.At[:10] != r.clock.Now().UTC().Format(time.DateOnly) {
		t.Errorf("the receipt of the connection: %+v", got)
	}
}
