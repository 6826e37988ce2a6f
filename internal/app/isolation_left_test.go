package app

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"connect-svc/internal/oauth"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// Readers who go away while their statements run cost neither a connection of the database nor a lease.
func TestIsolationFromReadersWhoLeave(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1, connections that are closed": false, "HTTP/2, streams that are reset": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEndToEnd(t, func(c *Config) { c.DatabaseURL += "&application_name=service&pool_max_conns=16" })
			f := newFront(t, e, http2)
			const reads = 10
			e.db.Exec(t, "update clients set burst = 1000, concurrent_reads = $1", reads)
			_, tokens := e.newConnection(t, e.partner)

			// readAtOnce has all of them at the table, which is locked.
			readAtOnce := func(ctx context.Context) (answers chan response, free func()) {
				free = e.hold(t, "lock table daily_steps in access exclusive mode")
				answers = make(chan response, reads)
				for range reads {
					go func() { answers <- f.read(ctx, t, tokens) }()
				}
				wait.Until(t, "all are admitted and wait for the table", func() bool { return e.waiting(t) == reads })
				return answers, free
			}
			ctx, leave := context.WithCancel(t.Context())
			answers, free := readAtOnce(ctx)
			before := e.backends(t)
			leave()
			wait.Until(t, "the service sees that all have left", func() bool { return f.left.Load() == reads })
			for range reads {
				if got := <-answers; got.status != 0 {
					t.Errorf("who has left is answered %d", got.status)
				}
			}
			free()
			wait.Until(t, "all statements have ended", func() bool { return e.app.Pool.Stat().AcquiredConns() == 0 })
			for _, pid := range before {
				if !slices.Contains(e.backends(t), pid) {
					t.Error("a connection of the database was lost")
				}
			}

			answers, free = readAtOnce(t.Context())
			if got := f.read(t.Context(), t, tokens); got.status != http.StatusTooManyRequests {
				t.Errorf("one more than may read at one time is answered %d", got.status)
			}
			free()
			for range reads {
				if got := <-answers; got.status != http.StatusOK {
					t.Errorf("a read answers %d", got.status)
				}
			}
		})
	}
}

// backends are the processes that serve the service.
func (e *endToEnd) backends(t *testing.T) []int32 {
	t.Helper()
	return pgtest.Value[[]int32](t, e.db,
		"select array_agg(pid order by pid) from pg_stat_activity where datname = current_database() and application_name = 'service'")
}

// Whoever presents a used refresh token ends the connection, and need not wait for the answer.
func TestIsolationFromThievesWhoLeave(t *testing.T) {
	t.Parallel()
	e := newEndToEnd(t)
	stolen := func(t *testing.T) oauth.Tokens {
		_, tokens := e.newConnection(t, e.partner)
		if _, err := e.app.OAuth.Refresh(t.Context(), credentials(e.partner), tokens.RefreshToken); err != nil {
			t.Fatal(err)
		}
		return tokens
	}
	revoked := func(t *testing.T, tokens oauth.Tokens) {
		t.Helper()
		wait.Until(t, "the connection is revoked", func() bool {
			return pgtest.Value[string](t, e.db, "select state::text from connections where grant_id = $1", tokens.GrantID) == "revoked"
		})
	}
	t.Run("at once", func(t *testing.T) {
		tokens := stolen(t)
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens.RefreshToken}}.Encode()
		request, err := http.NewRequest(http.MethodPost, e.base+"/oauth/token", strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.SetBasicAuth(e.partner.ID.String(), url.QueryEscape(e.partner.Secret))
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
			f, tokens := newFront(t, e, http2), stolen(t)
			free := e.holdConnection(t, tokens.GrantID)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			answer := make(chan response, 1)
			go func() { answer <- f.refresh(ctx, t, e.partner, tokens.RefreshToken) }()
			wait.Until(t, "the statement waits for the row", func() bool { return e.waiting(t) == 1 })
			leave()
			wait.Until(t, "the service sees that the caller has left", func() bool { return f.left.Load() == 1 })
			<-answer
			free()
			revoked(t, tokens)
		})
	}
}
