package isolation_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/app"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres/citus"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// BenchmarkBackground measures PostgreSQL's processors for the background work of one server, and the webhooks that it sends a second. With
// CONNECT_TEST_CITUS_URLS it runs on a cluster of CONNECT_BENCH_SHARDS (8) shards. The cluster's own idle work is measured first.
func BenchmarkBackground(b *testing.B) {
	const rest = 15 * time.Second
	db := backgroundDB(b)
	var received atomic.Int64
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		received.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}))
	b.Cleanup(receiver.Close)
	idle := func(b *testing.B) {
		b.Helper()
		for b.Loop() {
			before := databaseCPU(b, db)
			<-time.After(rest)
			b.ReportMetric((databaseCPU(b, db) - before).Seconds(), "database-cpu-s/15s")
		}
	}
	b.Run("no service", idle)
	a := background(b, db, receiver)
	var partners []pgtest.Client
	for range 4 {
		partner := db.Client(b)
		if _, err := a.Webhooks.SetEndpoint(b.Context(), partner.ID, receiver.URL); err != nil {
			b.Fatal(err)
		}
		partners = append(partners, partner)
	}
	db.Exec(b, "update clients set webhook_parallel = 64")
	<-time.After(2 * time.Second) // its first statements are over
	b.Run("idle service", idle)

	const events = 5000
	told := func(b *testing.B, statement string) {
		b.Helper()
		for b.Loop() {
			before, want := databaseCPU(b, db), received.Load()
			began := time.Now()
			for _, partner := range partners {
				db.Exec(b, statement, partner.ID, events/len(partners))
				want += int64(events / len(partners))
			}
			for received.Load() < want {
				if time.Since(began) > 2*wait.Limit {
					b.Fatalf("%d of %d events arrived", received.Load(), want)
				}
				<-time.After(time.Millisecond)
			}
			took := time.Since(began)
			b.ReportMetric(events/took.Seconds(), "webhooks/s")
			b.ReportMetric(1000*(databaseCPU(b, db)-before).Seconds()/events, "database-cpu-ms/webhook")
		}
	}
	b.Run("events", func(b *testing.B) {
		told(b, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason)
			select gen_random_uuid(), $1, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected' from generate_series(1, $2::int)`)
	})
	db.Exec(b, `insert into users (user_id, email, timezone, registered_on, created_at)
		select gen_random_uuid(), 'u' || i || '@users.example', 'UTC', '2020-01-01', now() from generate_series(1, $1::int) as i`, events)
	for i, partner := range partners {
		db.Exec(b, `insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
				refresh_generation, refresh_hash, refresh_deadline)
			select user_id, $1::uuid, gen_random_uuid(), 1, 'authorized', 1, '2026-01-01'::date, now(), 1, sha256('x'), now() + interval '90 days'
			from (select user_id from users order by user_id offset $2 * $3::int limit $3::int) u`, partner.ID, i, events/len(partners))
	}
	b.Run("changes", func(b *testing.B) {
		told(b, `insert into webhook_changes (user_id, client_id, datasets, first_date, last_date, changed_at)
			select user_id, client_id, 1, '2026-11-12'::date, '2026-11-12'::date, now() - interval '2 minutes' from connections
			where client_id = $1 and $2::int > 0`)
	})
}

// backgroundDB is a database of the benchmark's own, with as many shards as it says.
func backgroundDB(b *testing.B) *pgtest.DB {
	b.Helper()
	if !pgtest.OnCluster() {
		return pgtest.New(b)
	}
	shards, err := strconv.Atoi(cmp.Or(os.Getenv("CONNECT_BENCH_SHARDS"), "8"))
	if err != nil {
		b.Fatal(err)
	}
	db := pgtest.NewCluster(b, true)
	if err := citus.Distribute(b.Context(), db.URLs[0], shards, func(string, time.Duration) {}); err != nil {
		b.Fatal(err)
	}
	return db
}

// background runs a service whose events a receiver gets.
func background(b *testing.B, db *pgtest.DB, receiver *httptest.Server) *app.App {
	b.Helper()
	mailer, err := account.NewMailer("smtp://127.0.0.1:25", "no-reply@example.com")
	if err != nil {
		b.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(receiver.Certificate())
	a, err := app.Open(b.Context(), app.Config{
		BaseURL: "https://connect.example.com", Database: settings.Database{DatabaseURL: db.URLs[0]}, Keys: credential.NewTestKeyring(),
		Listen: "127.0.0.1:0", PrivateListen: "127.0.0.1:0", Mailer: mailer, OAuth: oauth.DefaultSettings, Activity: activity.Settings{CursorLifetime: time.Minute},
		Webhooks: webhook.Settings{AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, RootCAs: roots}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return a
}

// databaseCPU is what all processes of PostgreSQL, on all nodes, have used.
func databaseCPU(b *testing.B, db *pgtest.DB) (total time.Duration) {
	b.Helper()
	for _, url := range db.URLs {
		conn, err := pgx.Connect(b.Context(), url)
		if err != nil {
			b.Fatal(err)
		}
		pid := strconv.FormatUint(uint64(conn.PgConn().PID()), 10)
		postmaster := stat(b, pid)[1]
		_ = conn.Close(b.Context())
		children, err := os.ReadFile(fmt.Sprintf("/proc/%s/task/%[1]s/children", postmaster))
		if err != nil {
			b.Fatal(err)
		}
		own := stat(b, postmaster)
		ticks := 0
		for _, field := range own[11:15] { // its own, and those of its processes that have ended
			n, _ := strconv.Atoi(field)
			ticks += n
		}
		total += time.Duration(ticks) * 10 * time.Millisecond
		for child := range strings.FieldsSeq(string(children)) {
			text, err := os.ReadFile("/proc/" + child + "/schedstat")
			if err != nil {
				continue // it has just ended
			}
			nanoseconds, _, _ := bytes.Cut(text, []byte(" "))
			n, _ := strconv.ParseInt(string(nanoseconds), 10, 64)
			total += time.Duration(n)
		}
	}
	return total
}

// stat are the fields of a process behind its name: the state, the parent, …
func stat(b *testing.B, pid string) []string {
	b.Helper()
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		b.Fatal(err)
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}
