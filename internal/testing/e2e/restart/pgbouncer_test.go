package restart_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/oauth2"

	"connect-svc/internal/admin/servers"
	"connect-svc/internal/app"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgbouncertest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

const pgbouncerINI = "../../../../docs/pgbouncer.ini"

// PgBouncer in transaction mode, set up as the documentation says: each statement may find itself in another session of
// PostgreSQL, of which there are two for all of the service's connections. Every flow works, several at a time.
func TestThroughPgBouncer(t *testing.T) {
	t.Parallel()
	e := e2e.New(t, func(config *app.Config) {
		config.DatabaseURL = pgbouncertest.Start(t, pgbouncerINI, config.DatabaseURL, "default_pool_size", "2").URL + "&pool_max_conns=8"
	})
	e.DB.Exec(t, "update clients set requests_per_minute = 1000000, burst = 1000000, concurrent_reads = 100")
	config, token := e.Connect(t) // sign-in, consent, exchange
	e.RecordRides(t, token, 25)

	// Other users' refreshes, replays and revocations at the same time.
	var others sync.WaitGroup
	defer others.Wait()
	for range 4 {
		user := e.DB.User(t)
		others.Go(func() {
			tokens := edgetest.Connect(t, e.App.OAuth, e.Partner, scope.All, user.ID)
			for range 10 {
				next, err := e.App.OAuth.Refresh(t.Context(), edgetest.Credentials(e.Partner), tokens.RefreshToken)
				if err != nil {
					t.Errorf("refresh: %v", err)
					return
				}
				if _, err := e.App.OAuth.Authenticate(t.Context(), next.AccessToken); err != nil {
					t.Errorf("authenticate: %v", err)
				}
				tokens = next
			}
			if err := e.App.OAuth.Revoke(t.Context(), edgetest.Credentials(e.Partner), tokens.RefreshToken); err != nil {
				t.Errorf("revoke: %v", err)
			}
			if _, err := e.App.OAuth.Authenticate(t.Context(), tokens.AccessToken); err == nil {
				t.Error("a revoked connection reads")
			}
		})
	}

	for range 10 {
		if status := e.Read(t, token); status != http.StatusOK {
			t.Fatalf("a read answers %d", status)
		}
		refreshed, err := config.TokenSource(e.Client(t), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
		if err != nil {
			t.Fatal(e2e.CodeOf(err))
		}
		token = refreshed
	}
	seen, cursor := map[string]bool{}, ""
	for range 3 {
		page := e.Rides(t, token, 10, cursor)
		for _, ride := range page.Data {
			seen[ride.ID] = true
		}
		cursor = page.Meta.NextCursor
	}
	if len(seen) != 25 || cursor != "" {
		t.Errorf("three pages of ten have %d rides, and then there are more: %t", len(seen), cursor != "")
	}
	var days struct{ Data []any }
	day := token.Extra("history_from")
	e.Get(t, token, fmt.Sprintf("cycling-daily?from=%s&to=%s", day, day), &days)
	if len(days.Data) != 1 {
		t.Errorf("%d days with rides, want 1", len(days.Data))
	}

	// The limiter, both ways.
	e.DB.Exec(t, "update clients set burst = 1, requests_per_minute = 1")
	if got := []int{e.Read(t, token), e.Read(t, token)}; got[0] != http.StatusOK || got[1] != http.StatusTooManyRequests {
		t.Errorf("two reads of a burst of one answer %v", got)
	}
	e.DB.Exec(t, "update clients set burst = 1000, requests_per_minute = 1000000")
	others.Wait()
	wait.Until(t, "no lease is left", func() bool {
		return pgtest.Value[int](t, e.DB, "select jsonb_array_length(coalesce(state::jsonb -> 'leases', '[]')) from rate_limits") == 0
	})

	if err := e.App.OAuth.Revoke(t.Context(), edgetest.Credentials(e.Partner), token.AccessToken); err != nil {
		t.Fatal(err)
	}
	if status := e.Read(t, token); status != http.StatusUnauthorized {
		t.Errorf("a read with a revoked token answers %d", status)
	}
	e.StopRequests()
	e.App.Sweep(t.Context(), e.DB.Now())
	e.Private(t, "/readyz")
	// Every session of PostgreSQL that the service was in has the limit of time.
	if limit := pgtest.Value[string](t, &pgtest.DB{Pool: e.App.Pool}, "show statement_timeout"); limit != "4s" {
		t.Errorf("statement_timeout is %s", limit)
	}
}

// The check compares the pools of the servers with PgBouncer's, if PgBouncer tells, and says nothing without PgBouncer.
func TestPgBouncerIsCompared(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	told := pgbouncertest.Start(t, pgbouncerINI, db.URL, "default_pool_size", "6").URL
	untold := pgbouncertest.Start(t, pgbouncerINI, db.URL, "stats_users", "nobody").URL
	report := func(url string) (detail string, err error) {
		app.Check(t.Context(), app.Config{Database: settings.Database{DatabaseURL: url}}, func(check, found string, failure error) {
			if check == "pooler" {
				detail, err = found, failure
			}
		})
		return detail, err
	}
	if detail, err := report(db.URL); detail != "" || err != nil {
		t.Errorf("without PgBouncer: %q, %v", detail, err)
	}
	if _, err := report(untold); !errors.As(err, new(app.Skipped)) {
		t.Errorf("PgBouncer tells nothing: %v", err)
	}
	const fits, tooMany = "servers: 1, with 6 connections each, which share 6 of PostgreSQL", "servers: 1, with 7 connections each, which share 6 of PostgreSQL: set pool_max_conns=6 "
	for _, more := range []string{"", "&target_session_attrs=read-write"} { // which PgBouncer's console does not know
		if detail, err := report(told + "&pool_max_conns=6" + more); detail != fits || err != nil {
			t.Errorf("%s: %q, %v", more, detail, err)
		}
	}
	if _, err := report(told + "&pool_max_conns=7"); err == nil || !strings.HasPrefix(err.Error(), tooMany) {
		t.Errorf("too many: %v", err)
	}
	for _, seconds := range []string{"0", "120"} { // as release 1.0.0's file left it
		forever := pgbouncertest.Start(t, pgbouncerINI, db.URL, "default_pool_size", "6", "query_wait_timeout", seconds).URL
		if _, err := report(forever + "&pool_max_conns=6"); err == nil || !strings.HasPrefix(err.Error(), "query_wait_timeout is "+seconds) {
			t.Errorf("a wait of %s s: %v", seconds, err)
		}
	}
	for _, host := range []string{"first", "second"} {
		if err := servers.New(db.Pool, host, "", "", time.Now()).Heartbeat(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := report(told + "&pool_max_conns=6"); err == nil || !strings.Contains(err.Error(), "servers: 2, ") || !strings.Contains(err.Error(), "pool_max_conns=3 ") {
		t.Errorf("two servers: %v", err)
	}
}

// PgBouncer drops a statement that has waited too long for a connection of PostgreSQL. It is sent again while there is time.
func TestStatementThatPgBouncerDrops(t *testing.T) {
	t.Parallel()
	behind := pgbouncertest.Start(t, pgbouncerINI, pgtest.New(t).URL, "default_pool_size", "1", "query_wait_timeout", "1").URL
	pool, err := postgres.Open(t.Context(), behind, postgres.WithMaxConns(2), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	wait.Until(t, "there are two connections", func() bool {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if _, err := pool.Exec(t.Context(), "select pg_sleep(0.01)"); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		return pool.Stat().TotalConns() == 2
	})
	held, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	made := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
		defer cancel()
		_, err := pool.Exec(ctx, "select")
		made <- err
	}()
	wait.Until(t, "it was dropped", func() bool { return pool.Stat().NewConnsCount() > 2 || len(made) > 0 })
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-made; err != nil {
		t.Errorf("a statement that could be sent again: %v", err)
	}
}

// A connection through PgBouncer that was made while the database took no writes goes on saying so. Transactions begin when it takes writes again.
func TestPgBouncerTellsAnOldSetting(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCluster(t, "the setting is that of one node")
	db := pgtest.NewEmpty(t)
	db.Exec(t, "create table notes (n int)")
	bouncer := pgbouncertest.Start(t, pgbouncerINI, db.URL)
	setting := "alter database " + pgx.Identifier{pgtest.Value[string](t, db, "select current_database()")}.Sanitize()
	apply := func(change string) { // PgBouncer gets new connections
		t.Helper()
		db.Exec(t, setting+change)
		console, err := pgx.Connect(t.Context(), bouncer.Console+"&default_query_exec_mode=simple_protocol")
		if err != nil {
			t.Fatal(err)
		}
		defer console.Close(t.Context()) //nolint:errcheck // it has answered
		if _, err := console.Exec(t.Context(), "reconnect"); err != nil {
			t.Fatal(err)
		}
	}
	apply(" set default_transaction_read_only = on")
	pool, err := postgres.Open(t.Context(), bouncer.URL, postgres.WithMaxConns(1), postgres.WithLimits(wait.Patient))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	note := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into notes values (1)")
			return err
		})
	}
	if err := note(time.Second / 5); err == nil {
		t.Error("a transaction that writes while the database takes no writes")
	}
	apply(" reset default_transaction_read_only")
	if err := note(10 * time.Second); err != nil || pool.Stat().NewConnsCount() != 1 {
		t.Errorf("a transaction afterwards: %v, on connection %d", err, pool.Stat().NewConnsCount())
	}
}

// As documented, PgBouncer verifies the server behind it, which is another PgBouncer here, and is verified itself.
func TestPgBouncerVerifies(t *testing.T) {
	t.Parallel()
	first := pgbouncertest.Start(t, pgbouncerINI, pgtest.New(t).URL).URL
	second := pgbouncertest.Start(t, pgbouncerINI, first).URL
	for address, verified := range map[string]bool{
		second: true,
		regexp.MustCompile(`sslrootcert=[^&]+`).ReplaceAllString(second, ""): false, // an authority that nobody knows
		strings.Replace(second, "sslmode=verify-full", "sslmode=disable", 1): false,
	} {
		pool, err := postgres.Open(t.Context(), address)
		if (err == nil) != verified {
			t.Errorf("%s: %v", address[strings.Index(address, "@"):], err)
		}
		if err == nil {
			pool.Close()
		}
	}
}

// Commands that cannot work through PgBouncer say so at once, before they do harm.
func TestPgBouncerRefusals(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for name, ignored := range map[string]string{
		"as documented":                    "statement_timeout, idle_in_transaction_session_timeout",
		"where it ignores what is unknown": "statement_timeout, idle_in_transaction_session_timeout, connect.direct",
	} {
		behind := pgbouncertest.Start(t, pgbouncerINI, db.URL, "ignore_startup_parameters", ignored).URL
		if _, err := migrate.Apply(t.Context(), behind, migrate.Up); err == nil || !strings.Contains(err.Error(), "pooler") {
			t.Errorf("migrations through PgBouncer, %s: %v", name, err)
		}
	}
	unlimited := pgbouncertest.Start(t, pgbouncerINI, db.URL, "connect_query=", "'select 1'").URL
	_, err := app.Open(t.Context(), app.Config{Database: settings.Database{DatabaseURL: unlimited}, Keys: credential.NewTestKeyring(), OAuth: oauth.DefaultSettings})
	if err == nil || !strings.Contains(err.Error(), "statement_timeout") {
		t.Errorf("without a limit of time: %v", err)
	}
}
