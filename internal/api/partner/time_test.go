package partner

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/oauth"
	"connect-svc/internal/scope"
	"connect-svc/internal/timelimit"
)

// A request that has to wait is answered in its time: a read within two seconds, all else within five (decisions,
// section 5).
func TestTime_5(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, lock string
		request    func(*fixture, oauth.Tokens) outgoing
		status     int
		code       string
		limit      time.Duration
	}{
		{"read", "lock table daily_steps in access exclusive mode", func(_ *fixture, tokens oauth.Tokens) outgoing {
			return steps(tokens.GrantID, tokens.AccessToken)
		}, 503, "data_unavailable", 2 * time.Second},
		{"limiter", "lock table rate_limits in access exclusive mode", func(_ *fixture, tokens oauth.Tokens) outgoing {
			return steps(tokens.GrantID, tokens.AccessToken)
		}, 503, "data_unavailable", 2 * time.Second},
		{"refresh", "select 1 from connections where user_id = 'USER' for update", func(f *fixture, tokens oauth.Tokens) outgoing {
			return refreshForm(f.client, tokens.RefreshToken)
		}, 500, "server_error", 5 * time.Second},
		{"revoke", "select 1 from connections where user_id = 'USER' for update", func(f *fixture, tokens oauth.Tokens) outgoing {
			return post(f.client, "/oauth/revoke", url.Values{"token": {tokens.RefreshToken}})
		}, 500, "server_error", 5 * time.Second},
		{"disconnect", "select 1 from connections where user_id = 'USER' for update", func(f *fixture, tokens oauth.Tokens) outgoing {
			return disconnect(f.client, tokens.GrantID.String())
		}, 500, "server_error", 5 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(f *fixture) { f.config.Limits = timelimit.Default })
			tokens := f.connect(t, f.client, scope.All)
			hold, err := f.db.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = hold.Rollback(context.WithoutCancel(t.Context())) }()
			if _, err := hold.Exec(t.Context(), strings.ReplaceAll(test.lock, "USER", f.user.String())); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			f.send(t, test.request(f, tokens)).check(t, test.status, test.code)
			if took := time.Since(began); took > test.limit {
				t.Errorf("the answer took %s, want at most %s", took, test.limit)
			}
			if err := hold.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.send(t, steps(tokens.GrantID, tokens.AccessToken)).check(t, 200, "") // nothing has ended
		})
	}
}
