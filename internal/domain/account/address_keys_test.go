package account

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// inEveryLocale runs a test with accounts on each kind of database, whose mail server takes all addresses.
func inEveryLocale(t *testing.T, settings Settings, run func(*testing.T, *bench)) {
	t.Helper()
	for kind := range pgtest.Locales {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db := pgtest.NewIn(t, kind)
			db.StartAt(t, time.Now())
			post := mailtest.Start(t, mailtest.Config{UTF8: true})
			run(t, startBench(t, db, credential.NewTestKeyring(), post, "smtp://"+post.Address, settings))
		})
	}
}

// A user is found and signs in by the address in any case, composition and spelling, whatever the database's locale.
func TestSignInByAnySpelling(t *testing.T) {
	t.Parallel()
	inEveryLocale(t, Settings{}, func(t *testing.T, b *bench) {
		for _, address := range []struct{ registered, sent, typed string }{
			{"ines1@users.example", "ines1@users.example", "INES1@USERS.EXAMPLE"},
			{"INGRID@Users.Example", "INGRID@Users.Example", "ingrid@users.example"},
			{"söre@users.example", "söre@users.example", "SÖRE@USERS.EXAMPLE"},
			{"ren@bücher.example", "ren@xn--bcher-kva.example", "REN@XN--Bcher-KVA.Example"},
			{"max@xn--bcher-kva.example", "max@xn--bcher-kva.example", "Max@BÜCHER.example"},
			{"zoe\u0308@x.example", "zo\u00eb@x.example", "ZO\u00cb@X.example"},
			{"ınes1@users.example", "ınes1@users.example", "ınes1@Users.example"},
			{"νίκος@x.example", "νίκος@x.example", "ΝΊΚΟΣ@x.example"},
		} {
			user := b.user(t, address.registered)
			if found, err := b.FindUser(t.Context(), address.typed); err != nil || found.ID != user.ID {
				t.Errorf("%q finds %v, %v", address.typed, found, err)
			}
			signIn := uuid.New()
			if err := b.send(signIn, address.typed); err != nil {
				t.Fatal(err)
			}
			email := b.post.Next(t)
			if !slices.Equal(email.To, []string{address.sent}) || email.Header.Get("To") != "<"+address.sent+">" {
				t.Errorf("%q: the email goes to %q, and says %q", address.registered, email.To, email.Header.Get("To"))
			}
			if verified, err := b.VerifyCode(t.Context(), signIn, email.Code); err != nil || verified.UserID != user.ID {
				t.Errorf("%q: %v, %v", address.typed, verified, err)
			}
			if _, err := b.CreateUser(t.Context(), NewUser{Email: address.typed, Timezone: "UTC", RegisteredOn: time.Now()}); !errors.Is(err, ErrEmailTaken) {
				t.Errorf("%q beside %q: %v", address.typed, address.registered, err)
			}
		}
	})
}

// rowsOf returns an error with what is wrong with each row.
func rowsOf(err error) string {
	said := fmt.Sprint(err)
	for _, row := range refusal.FieldsOf(err) {
		said += "; " + row.Error()
	}
	return said
}

// A change, a batch and a deletion leave nothing of a former address, and end its sign-ins, those without an account too.
func TestFormerAddresses(t *testing.T) {
	t.Parallel()
	inEveryLocale(t, Settings{}, func(t *testing.T, b *bench) {
		left := func(want ...string) {
			t.Helper()
			want = append([]string{}, want...) // not nil
			const keys = `select coalesce(array_agg(address order by address), '{}') from user_addresses`
			if diff := cmp.Diff(want, pgtest.Value[[]string](t, b.db, keys)); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		}
		early, late := uuid.New(), uuid.New()
		if err := b.send(early, "İNES@Bücher.example"); err != nil { // before there is an account
			t.Fatal(err)
		}
		ines, sore := b.user(t, "i\u0307nes@bücher.example"), b.user(t, "SÖRE@x.example")
		if err := b.send(late, "İnes@xn--bcher-kva.example"); err != nil {
			t.Fatal(err)
		}
		left("i̇nes@xn--bcher-kva.example", "söre@x.example")
		if ends, err := b.CountEndings(t.Context(), ines); err != nil || ends.SignIns != 2 {
			t.Errorf("a change would end %+v, %v", ends, err)
		}
		// They exchange their addresses.
		day := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
		if _, err := b.PutUsers(t.Context(), []NewUser{{ines.ID, "so\u0308re@X.example", "UTC", day}, {sore.ID, "İNES@BÜCHER.example", "UTC", day}}); err != nil {
			t.Fatal(err)
		}
		left("i̇nes@xn--bcher-kva.example", "söre@x.example")
		for _, signIn := range []uuid.UUID{early, late} {
			if _, err := b.GetSignIn(t.Context(), signIn); !errors.Is(err, ErrNoSignIn) {
				t.Errorf("a sign-in of the former address: %v", err)
			}
		}
		if found, err := b.FindUser(t.Context(), "SÖRE@x.example"); err != nil || found.ID != ines.ID || found.Email != "s\u00f6re@X.example" {
			t.Errorf("found %+v, %v", found, err)
		}
		// Two rows with one address, and one that another user has.
		_, err := b.PutUsers(t.Context(), []NewUser{
			{uuid.New(), "dup\u00e9@x.example", "UTC", day}, {uuid.New(), "DUPE\u0301@x.example", "UTC", day}, {uuid.New(), "SO\u0308RE@x.example", "UTC", day},
		})
		if said := rowsOf(err); !strings.Contains(said, "another row has this e-mail address") || !strings.Contains(said, ErrEmailTaken.Error()) {
			t.Errorf("a batch: %s", said)
		}
		if _, err := b.ChangeUser(t.Context(), sore.ID, UserChange{Email: new("Grace@x.example")}); err != nil {
			t.Fatal(err)
		}
		left("grace@x.example", "söre@x.example")
		for _, user := range []User{ines, sore} {
			if _, err := b.DeleteUser(t.Context(), user.ID); err != nil {
				t.Fatal(err)
			}
		}
		left()
	})
}

// All spellings of an address have one limit, and one log.
func TestLimitsOfAnySpelling(t *testing.T) {
	t.Parallel()
	inEveryLocale(t, Settings{CodesPerEmail: 1}, func(t *testing.T, b *bench) {
		for i, spellings := range [][2]string{
			{"ines1@users.example", "INES1@users.example"}, {"söre@users.example", "SO\u0308RE@users.example"},
			{"ren@bücher.example", "ren@xn--bcher-kva.example"},
		} {
			if err := b.send(uuid.New(), spellings[0]); err != nil {
				t.Fatal(i, err)
			}
			if err := b.send(uuid.New(), spellings[1]); !errors.Is(err, ErrTooManyCodes) {
				t.Errorf("%q after %q: %v", spellings[1], spellings[0], err)
			}
			b.settled(t)
			b.eventually(t, "select count(*) >= $1 from sign_in_events", 3*(i+1))
			for _, spelling := range spellings {
				if log, err := b.SignIns(t.Context(), spelling); err != nil || len(log.Events) != 3 || log.NextCodeAt.IsZero() {
					t.Errorf("%q: %+v, %v", spelling, log, err)
				}
			}
		}
	})
}

// storedBefore adds a user as release 1.0.0 does, whose keys the database makes.
func storedBefore(t *testing.T, db *pgtest.DB, email string) uuid.UUID {
	t.Helper()
	id := uuid.New()
	db.Exec(t, `with address as (insert into user_addresses (address, user_id, email) values (lower($2), $1, $2))
		insert into users (user_id, email, timezone, registered_on, created_at) values ($1, $2, 'UTC', '2026-01-31', connect_now())`, id, email)
	return id
}

func onlyThese(ids []uuid.UUID, want map[uuid.UUID]bool) bool {
	return len(ids) == len(want) && !slices.ContainsFunc(ids, func(id uuid.UUID) bool { return !want[id] })
}

// Users whom release 1.0.0 has stored, or stores beside this program, are found. Of two who share an address now, nothing of either changes.
func TestKeyAddresses(t *testing.T) {
	t.Parallel()
	inEveryLocale(t, Settings{}, func(t *testing.T, b *bench) {
		ids := map[uuid.UUID]string{}
		for _, email := range []string{
			"Ines1@users.example", "plain@users.example", "SÖRE@users.example", "ren@bücher.example", "zoe\u0308@x.example", "ΝΊΚΟΣ@x.example", "ınes2@users.example",
		} {
			ids[storedBefore(t, b.db, email)] = email
		}
		first := storedBefore(t, b.db, "dup\u00e9@x.example")
		second := storedBefore(t, b.db, "dupe\u0301@x.example")
		gone, moved := storedBefore(t, b.db, "göne@x.example"), storedBefore(t, b.db, "mövéd@x.example")
		b.db.Exec(t, "delete from users where user_id = $1", gone)
		b.db.Exec(t, "insert into audit_log (subject, user_id, actor, action) values ($1, $1, 'operator', 'user.deleted')", gone)
		b.db.Exec(t, "update users set email = 'moved@x.example' where user_id = $1", moved)
		unseen := uuid.New() // on a cluster, the address of a user whom another node does not show yet
		b.db.Exec(t, "insert into user_addresses (address, user_id, email) values ('unséen@x.example', $1, 'unséen@x.example')", unseen)

		invalid := map[uuid.UUID]bool{}
		for i, domain := range []string{"b_c.example", "b.example#x", "-b.example", "b-.example", "b.7", "ab--c.example", "ａb.example"} {
			invalid[storedBefore(t, b.db, fmt.Sprintf("is%d@%s", i, domain))] = true
		}
		storedBefore(t, b.db, "xn@xn--bcher-kva.xn--p1ai") // unusual, and valid

		if before, err := b.UnusableAddresses(t.Context()); err != nil || len(before.Shared) != 1 || !onlyThese(before.Invalid, invalid) {
			t.Errorf("before: %v, %v", before, err)
		}
		for range 2 { // again it changes nothing
			got, err := b.KeyAddresses(t.Context())
			if err != nil || len(got.Shared) != 1 || got.Shared[0] != first && got.Shared[0] != second || !onlyThese(got.Invalid, invalid) {
				t.Fatalf("%v, %v", got, err)
			}
		}
		for id, email := range ids {
			if found, err := b.FindUser(t.Context(), strings.ToLower(email)); err != nil || found.ID != id || found.Email != email {
				t.Errorf("%q finds %v, %v", email, found, err)
			}
		}
		found, err := b.FindUser(t.Context(), "dupé@x.example")
		if err != nil {
			t.Fatal(err)
		}
		unusable, err := b.UnusableAddresses(t.Context())
		if err != nil || len(unusable.Shared) != 1 || unusable.Shared[0] == found.ID {
			t.Fatalf("%v shares the address of %v, %v", unusable, found.ID, err)
		}
		const addresses = "select array_agg(user_id) from user_addresses where email like $1"
		for like, want := range map[string]int{"dup%": 2, "g%": 0, "m%": 0, "uns%": 1} {
			if n := pgtest.Value[int](t, b.db, strings.Replace(addresses, "array_agg(user_id)", "count(*)", 1), like); n != want {
				t.Errorf("%d addresses like %s, want %d", n, like, want)
			}
		}
		// An operator ends it: the other one gets another address, of which nothing is left.
		if _, err := b.ChangeUser(t.Context(), unusable.Shared[0], UserChange{Email: new("other@x.example")}); err != nil {
			t.Fatal(err)
		}
		for id := range invalid {
			if _, err := b.ChangeUser(t.Context(), id, UserChange{Email: new(id.String() + "@x.example")}); err != nil {
				t.Fatal(err)
			}
		}
		if at, err := b.KeyAddresses(t.Context()); err != nil || len(at.Shared)+len(at.Invalid) != 0 {
			t.Errorf("at last: %v, %v", at, err)
		}
		if n := pgtest.Value[int](t, b.db, strings.Replace(addresses, "array_agg(user_id)", "count(*)", 1), "dup%"); n != 1 {
			t.Errorf("%d addresses are left", n)
		}
	})
}

// A user whom release 1.0.0 has stored loses the address in a batch or a deletion, also before it has its key.
func TestAddressesWithoutKey(t *testing.T) {
	t.Parallel()
	inEveryLocale(t, Settings{}, func(t *testing.T, b *bench) {
		day := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
		one, other := storedBefore(t, b.db, "SÖRE@Bücher.example"), storedBefore(t, b.db, "İnes@Bücher.example")
		if _, err := b.PutUsers(t.Context(), []NewUser{{one, "Söre@bücher.example", "UTC", day}}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.DeleteUser(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		got := pgtest.Value[[]string](t, b.db, "select array_agg(address) from user_addresses")
		if diff := cmp.Diff([]string{text.AddressKey("söre@bücher.example")}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A downgrade gives addresses back the keys that release 1.0.0 finds them by, except those that another user would have then.
func TestKeysAfterADowngrade(t *testing.T) {
	t.Parallel()
	inEveryLocale(t, Settings{}, func(t *testing.T, b *bench) {
		for _, email := range []string{"INES1@x.example", "ınes1@x.example", "SÖRE@bücher.example", "ren@xn--bcher-kva.example", "νίκος@x.example"} {
			b.user(t, email)
		}
		b.stop()
		if _, err := migrate.Apply(t.Context(), b.db.URL, 15); err != nil {
			t.Fatal(err)
		}
		left := pgtest.Value[[]string](t, b.db, "select coalesce(array_agg(email), '{}') from user_addresses where address <> lower(email)")
		taken := pgtest.Value[[]string](t, b.db, `select coalesce(array_agg(email), '{}') from user_addresses a
			where address <> lower(email) and exists (select from user_addresses b where b.address = lower(a.email))`)
		if diff := cmp.Diff(taken, left); diff != "" || len(left) > 1 {
			t.Errorf("not found by lower() (-want +got):\n%s", diff)
		}
		if _, err := migrate.Apply(t.Context(), b.db.URL, migrate.Up); err != nil {
			t.Fatal(err)
		}
		if _, err := b.KeyAddresses(t.Context()); err != nil {
			t.Fatal(err)
		}
		if found, err := b.FindUser(t.Context(), "söre@xn--bcher-kva.example"); err != nil || found.Email != "SÖRE@bücher.example" {
			t.Errorf("found %v, %v", found, err)
		}
	})
}

// An address whose local part is not ASCII is taken where the mail server takes it, and refused by name elsewhere.
func TestAddressesNeedSMTPUTF8(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	nowhere := "smtp://127.0.0.1:1"
	for name, test := range map[string]struct {
		server *mailtest.Config
		url    string
		want   error
	}{
		"offered":     {server: &mailtest.Config{UTF8: true}},
		"not offered": {server: &mailtest.Config{}, want: errNoUTF8},
		"away":        {url: nowhere, want: errUTF8Unknown},
		"none":        {want: errUTF8Unasked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBenchOn(t, newDB(t), nil, nowhere, Settings{})
			if test.server != nil {
				test.url = "smtp://" + mailtest.Start(t, *test.server).Address
			}
			b.mailer = nil
			if test.url != "" {
				var err error
				if b.mailer, err = NewMailer(test.url, "connect@service.example"); err != nil {
					t.Fatal(err)
				}
			}
			ada := NewUser{uuid.New(), "ada@bücher.example", "UTC", day} // needs nothing
			if _, err := b.CreateUser(t.Context(), ada); err != nil {
				t.Errorf("ASCII: %v", err)
			}
			n := 0
			address := func() string { n++; return fmt.Sprintf("söre%d@x.example", n) }
			check := func(act string, err error) {
				t.Helper()
				if (err == nil) != (test.want == nil) || err != nil && !strings.Contains(rowsOf(err), test.want.(refusal.Field).Problem) {
					t.Errorf("%s: %v, want %v", act, rowsOf(err), test.want)
				}
			}
			_, err := b.CreateUser(t.Context(), NewUser{uuid.New(), address(), "UTC", day})
			check("create", err)
			_, err = b.ChangeUser(t.Context(), ada.ID, UserChange{Email: new(address())})
			check("change", err)
			_, err = b.PutUsers(t.Context(), []NewUser{{uuid.New(), "bob@x.example", "UTC", day}, {uuid.New(), address(), "UTC", day}})
			check("batch", err)
			_, err = b.ImportUsers(t.Context(), strings.NewReader(usersHeader+","+address()+",UTC,2026-01-31\n"), nil)
			check("import", err)
			// An address that is not valid has its own problem, once.
			_, err = b.ImportUsers(t.Context(), strings.NewReader(usersHeader+",söre@x_y.example,UTC,2026-01-31\n"), nil)
			if said := rowsOf(err); !strings.Contains(said, errEmail.Problem) || strings.Contains(said, "SMTPUTF8") {
				t.Errorf("an address that is none: %s", said)
			}
		})
	}
}

// A mail server that accepts connections and never answers keeps nobody waiting for longer than it may be asked, and is not asked again at once.
func TestMailServerThatHangsIsAskedInTime(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	settings := Settings{Limits: wait.Patient}
	settings.Limits.Probe = 100 * time.Millisecond
	b := newBenchOn(t, newDB(t), nil, "smtp://"+silent.Addr().String(), settings)
	for range 2 {
		_, err := b.CreateUser(t.Context(), NewUser{uuid.New(), "söre@x.example", "UTC", time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)})
		if !errors.Is(err, errUTF8Unknown) {
			t.Errorf("create: %v", err)
		}
	}
	first, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	_ = first.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the answer waited until the mail library had given up: %v", err)
	}
}

// The mail server is asked once for many addresses, and anew after a minute.
func TestSMTPUTF8IsAskedSeldom(t *testing.T) {
	t.Parallel()
	post := mailtest.Start(t, mailtest.Config{UTF8: true})
	b := newBenchOn(t, newDB(t), post, "smtp://"+post.Address, Settings{})
	for i := range 20 {
		if err := b.checkSendable(t.Context(), fmt.Sprintf("söre%d@x.example", i)); err != nil {
			t.Fatal(err)
		}
	}
	asked := b.mailer.utf8.until
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	b.mailer.utf8.until = time.Now().Add(-time.Second)
	if err := b.checkSendable(canceled, "söre@x.example"); err == nil {
		t.Error("a caller who has gone is answered")
	}
	if err := b.checkSendable(t.Context(), "söre@x.example"); err != nil || !b.mailer.utf8.until.After(asked) {
		t.Errorf("the next caller: %v", err)
	}
}
