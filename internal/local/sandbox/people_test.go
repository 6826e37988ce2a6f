package sandbox

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/local/mailcatcher"
	"connect-svc/internal/testing/wait"
)

// records are those of a user from one date to another, both included.
func records(user *person, from, to time.Time) (batch activity.Batch) {
	for date := from; !date.After(to); date = date.AddDate(0, 0, 1) {
		record(&batch, user, date)
	}
	return batch
}

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
	r.recordedUpToToday(t, "at the start")
	r.advanceBy(t, 45*24*time.Hour)
	r.recordedUpToToday(t, "after a move")
	r.clock.Advance(30 * time.Hour)
	if err := r.growAll(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	r.recordedUpToToday(t, "after a day that came by itself")
}

func (r *running) recordedUpToToday(t *testing.T, when string) {
	t.Helper()
	for _, user := range r.people.list {
		var days int
		var last *time.Time
		if err := r.service.Pool.QueryRow(t.Context(), "select count(*), max(date) from daily_steps where user_id = $1", user.UserId).Scan(&days, &last); err != nil {
			t.Fatal(err)
		}
		recorded := records(user, user.RegisteredOn.Time, r.today(user)).DailySteps
		if days != len(recorded) || days > 0 && !last.Equal(recorded[days-1].Date) {
			t.Errorf("%s: %s has %d days until %v, want %d", when, user.Kind, days, last, len(recorded))
		}
	}
}

// The clock moves with all that everybody records, or nothing happens: here it is the second batch of rows that cannot be written.
func TestClockMovesWhole(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.newUser(t, sandboxapi.KindCorrected)
	corrected := r.newUser(t, sandboxapi.KindCorrected) // the seventh: a year of six users is more than a batch
	const move = `{"advance_seconds":31622400}`
	rows := func() (all string) {
		t.Helper()
		if err := r.service.Pool.QueryRow(t.Context(), `
select string_agg(user_id || ' ' || days, ', ' order by user_id)
from (select user_id, count(*) as days from daily_steps group by user_id) as s`).Scan(&all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	recorded, offset := rows(), r.clock.Offset()
	session, err := pgx.Connect(t.Context(), r.database.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close(context.Background()) }) // a second time it does nothing
	if _, err := session.Exec(t.Context(), "begin"); err != nil {
		t.Fatal(err)
	}
	if _, err := session.Exec(t.Context(), "select from users where user_id = $1 for update", corrected); err != nil {
		t.Fatal(err)
	}
	limits := r.config.Limits
	r.config.Limits.Act, r.config.Limits.Batch = 3*time.Second, 3*time.Second
	got := r.drive(t, "POST", "/sandbox/clock", move)
	r.config.Limits = limits
	if got.Status != 500 || r.clock.Offset() != offset {
		t.Errorf("while a user cannot record: %d, the clock moved by %s", got.Status, r.clock.Offset()-offset)
	}
	if after := rows(); after != recorded {
		t.Errorf("days before: %s; after: %s", recorded, after)
	}
	if err := session.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want[sandboxapi.Time](t, r, 200, "POST", "/sandbox/clock", move)
	r.recordedUpToToday(t, "afterwards")
	var early int // of corrections that the move made
	if err := r.service.Pool.QueryRow(t.Context(), "select count(*) from step_corrections where date > $1 and created_at < $2",
		time.Now().AddDate(0, 0, 2), r.clock.Now().Add(-time.Hour)).Scan(&early); err != nil || early > 0 {
		t.Errorf("%d corrections were made before the time to which the clock moved; %v", early, err)
	}
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
