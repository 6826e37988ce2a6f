package isolation_test

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connect-svc/internal/app"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// Acts of many users at a time, without HTTP. With CONNECT_TEST_CITUS_URLS on a cluster, to compare.
func BenchmarkActs(b *testing.B) {
	db := pgtest.New(b)
	mailer, err := account.NewMailer("smtp://127.0.0.1:25", "no-reply@example.com")
	if err != nil {
		b.Fatal(err)
	}
	a, err := app.Open(b.Context(), app.Config{
		BaseURL: "https://connect.example.com", Database: settings.Database{DatabaseURL: db.URLs[0]}, Keys: credential.NewTestKeyring(),
		Listen: "127.0.0.1:0", PrivateListen: "127.0.0.1:0", Mailer: mailer, OAuth: oauth.DefaultSettings,
		Activity: activity.Settings{CursorLifetime: time.Minute}, Clock: db.Clock, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(a.Close)
	partner := db.Client(b)
	me := edgetest.Credentials(partner)
	const users = 200
	tokens, of := make([]oauth.Tokens, users), make([]pgtest.User, users)
	for i := range users {
		of[i] = db.User(b)
		tokens[i] = edgetest.Connect(b, a.OAuth, partner, scope.All, of[i].ID)
	}
	day := activity.Range{From: time.Now().Add(-30 * 24 * time.Hour), To: time.Now()}
	// each runs act for b.N users in turn, eight at a time. No two work on one user.
	each := func(b *testing.B, act func(n int) error) {
		b.Helper()
		var next atomic.Int64
		var all sync.WaitGroup
		b.ResetTimer()
		for worker := range 8 {
			all.Go(func() {
				for n := worker; int(next.Add(1)) <= b.N; n = (n + 8) % users {
					if err := act(n); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acts/s")
	}
	b.Run("authenticate a read", func(b *testing.B) {
		each(b, func(n int) error { _, err := a.OAuth.Authenticate(b.Context(), tokens[n].AccessToken); return err })
	})
	b.Run("read steps", func(b *testing.B) {
		each(b, func(n int) error { _, err := a.Activity.DailySteps(b.Context(), of[n].ID, day); return err })
	})
	b.Run("refresh", func(b *testing.B) {
		each(b, func(n int) error {
			fresh, err := a.OAuth.Refresh(b.Context(), me, tokens[n].RefreshToken)
			tokens[n] = fresh
			return err
		})
	})
	// An act that is possible once per user is done once, for any number of requests.
	once := func(b *testing.B, act func(n int) error) {
		b.Helper()
		var all sync.WaitGroup
		b.ResetTimer()
		for worker := range 8 {
			all.Go(func() {
				for n := worker; n < users; n += 8 {
					if err := act(n); err != nil {
						b.Error(err)
					}
				}
			})
		}
		all.Wait()
		b.ReportMetric(users/b.Elapsed().Seconds(), "acts/s")
	}
	b.Run("exchange", func(b *testing.B) {
		codes := make([]string, users)
		for n := range users {
			codes[n] = edgetest.Code(b, a.OAuth, partner, scope.All, of[n].ID)
		}
		once(b, func(n int) (err error) {
			tokens[n], err = a.OAuth.Exchange(b.Context(), me, oauth.ExchangeParams{
				Code: codes[n], RedirectURI: partner.CallbackURL, CodeVerifier: edgetest.Verifier,
			})
			return err
		})
	})
	connected := func(b *testing.B) {
		b.Helper()
		for n := range users {
			tokens[n] = edgetest.Connect(b, a.OAuth, partner, scope.All, of[n].ID)
		}
	}
	b.Run("revoke an access token", func(b *testing.B) {
		connected(b)
		once(b, func(n int) error { return a.OAuth.Revoke(b.Context(), me, tokens[n].AccessToken) })
	})
	b.Run("revoke a refresh token", func(b *testing.B) {
		connected(b)
		once(b, func(n int) error { return a.OAuth.Revoke(b.Context(), me, tokens[n].RefreshToken) })
	})
	db.Webhook(b, partner.ID)
	b.Run("disconnect and tell", func(b *testing.B) {
		connected(b)
		once(b, func(n int) error { return a.OAuth.Disconnect(b.Context(), me, tokens[n].GrantID) })
	})
}
