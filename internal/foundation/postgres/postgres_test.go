package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/testing/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	const secret = "n0t-for-logs"
	db := pgtest.NewEmpty(t)
	here, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()

	for _, test := range []struct{ name, url, want string }{
		{"not a URL", "postgres://user:" + secret + "@host:port/x", "not the URL of a PostgreSQL database"},
		{"no file of authorities", "postgres://user:" + secret + "@host/x?sslrootcert=/nowhere/root.pem", "open /nowhere/root.pem: no such file"},
		{"another scheme", "mysql://user:" + secret + "@host/x", "not the URL of a PostgreSQL database"},
		{"down", "postgres://user:" + secret + "@" + closed.Addr().String() + "/x", "connection refused"},
		{"silent", "postgres://user:" + secret + "@" + silent.Addr().String() + "/x?connect_timeout=1", "cannot connect: "},
		{"wrong password", "postgres://" + here.User.Username() + ":" + secret + "@" + here.Host + here.Path, "password authentication failed"},
		{"no such database", strings.Replace(db.URL, here.Path, "/nowhere", 1), `"nowhere" does not exist`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, openErr := postgres.Open(context.Background(), test.url)
			_, migrateErr := migrate.Apply(context.Background(), test.url, migrate.Up)
			for _, err := range []error{openErr, migrateErr} {
				if err == nil {
					t.Fatal("no error")
				}
				text := err.Error()
				if !strings.Contains(text, test.want) || !strings.HasPrefix(text, "database") {
					t.Errorf("error %q does not say %q", text, test.want)
				}
				password, _ := here.User.Password()
				for _, leak := range []string{secret, password, "\n"} {
					if strings.Contains(text, leak) {
						t.Errorf("error %q holds %q", text, leak)
					}
				}
			}
		})
	}
}

// A statement that waited for a row decides by its newest version, also where the database's default is another isolation level.
func TestIsolation(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	db.Exec(t, "alter database "+pgtest.Value[string](t, db, "select quote_ident(current_database())")+" set default_transaction_isolation = serializable")
	pool := db.Open(t)
	if _, err := pool.Exec(t.Context(), "create table counts as select 0 as n"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if _, err := pool.Exec(t.Context(), "update counts set n = n + 1"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := pgtest.Value[int](t, db, "select n from counts"); n != 8*20 {
		t.Errorf("%d were counted, want %d", n, 8*20)
	}
}

func TestOpenDefaultsYieldToURL(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	db.Define(t, "alter database "+pgtest.Value[string](t, db, "select quote_ident(current_database())")+" set datestyle = 'SQL, DMY'")
	settings := func(url string, opts ...postgres.Option) map[string]string {
		t.Helper()
		pool, err := postgres.Open(context.Background(), url, opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		got := map[string]string{}
		for _, name := range []string{"statement_timeout", "application_name", "timezone", "datestyle"} {
			var value string
			if err := pool.QueryRow(context.Background(), "select current_setting($1)", name).Scan(&value); err != nil {
				t.Fatal(err)
			}
			got[name] = value
		}
		return got
	}
	for _, test := range []struct {
		name string
		got  map[string]string
		want map[string]string
	}{
		{"default", settings(db.URL),
			map[string]string{"statement_timeout": "4s", "application_name": "connect-svc", "timezone": "UTC", "datestyle": "ISO, MDY"}},
		{"URL", settings(db.URL + "&statement_timeout=2000&application_name=mine"),
			map[string]string{"statement_timeout": "2s", "application_name": "mine", "timezone": "UTC", "datestyle": "ISO, MDY"}},
		{"bulk", settings(db.URL, postgres.WithoutStatementTimeout()),
			map[string]string{"statement_timeout": "0", "application_name": "connect-svc", "timezone": "UTC", "datestyle": "ISO, MDY"}},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// Sessions run in UTC whatever a variable of libpq or the URL says.
func TestSessionsRunInUTC(t *testing.T) {
	db := pgtest.NewEmpty(t)
	t.Setenv("PGTZ", "Asia/Tokyo")
	for _, url := range []string{db.URL, db.URL + "&timezone=Asia/Tokyo", db.URL + "&TimeZone=Asia/Tokyo&DateStyle=German"} {
		pool, err := postgres.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		var zone, style string
		err = pool.QueryRow(t.Context(), "select current_setting('timezone'), current_setting('datestyle')").Scan(&zone, &style)
		pool.Close()
		if err != nil || zone != "UTC" || !strings.HasPrefix(style, "ISO") {
			t.Errorf("%s: %s, %s, %v", url, zone, style, err)
		}
	}
	before := time.Now()
	if _, err := migrate.Apply(t.Context(), db.URL, migrate.Up); err != nil {
		t.Fatal(err)
	}
	status, err := migrate.Status(t.Context(), db.URL)
	if err != nil || status[0].AppliedAt.Sub(before).Abs() > time.Hour {
		t.Errorf("%s was applied at %s, %v", status[0].Name, status[0].AppliedAt, err)
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	near := cmpopts.EquateApproxTime(time.Minute)
	check := func(offset time.Duration) {
		t.Helper()
		want := time.Now().Add(offset)
		if got := pgtest.Value[time.Time](t, db, "select connect_now()"); !cmp.Equal(want, got, near) {
			t.Errorf("offset %v: connect_now() = %v, want about %v", offset, got, want)
		}
		if got := db.Clock.Now(); !cmp.Equal(want, got, near) {
			t.Errorf("offset %v: Now() = %v, want about %v", offset, got, want)
		}
	}
	check(0)
	db.Clock.Advance(90 * 24 * time.Hour)
	check(90 * 24 * time.Hour)
	db.Clock.Advance(-100 * 24 * time.Hour)
	check(-10 * 24 * time.Hour)
	db.Clock.Set(0)
	check(0)

	// A second server on the same database has the same time, on connections that it had before as well.
	second := db.Open(t)
	db.Clock.Set(time.Hour)
	var ahead bool
	if err := second.QueryRow(context.Background(), "select connect_now() > now() + interval '59 minutes'").Scan(&ahead); err != nil || !ahead {
		t.Errorf("second pool is an hour ahead: %v, %v", ahead, err)
	}
}

func TestZeroClockSetsNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	set := pgtest.Value[*string](t, db, "select current_setting('connect.clock_offset', true)")
	if set != nil {
		t.Errorf("connect.clock_offset = %q, want it never set", *set)
	}
	var clock *clock.Clock
	if got := time.Since(clock.Now()); got.Abs() > time.Minute {
		t.Errorf("the nil clock is off by %v", got)
	}
}

func TestInTx(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	failure := errors.New("refused")
	insert := func(tx pgx.Tx) {
		if _, err := tx.Exec(ctx, "insert into marks values (1)"); err != nil {
			t.Error(err)
		}
	}
	for _, test := range []struct {
		name string
		act  func(pgx.Tx) error
		want int
	}{
		{"nil commits", func(tx pgx.Tx) error { insert(tx); return nil }, 1},
		{"an error rolls back", func(tx pgx.Tx) error { insert(tx); return failure }, 0},
		{"a panic rolls back", func(tx pgx.Tx) error { insert(tx); panic("no") }, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.NewEmpty(t)
			db.Exec(t, "create table marks (n integer)")
			err := recovered(db.Pool, test.act)
			if got := pgtest.Value[int](t, db, "select count(*) from marks"); got != test.want {
				t.Errorf("rows = %d, want %d", got, test.want)
			}
			if (err == nil) != (test.want == 1) {
				t.Errorf("error = %v", err)
			}
			if used := db.Pool.Stat().AcquiredConns(); used != 0 {
				t.Errorf("connections still in use: %d", used)
			}
		})
	}
}

func recovered(pool *postgres.Pool, act func(pgx.Tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return postgres.InTx(context.Background(), pool, act)
}

func TestViolations(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	db.Exec(t, `create table t (id integer constraint t_key primary key, n integer constraint t_positive check (n > 0),
		parent integer constraint t_parent references t)`)
	db.Exec(t, "insert into t values (1, 1, null)")
	for _, test := range []struct {
		name, insert string
		code         postgres.Code
		constraint   string
	}{
		{"unique", "insert into t values (1, 1, null)", postgres.UniqueViolation, "t_key"},
		{"foreign key", "insert into t values (2, 1, 7)", postgres.ForeignKeyViolation, ""},
		// As a Citus node passes on what another one said.
		{"unique elsewhere", passOn("duplicate key value violates unique constraint \"t_key_102012\""), postgres.UniqueViolation, "t_key"},
		{"foreign key elsewhere", passOn("insert or update on table \"t_102012\" violates foreign key constraint \"t_parent_102012\""),
			postgres.ForeignKeyViolation, ""},
	} {
		_, err := db.Pool.Exec(context.Background(), test.insert)
		err = fmt.Errorf("wrapped: %w", err)
		if !postgres.Is(err, test.code) || postgres.Is(err, postgres.DeadlockDetected) || postgres.Is(nil, test.code) {
			t.Errorf("%s: %v is not recognized as what it is", test.name, err)
		}
		if unique := test.constraint != ""; postgres.Violates(err, test.constraint) != unique || postgres.Violates(err, "another") {
			t.Errorf("%s: %v is not recognized by its constraint", test.name, err)
		}
	}
}

// passOn is a statement that fails with the words of another node.
func passOn(words string) string {
	return "do $$ begin raise internal_error using message = '" + words + "'; end $$"
}

// A connection remembers as many statements as the URL says, or as the service has.
func TestStatementCaches(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for settings, want := range map[string][2]int{
		"":                                {160, 160},
		"statement_cache_capacity=7":      {7, 160},
		"description_cache_capacity=1000": {160, 1000},
	} {
		address, err := url.Parse(db.URL)
		if err != nil {
			t.Fatal(err)
		}
		address.RawQuery += "&" + settings
		pool, err := postgres.Open(t.Context(), address.String())
		if err != nil {
			t.Fatalf("%s: %v", settings, err)
		}
		config := postgres.ConfigOf(pool).ConnConfig
		if got := [2]int{config.StatementCacheCapacity, config.DescriptionCacheCapacity}; got != want {
			t.Errorf("%q: %v, want %v", settings, got, want)
		}
		pool.Close()
	}
}

// The offset that tests and the demo give to the clock does not count.
func TestClockDifference(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCluster(t, "its clock is that of each node")
	db := pgtest.New(t)
	db.Clock.Set(24 * time.Hour)
	for _, ahead := range []time.Duration{0, -time.Hour, 401 * 24 * time.Hour} {
		db.Jump(t, ahead)
		if got, err := postgres.ClockDifference(t.Context(), db.Pool); err != nil || got.Round(time.Second) != ahead {
			t.Errorf("ahead by %s instead of %s, %v", got, ahead, err)
		}
	}
}
