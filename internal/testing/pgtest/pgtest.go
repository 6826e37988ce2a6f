// Package pgtest gives each test a PostgreSQL database of its own, migrated, in a moment: it clones a template.
//
// A package that uses it says so once:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// The server is a private one that lasts as long as the test process, or the one that CONNECT_TEST_DATABASE_URL
// names, whose user must be allowed to create databases. A test without a database fails; none is ever skipped.
//
// `make test-postgres` names the major version of a private server in CONNECT_TEST_POSTGRES, with its programs first in PATH. Then tests on
// another version fail.
//
// With CONNECT_TEST_STRANGE the service's role has few rights, its schema is not public, and each database has settings that the service
// would not choose, such as another isolation level.
//
// CONNECT_TEST_CITUS_URLS names the nodes of a Citus cluster instead, the coordinator first. Then each database is spread over
// them, and each connects to another node than the one before. Tests of what only one PostgreSQL has are passed over there
// ([NotOnCluster]).
//
// Tests may all run in parallel: they share nothing but the server. Each database has its own clock ([DB.Clock]),
// which moves SQL and Go code alike.
package pgtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/testing/wait"
	"github.com/jackc/pgx/v5"
)

// maxConns of a test's pool: enough for a race of requests, few enough for many tests at a time.
const maxConns = 10

// DB is the database of one test.
type DB struct {
	Pool  *postgres.Pool
	URL   string       // with the password; on a cluster one node's, another one for each database
	URLs  []string     // of every node, the coordinator's first
	Clock *clock.Clock // of Pool

	name   string
	spread bool // over the nodes
	opened int

	began, start time.Time // see StartAt
}

// Main runs the tests of a package with a server for them, and exits. Call it from TestMain and do nothing after it.
// Checks of all tests together run after they have passed, unless flags have chosen some of them.
func Main(m *testing.M, claims ...func() error) { os.Exit(run(m, claims)) }

func run(m *testing.M, claims []func() error) (status int) {
	defer func() {
		server.nodes.close()
		if server.embedded == nil {
			return
		}
		if err := server.embedded.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			status = 1
		}
	}()
	// A login is given time: others keep the processors.
	_ = os.Setenv("PGCONNECT_TIMEOUT", fmt.Sprint(wait.Limit.Seconds()))
	status = m.Run() // which reads the flags
	chosen := slices.ContainsFunc([]string{"test.run", "test.skip", "test.list"}, func(name string) bool {
		set := flag.Lookup(name)
		return set != nil && set.Value.String() != ""
	})
	if status != 0 || chosen {
		return status
	}
	for _, claim := range claims {
		if err := claim(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	return status
}

// server is the one of this process, started by the first test that asks for it.
var server testServer

type testServer struct {
	once     sync.Once
	embedded *embedded.Server
	nodes    nodes
	template string
	made     atomic.Int64 // databases
	err      error
}

func (s *testServer) start() error {
	s.once.Do(func() {
		ctx := context.Background()
		urls := ClusterURLs()
		if len(urls) == 0 {
			urls = []string{os.Getenv("CONNECT_TEST_DATABASE_URL")}
		}
		if urls[0] == "" {
			if s.embedded, s.err = embedded.Start(ctx, embedded.Config{Ephemeral: true, Limits: wait.Patient}); s.err != nil {
				return
			}
			urls[0] = s.embedded.URL()
		}
		if s.nodes, s.err = openNodes(ctx, urls); s.err != nil {
			return
		}
		if s.err = s.nodes.expect(ctx, os.Getenv("CONNECT_TEST_POSTGRES")); s.err == nil {
			s.template, s.err = makeTemplate(ctx, s.nodes)
		}
	})
	return s.err
}

// makeTemplate migrates a database that is named after the migrations, unless it exists. It has its name only when
// it is whole.
func makeTemplate(ctx context.Context, nodes nodes) (string, error) {
	sum, err := migrate.Sum()
	if err != nil {
		return "", err
	}
	template := "connect_template_" + sum[:16]
	if strange() {
		template += "_strange"
	}
	conn, err := pgx.Connect(ctx, nodes[0].url)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	// Other test processes may want it at the same time.
	if _, err := conn.Exec(ctx, "select pg_advisory_lock(hashtext('connect_template'))"); err != nil {
		return "", err
	}
	defer func() { _, _ = conn.Exec(ctx, "select pg_advisory_unlock(hashtext('connect_template'))") }()
	var exists bool
	if err := conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", template).Scan(&exists); err != nil || exists {
		return template, err
	}
	half := template + "_half"
	if err := nodes.exec(ctx, "drop database if exists "+half+" with (force)", "create database "+half); err != nil {
		return "", err
	}
	if err := nodes.prepare(ctx, half, true); err != nil {
		return "", err
	}
	if _, err := migrate.Apply(ctx, nodes[0].serviceURL(half), migrate.Up); err != nil {
		return "", err
	}
	if len(nodes) > 1 {
		for _, step := range []func(context.Context, string) error{nodes.join, nodes.distribute, nodes.seal} {
			if err := step(ctx, half); err != nil {
				return "", err
			}
		}
	}
	return template, nodes.exec(ctx, "drop database if exists "+template, "alter database "+half+" rename to "+template)
}

// New gives t a migrated database that no other test sees, and drops it when t ends.
func New(t testing.TB) *DB {
	t.Helper()
	return create(t, "")
}

// NewEmpty gives t a database without any migration.
func NewEmpty(t testing.TB) *DB {
	t.Helper()
	return create(t, "template0")
}

// Waiting is how many statements wait for a lock, on whichever node.
func (db *DB) Waiting(t testing.TB) (n int) {
	t.Helper()
	for _, url := range db.URLs {
		session, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		var here int
		err = session.QueryRow(t.Context(),
			"select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'").Scan(&here)
		if err := errors.Join(err, session.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		n += here
	}
	return n
}

// create copies a database of the server, by default the migrated template.
func create(t testing.TB, template string) *DB {
	t.Helper()
	if err := server.start(); err != nil {
		t.Fatalf("pgtest: no PostgreSQL for the tests: %v", err)
	}
	ctx := context.Background()
	db := &DB{Clock: new(clock.Clock), name: "test_" + strings.ToLower(rand.Text())}
	template = cmp.Or(template, server.template)
	strategy := ""
	if server.embedded != nil { // the faster way to copy a template, by measurement: files where nothing waits for a disk
		strategy = " strategy file_copy"
	}
	if err := server.nodes.exec(ctx, "create database "+db.name+" template "+template+strategy); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := server.nodes.drop(ctx, db.name); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	if err := server.nodes.prepare(ctx, db.name, template != server.template); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	for _, node := range server.nodes {
		db.URLs = append(db.URLs, node.serviceURL(db.name))
	}
	db.URL = db.URLs[0]
	if db.spread = len(db.URLs) > 1 && template == server.template; db.spread {
		db.opened = int(server.made.Add(1))
		db.URL = db.URLs[db.opened%len(db.URLs)]
		server.nodes.follow(t, db.name, db.Clock)
	}
	db.Pool = db.Open(t)
	return db
}

// Open makes another pool on the database, in the time of [DB.Clock], as a second server would have; on a cluster, on the
// next node.
func (db *DB) Open(t testing.TB) *postgres.Pool {
	t.Helper()
	url := db.URL
	if db.spread {
		url = db.URLs[db.opened%len(db.URLs)]
		db.opened++
	}
	pool, err := postgres.Open(context.Background(), url, postgres.WithClock(db.Clock), postgres.WithLimits(wait.Patient), postgres.WithMaxConns(maxConns))
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Exec runs one statement of a test's own, on [DB.Pool].
func (db *DB) Exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("pgtest: %s: %v", sql, err)
	}
}

// Define runs a statement that changes what is in the database for all tables and roles; on a cluster, at its coordinator.
func (db *DB) Define(t testing.TB, sql string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), db.URLs[0])
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(context.Background(), sql); err != nil {
		t.Fatalf("pgtest: %s: %v", sql, err)
	}
}

// Value reads the one value that the query finds, as T. No row is a failure.
func Value[T any](t testing.TB, db *DB, sql string, args ...any) T {
	t.Helper()
	rows, err := db.Pool.Query(context.Background(), sql, args...)
	if err != nil {
		t.Fatalf("pgtest: %s: %v", sql, err)
	}
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if errors.Is(err, pgx.ErrNoRows) {
		t.Fatalf("pgtest: %s: no row", sql)
	}
	if err != nil {
		t.Fatalf("pgtest: %s: %v", sql, err)
	}
	return value
}

func urlOf(serverURL, database string) string {
	u, err := url.Parse(serverURL)
	if err != nil {
		panic(err) // it was connected to
	}
	u.Path, u.RawQuery = "/"+database, cmp.Or(u.RawQuery, "sslmode=prefer") // tests append parameters
	return u.String()
}

// Locales are the kinds of databases that operators make, by what `create database` says. lower() and the order of texts differ on all of them:
// in C only ASCII has cases, and in Turkish the small I is ı.
var Locales = map[string]string{
	"C SQL_ASCII": "encoding 'SQL_ASCII' locale 'C'",
	"C UTF8":      "encoding 'UTF8' locale 'C'",
	"tr-TR ICU":   "encoding 'UTF8' locale 'C' locale_provider icu icu_locale 'tr-TR'",
	"en-US ICU":   "encoding 'UTF8' locale 'C' locale_provider icu icu_locale 'en-US'",
}

// NewIn gives t a migrated database of a kind of [Locales].
func NewIn(t testing.TB, kind string) *DB {
	t.Helper()
	return NewWith(t, Locales[kind])
}

// NewWith gives t a migrated database that `create database` makes with options.
func NewWith(t testing.TB, options string) *DB {
	t.Helper()
	NotOnCluster(t, "all nodes of a cluster have one locale")
	db := create(t, "template0 "+options)
	if _, err := migrate.Apply(context.Background(), db.URL, migrate.Up); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return db
}

// Rows returns a hash of the rows of each table. It leaves out these tables and columns, such as "usage_hours" or "connections.last_read_at".
func Rows(t testing.TB, pool *postgres.Pool, except ...string) map[string]string {
	t.Helper()
	db := &DB{Pool: pool}
	var parts []string
	for _, table := range Value[[]string](t, db, `select array_agg(tablename::text order by tablename) from pg_tables
			where schemaname = current_schema() and tablename <> 'goose_db_version'`) {
		if slices.Contains(except, table) {
			continue
		}
		row := "to_jsonb(r)"
		for _, name := range except {
			if column, ok := strings.CutPrefix(name, table+"."); ok {
				row += " - '" + column + "'"
			}
		}
		parts = append(parts, fmt.Sprintf("'%s', (select md5(coalesce(string_agg((%s)::text, ' ' order by r::text), '')) from %s r)", table, row, table))
	}
	hashes := map[string]string{}
	for part := range slices.Chunk(parts, 40) { // a function takes a hundred arguments
		for table, hash := range Value[map[string]string](t, db, "select jsonb_build_object("+strings.Join(part, ", ")+")") {
			hashes[table] = hash
		}
	}
	return hashes
}
