package account

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func TestCreateUser(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	ctx := context.Background()
	id := uuid.New()
	day := time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC)

	got, err := b.CreateUser(ctx, NewUser{
		ID: id, Email: "Ada.Lovelace@Example.com", Timezone: "America/Argentina/Ushuaia",
		RegisteredOn: time.Date(2025, 3, 1, 23, 30, 0, 0, time.FixedZone("", -8*3600)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.CreatedAt.IsZero() {
		t.Error("no time of creation")
	}
	want := User{
		ID: id, Email: "Ada.Lovelace@Example.com", Timezone: "America/Argentina/Ushuaia", RegisteredOn: day, CreatedAt: got.CreatedAt,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("created user (-want +got):\n%s", diff)
	}
	found, err := b.GetUser(ctx, id)
	if diff := cmp.Diff(want, found); err != nil || diff != "" {
		t.Errorf("found user (-want +got): %v\n%s", err, diff)
	}
	if _, err := b.GetUser(ctx, uuid.New()); !errors.Is(err, refusal.ErrUserNotFound) {
		t.Errorf("unknown user: %v, want refusal.ErrUserNotFound", err)
	}

	// An address is the same in any case; an id is there once.
	same := NewUser{Email: "ada.LOVELACE@example.com", Timezone: "UTC", RegisteredOn: day}
	if _, err := b.CreateUser(ctx, same); !errors.Is(err, ErrEmailTaken) {
		t.Errorf("the address in another case: %v, want ErrEmailTaken", err)
	}
	if _, err := b.CreateUser(ctx, NewUser{ID: id, Email: "x@example.com", Timezone: "UTC", RegisteredOn: day}); !errors.Is(err, ErrUserExists) {
		t.Errorf("the id again: %v, want ErrUserExists", err)
	}
}

// The id of a deleted user is not reused, because credentials and the audit log may contain it.
func TestIDOfADeletedUser(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	user := b.user(t, "ada@example.com")
	if _, err := b.DeleteUser(t.Context(), user.ID); err != nil {
		t.Fatal(err)
	}
	again := NewUser{ID: user.ID, Email: user.Email, Timezone: "UTC", RegisteredOn: user.RegisteredOn}
	if _, err := b.CreateUser(t.Context(), again); !errors.Is(err, ErrUserDeleted) {
		t.Errorf("the id again: %v, want ErrUserDeleted", err)
	}
	again.ID = uuid.Nil
	if _, err := b.CreateUser(t.Context(), again); err != nil {
		t.Errorf("the address again: %v", err)
	}
}

// Nor is it reused by a creation that waits for the deletion.
func TestIDOfAUserWhoIsBeingDeleted(t *testing.T) {
	pgtest.NotOnCluster(t, "the node that is asked does not know who waits on the others")
	t.Parallel()
	b := newBench(t, Settings{})
	user := b.user(t, "ada@example.com")
	b.db.Exec(t, "insert into notices (recipient, kind) values ($1, 'unheard')", user.ID)
	waiting := func(who string, statements int) {
		t.Helper()
		wait.Until(t, who, func() bool { return b.db.Waiting(t) == statements })
	}
	deleted, created := make(chan error, 1), make(chan error, 1)
	err := postgres.InTx(t.Context(), b.db.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "select from notices for update"); err != nil { // keeps the deletion from its end
			return err
		}
		go func() { _, err := b.DeleteUser(t.Context(), user.ID); deleted <- err }()
		waiting("the deletion waits", 1)
		go func() {
			_, err := b.CreateUser(t.Context(), NewUser{ID: user.ID, Email: "eve@example.com", Timezone: "UTC", RegisteredOn: user.RegisteredOn})
			created <- err
		}()
		waiting("the creation waits, too", 2)
		return nil
	})
	if err = errors.Join(err, wait.For(t, "the deletion", deleted)); err != nil {
		t.Fatal(err)
	}
	if err := wait.For(t, "the creation", created); !errors.Is(err, ErrUserDeleted) {
		t.Errorf("the id again: %v, want ErrUserDeleted", err)
	}
}

func TestFindUser(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	ada := b.user(t, "Ada@example.com")
	b.user(t, "grace@example.com")
	if got, err := b.FindUser(t.Context(), "aDA@example.com"); err != nil || got != ada {
		t.Errorf("%+v, %v; want %+v", got, err, ada)
	}
	for _, nobody := range []string{"nobody@example.com", "", "a\x00@example.com"} {
		if _, err := b.FindUser(t.Context(), nobody); !errors.Is(err, refusal.ErrUserNotFound) {
			t.Errorf("%q: %v, want refusal.ErrUserNotFound", nobody, err)
		}
	}
}

// A user is stored with the canonical name of a time zone, however the user is written. A former name of the same zone changes nothing.
func TestTimezonesAreCanonical(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	day := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	stored := func(id uuid.UUID) string {
		return pgtest.Value[string](t, b.db, "select timezone from users where user_id = $1", id)
	}
	created, err := b.CreateUser(t.Context(), NewUser{Email: "ada@example.com", Timezone: "Asia/Calcutta", RegisteredOn: day})
	if err != nil || created.Timezone != "Asia/Kolkata" || stored(created.ID) != "Asia/Kolkata" {
		t.Errorf("created: %q, %v", created.Timezone, err)
	}
	given := "US/Pacific"
	changed, err := b.ChangeUser(t.Context(), created.ID, UserChange{Timezone: &given})
	if err != nil || changed.Timezone != "America/Los_Angeles" || stored(created.ID) != "America/Los_Angeles" || given != "US/Pacific" {
		t.Errorf("changed: %q, %v; given was %q", changed.Timezone, err, given)
	}
	user := NewUser{ID: created.ID, Email: "ada@example.com", Timezone: "America/Buenos_Aires", RegisteredOn: day}
	for _, want := range []intake.Result{{Rows: 1, Updated: 1}, {Rows: 1, Unchanged: 1}} {
		if got, err := b.PutUsers(t.Context(), []NewUser{user}); err != nil || got != want || stored(created.ID) != "America/Argentina/Buenos_Aires" {
			t.Errorf("put: %+v, %v", got, err)
		}
	}
	for _, want := range []intake.Result{{Rows: 2, Inserted: 1, Updated: 1}, {Rows: 2, Unchanged: 2}} {
		file := usersFile(created.ID.String()+" ada Europe/Kiev 2026-01-31", "A bob Etc/UTC 2026-01-31")
		got, err := b.ImportUsers(t.Context(), file, nil)
		if err != nil || got != want || stored(created.ID) != "Europe/Kyiv" || stored(uuid.MustParse(people["A"])) != "UTC" {
			t.Errorf("imported: %+v, %v", got, err)
		}
	}
}

func TestListUsers(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	want := map[string]bool{"a@example.com": true, "b@example.com": true, "c@example.com": true}
	for email := range want {
		b.user(t, email)
	}
	got := map[string]bool{}
	var last uuid.UUID
	for {
		page, err := b.ListUsers(context.Background(), last, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, user := range page {
			if got[user.Email] {
				t.Errorf("%s twice", user.Email)
			}
			got[user.Email] = true
			last = user.ID
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("listed users (-want +got):\n%s", diff)
	}
}

func TestCreateUserRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	good := NewUser{Email: "someone@example.com", Timezone: "Europe/Berlin", RegisteredOn: time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC)}
	for _, test := range []struct {
		name, field string
		change      func(*NewUser)
	}{
		{"empty address", "email", func(u *NewUser) { u.Email = "" }},
		{"no at sign", "email", func(u *NewUser) { u.Email = "someone" }},
		{"display name", "email", func(u *NewUser) { u.Email = "Some One <someone@example.com>" }},
		{"two addresses", "email", func(u *NewUser) { u.Email = "a@example.com, b@example.com" }},
		{"quoted", "email", func(u *NewUser) { u.Email = `"some one"@example.com` }},
		{"numeric host", "email", func(u *NewUser) { u.Email = "someone@[192.0.2.1]" }},
		{"space", "email", func(u *NewUser) { u.Email = " someone@example.com" }},
		{"line end", "email", func(u *NewUser) { u.Email = "someone@example.com\r\nBcc: x@example.com" }},
		{"NUL", "email", func(u *NewUser) { u.Email = "some\x00one@example.com" }},
		{"not UTF-8", "email", func(u *NewUser) { u.Email = "some\xffone@example.com" }},
		{"255 bytes", "email", func(u *NewUser) { u.Email = "a@" + strings.Repeat("b", 249) + ".com" }},
		{"local part of 65 bytes", "email", func(u *NewUser) { u.Email = strings.Repeat("a", 65) + "@example.com" }},
		{"no time zone", "timezone", func(u *NewUser) { u.Timezone = "" }},
		{"the machine's own time zone", "timezone", func(u *NewUser) { u.Timezone = "Local" }},
		{"the machine's own time zone as a file", "timezone", func(u *NewUser) { u.Timezone = "localtime" }},
		{"unknown time zone", "timezone", func(u *NewUser) { u.Timezone = "Europe/Atlantis" }},
		{"time zone in another case", "timezone", func(u *NewUser) { u.Timezone = "europe/berlin" }},
		{"abbreviation", "timezone", func(u *NewUser) { u.Timezone = "CEST" }},
		{"offset", "timezone", func(u *NewUser) { u.Timezone = "+02:00" }},
		{"path", "timezone", func(u *NewUser) { u.Timezone = "../Europe/Berlin" }},
		{"NUL in the time zone", "timezone", func(u *NewUser) { u.Timezone = "Europe/Berlin\x00" }},
		{"no date", "registered_on", func(u *NewUser) { u.RegisteredOn = time.Time{} }},
		{"year 10000", "registered_on", func(u *NewUser) { u.RegisteredOn = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			user := good
			test.change(&user)
			_, err := b.CreateUser(context.Background(), user)
			var invalid refusal.Field
			if !errors.As(err, &invalid) || invalid.Path != test.field {
				t.Errorf("error = %v, want one of %s", err, test.field)
			}
		})
	}
}

func TestChangeUser(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	ctx := context.Background()
	ada, grace := b.user(t, "ada@example.com"), b.user(t, "grace@example.com")
	text := func(s string) *string { return &s }
	earlier, never := time.Date(2024, 12, 31, 0, 0, 0, 0, time.UTC), time.Time{}
	var invalid refusal.Field
	for _, test := range []struct {
		name   string
		change UserChange
		check  func(error) bool
	}{
		{"address of another", UserChange{Email: text("GRACE@example.com")}, func(err error) bool { return errors.Is(err, ErrEmailTaken) }},
		{"no address", UserChange{Email: text("grace")}, func(err error) bool { return errors.As(err, &invalid) && invalid.Path == "email" }},
		{"no date", UserChange{RegisteredOn: &never}, func(err error) bool { return errors.As(err, &invalid) && invalid.Path == "registered_on" }},
		{"no time zone", UserChange{Email: text("ada@example.net"), Timezone: text("Europe/Atlantis")},
			func(err error) bool { return errors.As(err, &invalid) && invalid.Path == "timezone" }},
	} {
		if _, err := b.ChangeUser(ctx, ada.ID, test.change); !test.check(err) {
			t.Errorf("%s: error = %v", test.name, err)
		}
	}
	if _, err := b.ChangeUser(ctx, uuid.New(), UserChange{Timezone: text("UTC")}); !errors.Is(err, refusal.ErrUserNotFound) {
		t.Errorf("nobody: error = %v", err)
	}
	if got, err := b.GetUser(ctx, ada.ID); err != nil || got != ada {
		t.Errorf("after refusals: %+v, %v", got, err)
	}

	for _, change := range []UserChange{
		{},
		{Email: text("ADA@example.com")}, // her own, written in another way
		{Timezone: text("Asia/Tokyo")},
		{Email: text("ada@example.net"), Timezone: text("UTC")},
		{RegisteredOn: &earlier},
	} {
		if change.Email != nil {
			ada.Email = *change.Email
		}
		if change.Timezone != nil {
			ada.Timezone = *change.Timezone
		}
		if change.RegisteredOn != nil {
			ada.RegisteredOn = *change.RegisteredOn
		}
		got, err := b.ChangeUser(ctx, ada.ID, change)
		if err != nil || got != ada {
			t.Errorf("%+v, %v; want %+v", got, err, ada)
		}
	}
	const changes = `select string_agg(detail::text, ' ' order by id) from audit_log where action = 'user.changed'`
	if got, want := pgtest.Value[string](t, b.db, changes), strings.Join([]string{
		`{"email": false, "timezone": false, "registered_on": false}`,
		`{"email": true, "timezone": false, "registered_on": false}`,
		`{"email": false, "timezone": true, "registered_on": false}`,
		`{"email": true, "timezone": true, "registered_on": false}`,
		`{"email": false, "timezone": false, "registered_on": true}`,
	}, " "); got != want {
		t.Errorf("the audit log has %s, want %s", got, want)
	}
	if got, err := b.GetUser(ctx, grace.ID); err != nil || got != grace {
		t.Errorf("another user: %+v, %v", got, err)
	}
}

// A change of the address ends codes and sessions of the former one. A change of the time zone ends neither.
func TestChangeOfAddressEndsSignIns(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	ctx := context.Background()
	ada := b.user(t, "ada@example.com")
	first, second := uuid.New(), uuid.New()
	session := b.session(t, ada.Email)
	code := b.code(t, first, ada.Email)
	zone, email := "UTC", "ada@example.net"
	if _, err := b.ChangeUser(ctx, ada.ID, UserChange{Timezone: &zone}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.VerifyCode(ctx, first, code); err != nil {
		t.Errorf("after another time zone: %v", err)
	}
	if _, err := b.GetSession(ctx, session); err != nil {
		t.Errorf("the session after another time zone: %v", err)
	}
	code = b.code(t, second, ada.Email)
	if _, err := b.ChangeUser(ctx, ada.ID, UserChange{Email: &email}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.VerifyCode(ctx, second, code); !errors.Is(err, ErrNoSignIn) {
		t.Errorf("after another address: %v, want ErrNoSignIn", err)
	}
	if _, err := b.GetSession(ctx, session); !errors.Is(err, ErrNoSession) {
		t.Errorf("the session after another address: %v, want ErrNoSession", err)
	}
}

// FuzzValidEmail: what passes can be stored, is one address in a header, and has no way out of it.
func FuzzValidEmail(f *testing.F) {
	for _, seed := range []string{"a@b", "someone@example.com", "x@[::1]", "a@b\r\nc", "\"a b\"@c", "é@example.com", "a@b,c@d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if !text.IsAddress(address) {
			return
		}
		if len(address) < 3 || len(address) > 254 {
			t.Errorf("%d bytes", len(address))
		}
		if strings.ContainsAny(address, "\x00\r\n <>,;\"") {
			t.Errorf("%q", address)
		}
	})
}

// CountEndings returns what a change of the address then ends.
func TestCountEndings(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	ada, grace := b.user(t, "ada@example.com"), b.user(t, "grace@example.com")
	count := func(user User) Endings {
		t.Helper()
		got, err := b.CountEndings(t.Context(), user)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := count(ada); got != (Endings{}) {
		t.Errorf("nothing has begun: %+v", got)
	}
	for _, email := range []string{"ada@example.com", "ADA@example.com"} {
		signIn := uuid.New()
		if _, err := b.enter(t.Context(), signIn, b.code(t, signIn, email)); err != nil {
			t.Fatal(err)
		}
		b.code(t, uuid.New(), email)
	}
	b.db.Exec(t, "insert into known_browsers (user_id, browser_id, name, signed_in_at) values ($1, gen_random_uuid(), '', connect_now())", ada.ID)
	if got, want := count(ada), (Endings{Sessions: 2, SignIns: 2, Browsers: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := count(grace); got != (Endings{}) {
		t.Errorf("of another user: %+v", got)
	}
	email := "new@example.com"
	changed, err := b.ChangeUser(t.Context(), ada.ID, UserChange{Email: &email})
	if err != nil {
		t.Fatal(err)
	}
	if got := count(changed); got != (Endings{}) {
		t.Errorf("after the change: %+v", got)
	}
	if _, err := b.CountEndings(t.Context(), User{ID: uuid.New(), Email: "x@example.com"}); !errors.Is(err, refusal.ErrUserNotFound) {
		t.Errorf("of nobody: %v", err)
	}
}

// TestSameAddressEndsNothing: the service's own app may send all fields when one has changed, and the same change twice.
func TestSameAddressEndsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	user := b.user(t, "ada@example.com")
	ended := 0
	b.settings.EndRequests = func(context.Context, pgx.Tx, []uuid.UUID) error { ended++; return nil }
	signIn := uuid.New()
	session, err := b.enter(t.Context(), signIn, b.code(t, signIn, user.Email))
	if err != nil {
		t.Fatal(err)
	}
	waiting := uuid.New()
	code := b.code(t, waiting, user.Email)
	b.db.Exec(t, "insert into known_browsers (user_id, browser_id, name, signed_in_at) values ($1, gen_random_uuid(), '', connect_now())", user.ID)
	email, zone := user.Email, "Asia/Tokyo"
	changed, err := b.ChangeUser(t.Context(), user.ID, UserChange{Email: &email, Timezone: &zone})
	if err != nil || changed.Email != email || changed.Timezone != zone {
		t.Fatalf("%+v, %v", changed, err)
	}
	if got, err := b.CountEndings(t.Context(), user); err != nil || got != (Endings{Sessions: 1, SignIns: 1, Browsers: 1}) || ended != 0 {
		t.Errorf("left: %+v, requests were ended %d times, %v", got, ended, err)
	}
	if _, err := b.GetSession(t.Context(), session); err != nil {
		t.Errorf("the session: %v", err)
	}
	if _, err := b.VerifyCode(t.Context(), waiting, code); err != nil {
		t.Errorf("the code: %v", err)
	}
	if found, err := b.FindUser(t.Context(), email); err != nil || found.ID != user.ID {
		t.Errorf("the address: %v", err)
	}
}
