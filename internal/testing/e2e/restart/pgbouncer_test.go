package restart_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"golang.org/x/oauth2"

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
