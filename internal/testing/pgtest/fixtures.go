package pgtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/text"
	"connect-svc/migrations"
	"github.com/google/uuid"
)

// Client is a registration for a test. Change its fields in the function that [DB.Client] takes.
type Client struct {
	ID                uuid.UUID
	Secret            string
	Name              string
	CallbackURL       string
	Scopes            scope.Set
	Status            string
	RequestsPerMinute int
	Burst             int
	ConcurrentReads   int
}

// SecretHash is what the service keeps of the secret.
func (c Client) SecretHash() [sha256.Size]byte { return sha256.Sum256([]byte(c.Secret)) }

// Client registers a client: active, with all scopes and the default rate policy, unless change says otherwise.
func (db *DB) Client(t testing.TB, change ...func(*Client)) Client {
	t.Helper()
	c := Client{
		ID:          uuid.New(),
		Secret:      "svci_" + rand.Text(),
		Name:        "Example Partner",
		CallbackURL: "https://partner.example/callback",
		Scopes:      scope.All,
		Status:      "active",

		RequestsPerMinute: 600,
		Burst:             60,
		ConcurrentReads:   10,
	}
	for _, f := range change {
		f(&c)
	}
	hash := c.SecretHash()
	db.Exec(t, `insert into clients (client_id, name, callback_url, scopes, secret_hash, status,
		requests_per_minute, burst, concurrent_reads, created_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, connect_now())`,
		c.ID, c.Name, c.CallbackURL, int16(c.Scopes), hash[:], c.Status, c.RequestsPerMinute, c.Burst, c.ConcurrentReads)
	return c
}

// Webhook gives a client a webhook at an address that does not exist, with a secret that nothing can open.
func (db *DB) Webhook(t testing.TB, clientID uuid.UUID) {
	t.Helper()
	db.Exec(t, "insert into webhook_endpoints (client_id, url, secret) values ($1, 'https://partner.invalid/webhook', 'sealed')", clientID)
}

// User is a user for a test. Change its fields in the function that [DB.User] takes.
type User struct {
	ID           uuid.UUID
	Email        string
	Timezone     string
	RegisteredOn time.Time // midnight UTC
}

// User makes a user with an address of its own, who lives by UTC and is registered since 2020, unless change says
// otherwise.
func (db *DB) User(t testing.TB, change ...func(*User)) User {
	t.Helper()
	u := User{
		ID:           uuid.New(),
		Email:        "user-" + strings.ToLower(rand.Text()) + "@users.example",
		Timezone:     "UTC",
		RegisteredOn: time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC),
	}
	for _, f := range change {
		f(&u)
	}
	db.Exec(t, `with address as (insert into user_addresses (address, user_id, email) values ($5, $1, $2))
		insert into users (user_id, email, timezone, registered_on, created_at)
		values ($1, $2, $3, $4, connect_now())`, u.ID, u.Email, u.Timezone, u.RegisteredOn, text.AddressKey(u.Email))
	return u
}

// slowness is by how much the time of a test passes slower than the real time.
const slowness = 100

// StartAt has the time of the database be start. From then on it passes a hundred times slower than the real time, and beyond that
// as [DB.Clock] is told to advance: a test that takes a minute on a busy machine does not meet the end of a minute, or of a token.
// It does not stand still, so that what happens later has a later time.
//
// On a cluster, whose nodes have a clock of their own, time passes as fast as everywhere.
func (db *DB) StartAt(t testing.TB, start time.Time) {
	t.Helper()
	if db.spread {
		db.Clock.Set(time.Until(start))
		return
	}
	db.began, db.start = time.Now(), start
	const instant = "2006-01-02 15:04:05.999999Z07:00"
	db.Exec(t, fmt.Sprintf(`create or replace function connect_now() returns timestamptz language plpgsql stable parallel safe as
		$$ begin return '%s'::timestamptz + (statement_timestamp() - '%s'::timestamptz) / %d
			+ coalesce(nullif(current_setting('connect.clock_offset', true), ''), '0')::interval; end $$`,
		start.Format(instant), db.began.Format(instant), slowness))
}

// Jump has the clock of the database be ahead of the real time, or behind it if by is negative, without telling [DB.Clock] or any server.
func (db *DB) Jump(t testing.TB, step time.Duration) {
	t.Helper()
	db.Exec(t, fmt.Sprintf(`create or replace function connect_now() returns timestamptz language plpgsql stable parallel safe as
		$$ begin return statement_timestamp() + interval '%d microseconds'
			+ coalesce(nullif(current_setting('connect.clock_offset', true), ''), '0')::interval; end $$`, step.Microseconds()))
}

// Now is the time of the database.
func (db *DB) Now() time.Time {
	if db.began.IsZero() {
		return db.Clock.Now()
	}
	return db.start.Add(time.Since(db.began)/slowness + db.Clock.Offset())
}

// SetTime moves the time of the database to at.
func (db *DB) SetTime(at time.Time) { db.Clock.Advance(at.Sub(db.Now())) }

// strange says whether the databases of the tests are as an operator may have made them, and the service would not. The service's role
// owns the database and has no other rights, its schema is not public, and the database has settings of its own.
func strange() bool { return os.Getenv("CONNECT_TEST_STRANGE") != "" }

const strangeRole = "connect_strange"

// prepare makes a new database a strange one, if the tests are to have such. schema is false for a copy, which has it.
func (n nodes) prepare(ctx context.Context, database string, schema bool) error {
	if !strange() {
		return nil
	}
	if err := n.exec(ctx,
		`do $$ begin create role `+strangeRole+` login password 'strange'; exception when duplicate_object or unique_violation then null; end $$`,
		"alter database "+database+" owner to "+strangeRole,
		"alter database "+database+" set search_path = service, public",
		"alter database "+database+" set default_transaction_isolation = serializable",
		"alter database "+database+" set datestyle = 'SQL, DMY'",
		"alter database "+database+" set intervalstyle = iso_8601",
		"alter database "+database+" set bytea_output = escape",
		"alter database "+database+" set timezone = 'Asia/Kathmandu'",
	); err != nil || !schema {
		return err
	}
	there, err := n.connect(ctx, database)
	if err != nil {
		return err
	}
	defer there.close()
	return there.exec(ctx, "create schema service authorization "+strangeRole)
}

// serviceURL is the address of a database for the service and its tests.
func (n node) serviceURL(database string) string {
	parsed, err := url.Parse(urlOf(n.url, database))
	if err != nil {
		panic(err) // it was connected to
	}
	if strange() {
		parsed.User = url.UserPassword(strangeRole, "strange")
	}
	return parsed.String()
}

// Migrations returns a copy of the service's migrations, and made-up ones beside them.
func Migrations(t testing.TB, more map[string]string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(migrations.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: text}
	}
	for name, text := range more {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}
