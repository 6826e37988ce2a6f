package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/testing/pgtest"
)

const usersHeader = "user_id,email,timezone,registered_on\n"

// people are ids by one letter: A to F.
var people = map[string]string{}

func init() {
	for _, letter := range "ABCDEF" {
		people[string(letter)] = fmt.Sprintf("3f0a4bd6-9d5c-4d8a-9a53-7d1f6f1f8a%02x", letter)
	}
}

// usersFile is a file of rows such as "A ada UTC 2026-01-31".
func usersFile(rows ...string) *strings.Reader {
	var file strings.Builder
	file.WriteString(usersHeader)
	for _, row := range rows {
		fields := strings.Fields(row)
		if id, named := people[fields[0]]; named {
			fields[0] = id
		}
		if fields[0] == "-" {
			fields[0] = ""
		}
		fields[1] += "@example.com"
		file.WriteString(strings.Join(fields, ",") + "\n")
	}
	return strings.NewReader(file.String())
}

// listed returns all users as text.
func (b *bench) listed(t *testing.T) []string {
	t.Helper()
	lines := pgtest.Value[[]string](t, b.db, `select coalesce(array_agg(concat_ws(' ', upper(chr(('x' || right(user_id::text, 2))::bit(8)::int)),
		split_part(email, '@', 1), timezone, registered_on) order by user_id), '{}') from users`)
	b.emails(t)
	return lines
}

// emails are those of all users, by which they are found. No cluster joins the two tables, which are spread by different columns.
func (b *bench) emails(t *testing.T) []string {
	t.Helper()
	const all = "select coalesce(array_agg(email order by user_id), '{}') from "
	emails := pgtest.Value[[]string](t, b.db, all+"users")
	if diff := cmp.Diff(emails, pgtest.Value[[]string](t, b.db, all+"user_addresses")); diff != "" {
		t.Errorf("addresses by which users are found (-want +got):\n%s", diff)
	}
	return emails
}

func TestImportUsers(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	// One round after the other on the same users.
	for _, round := range []struct {
		name   string
		rows   []string
		result intake.Result
		users  []string
	}{
		{"nobody", nil, intake.Result{}, nil},
		{"new users, the last row of an id counts",
			[]string{"B bob Asia/Tokyo 2026-02-01", "A ada UTC 2026-01-31", "A Ada Europe/Berlin 2026-01-30"},
			intake.Result{Rows: 3, Inserted: 2, Unchanged: 1},
			[]string{"A Ada Europe/Berlin 2026-01-30", "B bob Asia/Tokyo 2026-02-01"}},
		{"the same again",
			[]string{"B bob Asia/Tokyo 2026-02-01", "A ada UTC 2026-01-31", "A Ada Europe/Berlin 2026-01-30"},
			intake.Result{Rows: 3, Unchanged: 3},
			[]string{"A Ada Europe/Berlin 2026-01-30", "B bob Asia/Tokyo 2026-02-01"}},
		{"each field changes, and one more user comes",
			[]string{"A ada Europe/Berlin 2026-01-30", "B bob UTC 2026-02-02", "C carol UTC 1900-01-01"},
			intake.Result{Rows: 3, Inserted: 1, Updated: 2},
			[]string{"A ada Europe/Berlin 2026-01-30", "B bob UTC 2026-02-02", "C carol UTC 1900-01-01"}},
		{"addresses go round, and a new user takes one that is given up",
			[]string{"A bob Europe/Berlin 2026-01-30", "B CAROL UTC 2026-02-02", "C charlie UTC 1900-01-01", "D ada UTC 9999-12-31"},
			intake.Result{Rows: 4, Inserted: 1, Updated: 3},
			[]string{"A bob Europe/Berlin 2026-01-30", "B CAROL UTC 2026-02-02", "C charlie UTC 1900-01-01", "D ada UTC 9999-12-31"}},
	} {
		got, err := b.ImportUsers(t.Context(), usersFile(round.rows...), nil)
		if err != nil || got != round.result {
			t.Errorf("%s: %+v, %v; want %+v", round.name, got, err, round.result)
		}
		if diff := cmp.Diff(round.users, b.listed(t)); diff != "" && len(round.users) > 0 {
			t.Errorf("%s: users (-want +got):\n%s", round.name, diff)
		}
	}
	const entries = `select string_agg(concat_ws(' ', right(user_id::text, 2), actor, action, detail), ';' order by id) from audit_log`
	want := strings.Join([]string{
		`41 operator user.created {}`, `42 operator user.created {}`,
		`41 operator user.changed {"email": true, "timezone": false, "registered_on": false}`,
		`42 operator user.changed {"email": false, "timezone": true, "registered_on": true}`, `43 operator user.created {}`,
	}, ";")
	if got := pgtest.Value[string](t, b.db, entries); !strings.HasPrefix(got, want) {
		t.Errorf("audit log:\n%s\nwant\n%s…", got, want)
	}

	// Without an id each row is a new user.
	got, err := b.ImportUsers(t.Context(), usersFile("- eve UTC 2026-01-01", "- frank UTC 2026-01-01"), nil)
	if want := (intake.Result{Rows: 2, Inserted: 2}); err != nil || got != want {
		t.Errorf("without ids: %+v, %v; want %+v", got, err, want)
	}
	if eve, err := b.FindUser(t.Context(), "eve@example.com"); err != nil || eve.ID == uuid.Nil {
		t.Errorf("without an id: %+v, %v", eve, err)
	}
}

// All that is wrong with the rows is named, what the database knows too, and nothing of the file is taken.
func TestImportUsersBadRows(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	if _, err := b.ImportUsers(t.Context(), usersFile("A ada UTC 2026-01-31", "B bob UTC 2026-01-31", "F frank UTC 2026-01-31"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.DeleteUser(t.Context(), uuid.MustParse(people["F"])); err != nil {
		t.Fatal(err)
	}
	before := b.listed(t)
	const uuids = "column user_id: must be a UUID, and not the nil UUID"
	const address = "column email: must be an address such as name@example.com, at most 254 bytes"
	const zone = "column timezone: must be a name of the time zone database such as Europe/Berlin"
	const date = "column registered_on: must be a date from 1900-01-01 to 9999-12-31"
	const taken, same = "column email: another user has this e-mail address", "column email: another row has this e-mail address"
	for _, test := range []struct {
		name string
		file *strings.Reader
		want []string
	}{
		{"header", strings.NewReader("user_id,email,timezone\n"), []string{"line 1: the header must be user_id,email,timezone,registered_on"}},
		{"every field", strings.NewReader(usersHeader + "7,ada,Mars/Phobos,2026-02-30\n" + people["A"] + ",a@example.com,UTC\n" +
			uuid.Nil.String() + ",\"Ada <ada@example.com>\",europe/berlin,1899-12-31\n"),
			[]string{
				"line 2, " + uuids, "line 2, " + address, "line 2, " + zone, "line 2, " + date, "line 3: must have 4 columns, has 3",
				"line 4, " + uuids, "line 4, " + address, "line 4, " + zone, "line 4, " + date,
			}},
		{"addresses and a deleted user", usersFile("C ADA UTC 2026-01-31", "D dora UTC 2026-01-31", "- Dora UTC 2026-01-31", "F frank UTC 2026-01-31",
			"E eve Nowhere 2026-01-31"),
			[]string{
				"line 2, " + taken, "line 4, " + same, "line 5, column user_id: a user with this id was deleted, and ids are not used again", "line 6, " + zone,
			}},
		{"an address of a user who keeps it", usersFile("A ada Asia/Tokyo 2026-01-31", "B ada UTC 2026-01-31"), []string{"line 3, " + taken}},
		{"an address that goes to two", usersFile("A new UTC 2026-01-31", "B NEW UTC 2026-01-31"), []string{"line 3, " + same}},
	} {
		result, err := b.ImportUsers(t.Context(), test.file, nil)
		var named []string
		for _, row := range refusal.FieldsOf(err) {
			named = append(named, row.Error())
		}
		if diff := cmp.Diff(test.want, named); diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
		if result != (intake.Result{}) {
			t.Errorf("%s: %+v", test.name, result)
		}
		if diff := cmp.Diff(before, b.listed(t)); diff != "" {
			t.Errorf("%s: users (-before +after):\n%s", test.name, diff)
		}
	}
	many := usersFile()
	var file strings.Builder
	_, _ = many.WriteTo(&file)
	for i := range 250 {
		fmt.Fprintf(&file, ",ada@example.com,UTC,2026-01-31\n,u%d@example.com,UTC,2026-01-31\n", i)
	}
	_, err := b.ImportUsers(t.Context(), strings.NewReader(file.String()), nil)
	if bad := (*refusal.Fields)(nil); !errors.As(err, &bad) || len(bad.Named) != refusal.MaxNamed || bad.Count != 250 || bad.Rows != 500 {
		t.Errorf("250 of 500 rows are bad: %v", err)
	}
}

// A changed address ends what the former one began, and nothing else does: codes, sessions, known browsers, and requests.
func TestImportOfAddressEndsSignIns(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	var mu sync.Mutex
	ended := map[uuid.UUID]bool{}
	b.settings.EndRequests = func(_ context.Context, _ pgx.Tx, users []uuid.UUID) error {
		mu.Lock()
		defer mu.Unlock()
		for _, user := range users {
			ended[user] = true
		}
		return nil
	}
	if _, err := b.ImportUsers(t.Context(), usersFile("A ada UTC 2026-01-31", "B bob UTC 2026-01-31"), nil); err != nil {
		t.Fatal(err)
	}
	type began struct {
		signIn  uuid.UUID
		code    string
		session SessionKey
	}
	begin := func(email string, id uuid.UUID) (is began) {
		is.signIn, is.session = uuid.New(), b.session(t, email)
		is.code = b.code(t, is.signIn, email)
		if err := b.RememberBrowser(t.Context(), is.signIn, newBrowserKey(id), nil, "", "en"); err != nil {
			t.Fatal(err)
		}
		return is
	}
	idA, idB := uuid.MustParse(people["A"]), uuid.MustParse(people["B"])
	ada, bob := begin("ada@example.com", idA), begin("bob@example.com", idB)
	if _, err := b.PutUsers(t.Context(), []NewUser{
		{ID: idA, Email: "lovelace@example.com", Timezone: "UTC", RegisteredOn: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)},
		{ID: idB, Email: "bob@example.com", Timezone: "Asia/Tokyo", RegisteredOn: time.Date(2026, 1, 30, 0, 0, 0, 0, time.UTC)},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.VerifyCode(t.Context(), ada.signIn, ada.code); !errors.Is(err, ErrNoSignIn) {
		t.Errorf("the code of the former address: %v", err)
	}
	if _, err := b.GetSession(t.Context(), ada.session); !errors.Is(err, ErrNoSession) {
		t.Errorf("the session of the former address: %v", err)
	}
	if browsers, err := b.Browsers(t.Context(), idA); err != nil || len(browsers) != 0 {
		t.Errorf("browsers that are still known: %v, %v", browsers, err)
	}
	if _, err := b.VerifyCode(t.Context(), bob.signIn, bob.code); err != nil {
		t.Errorf("the code of another user: %v", err)
	}
	if _, err := b.GetSession(t.Context(), bob.session); err != nil {
		t.Errorf("the session of another user: %v", err)
	}
	if browsers, err := b.Browsers(t.Context(), idB); err != nil || len(browsers) != 1 {
		t.Errorf("browsers of another user: %v, %v", browsers, err)
	}
	if diff := cmp.Diff(map[uuid.UUID]bool{idA: true}, ended); diff != "" {
		t.Errorf("requests ended of (-want +got):\n%s", diff)
	}
}

// Imports, batches and single acts on the same users at the same time: each is done whole or refused for what it says.
func TestBulkAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	const users, rounds = 40, 6
	ids := make([]uuid.UUID, users)
	for i := range ids {
		ids[i] = uuid.New()
	}
	user := func(i, round int, zone string) NewUser {
		return NewUser{ids[i], fmt.Sprintf("u%d-%d@example.com", i, round%2), zone, time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)}
	}
	zones := []string{"UTC", "Asia/Tokyo", "Europe/Berlin"}
	var all sync.WaitGroup
	for writer, zone := range zones {
		all.Go(func() {
			for round := range rounds {
				batch := make([]NewUser, users)
				for i := range batch {
					n := i
					if writer == 1 {
						n = users - 1 - i // the other way round
					}
					batch[i] = user(n, round, zone)
				}
				_, err := b.PutUsers(t.Context(), batch)
				if onCluster := len(b.db.URLs) > 1; err != nil && (!onCluster || !errors.Is(err, errOvertaken)) {
					t.Errorf("batch: %v", err)
				}
			}
		})
	}
	all.Go(func() {
		for round := range 3 * rounds {
			if _, err := b.CreateUser(t.Context(), user(round, round, "America/New_York")); err != nil && !errors.Is(err, ErrUserExists) && !errors.Is(err, ErrEmailTaken) {
				t.Errorf("create: %v", err)
			}
			email := user(round, round+1, "").Email
			if _, err := b.ChangeUser(t.Context(), ids[round], UserChange{Email: &email}); err != nil && !errors.Is(err, refusal.ErrUserNotFound) {
				t.Errorf("change: %v", err)
			}
		}
	})
	all.Wait()
	if n := len(b.emails(t)); n != users {
		t.Errorf("%d users, want %d", n, users)
	}
}

func TestImportUsersInterrupted(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	ctx, interrupt := context.WithCancel(t.Context())
	_, err := b.ImportUsers(ctx, usersFile("A ada UTC 2026-01-31"), func(p intake.Progress) {
		if p.Storing {
			interrupt()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if got := b.listed(t); len(got) > 0 {
		t.Errorf("users: %v", got)
	}
}
