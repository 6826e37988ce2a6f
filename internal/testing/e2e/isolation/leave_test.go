package isolation_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"connect-svc/internal/app"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// Readers who go away while their statements run cost neither a connection of the database nor a lease.
func TestIsolationFromReadersWhoLeave(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1, connections that are closed": false, "HTTP/2, streams that are reset": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := e2e.New(t, func(c *app.Config) { c.DatabaseURL += "&application_name=service&pool_max_conns=16" })
			f := e2e.NewFront(t, e, http2)
			const reads = 10
			e.DB.Exec(t, "update clients set burst = 1000, concurrent_reads = $1", reads)
			_, tokens := e.NewConnection(t, e.Partner)

			// readAtOnce has all of them at the table, which is locked.
			readAtOnce := func(ctx context.Context) (answers chan e2e.Response, free func()) {
				free = e.Hold(t, "lock table daily_steps in access exclusive mode")
				answers = make(chan e2e.Response, reads)
				for range reads {
					go func() { answers <- f.Read(ctx, t, tokens) }()
				}
				wait.Until(t, "all are admitted and wait for the table", func() bool { return e.DB.Waiting(t) == reads })
				return answers, free
			}
			ctx, leave := context.WithCancel(t.Context())
			answers, free := readAtOnce(ctx)
			before := backends(t, e)
			leave()
			wait.Until(t, "the service sees that all have left", func() bool { return f.Left.Load() == reads })
			for range reads {
				if got := <-answers; got.Status != 0 {
					t.Errorf("who has left is answered %d", got.Status)
				}
			}
			free()
			wait.Until(t, "all statements have ended", func() bool { return e.App.Pool.Stat().AcquiredConns() == 0 })
			for _, pid := range before {
				if !slices.Contains(backends(t, e), pid) {
					t.Error("a connection of the database was lost")
				}
			}

			answers, free = readAtOnce(t.Context())
			if got := f.Read(t.Context(), t, tokens); got.Status != http.StatusTooManyRequests {
				t.Errorf("one more than may read at one time is answered %d", got.Status)
			}
			free()
			for range reads {
				if got := <-answers; got.Status != http.StatusOK {
					t.Errorf("a read answers %d", got.Status)
				}
			}
		})
	}
}

// backends are the processes that serve the service.
func backends(t *testing.T, e *e2e.Service) []int32 {
	t.Helper()
	return pgtest.Value[[]int32](t, e.DB,
		"select array_agg(pid order by pid) from pg_stat_activity where datname = current_database() and application_name = 'service'")
}

// Presenting a used refresh token ends the connection, even if the caller does not wait for the answer.
func TestIsolationFromThievesWhoLeave(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	stolen := func(t *testing.T) oauth.Tokens {
		_, tokens := e.NewConnection(t, e.Partner)
		if _, err := e.App.OAuth.Refresh(t.Context(), edgetest.Credentials(e.Partner), tokens.RefreshToken); err != nil {
			t.Fatal(err)
		}
		return tokens
	}
	revoked := func(t *testing.T, tokens oauth.Tokens) {
		t.Helper()
		wait.Until(t, "the connection is revoked", func() bool {
			return pgtest.Value[string](t, e.DB, "select state::text from connections where grant_id = $1", tokens.GrantID) == "revoked"
		})
	}
	t.Run("at once", func(t *testing.T) {
		tokens := stolen(t)
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens.RefreshToken}}.Encode()
		request, err := http.NewRequest(http.MethodPost, e.Base+"/oauth/token", strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.SetBasicAuth(e.Partner.ID.String(), url.QueryEscape(e.Partner.Secret))
		conn, err := tls.Dial("tcp", request.URL.Host, &tls.Config{InsecureSkipVerify: true}) // the certificate of a test
		if err != nil {
			t.Fatal(err)
		}
		if err := request.Write(conn); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		revoked(t, tokens)
	})
	for name, http2 := range map[string]bool{"HTTP/1.1, while the connection is held": false, "HTTP/2, while the connection is held": true} {
		t.Run(name, func(t *testing.T) {
			f, tokens := e2e.NewFront(t, e, http2), stolen(t)
			free := e.HoldConnection(t, tokens.GrantID)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			answer := make(chan e2e.Response, 1)
			go func() { answer <- f.Refresh(ctx, t, e.Partner, tokens.RefreshToken) }()
			wait.Until(t, "the statement waits for the row", func() bool { return e.DB.Waiting(t) == 1 })
			leave()
			wait.Until(t, "the service sees that the caller has left", func() bool { return f.Left.Load() == 1 })
			<-answer
			free()
			revoked(t, tokens)
		})
	}
}
