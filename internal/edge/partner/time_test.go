package partner

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/wait"
)

// blocked is a request that has to wait for a lock, and what it is answered when its time is over.
type blocked struct {
	name, lock string
	request    func(*fixture, oauth.Tokens) outgoing
	status     int
	code       string
	promised   time.Duration
}

const (
	readPromise = 2 * time.Second // decisions, section 5
	actPromise  = 5 * time.Second

	lockOfUser = "select 1 from connections where user_id = 'USER' for update"
)

var blockedRequests = []blocked{
	{"read", "lock table daily_steps in access exclusive mode", func(_ *fixture, tokens oauth.Tokens) outgoing {
		return steps(tokens.GrantID, tokens.AccessToken)
	}, 503, "data_unavailable", readPromise},
	{"limiter", "lock table rate_limits in access exclusive mode", func(_ *fixture, tokens oauth.Tokens) outgoing {
		return steps(tokens.GrantID, tokens.AccessToken)
	}, 503, "data_unavailable", readPromise},
	{"refresh", lockOfUser, func(f *fixture, tokens oauth.Tokens) outgoing {
		return refreshForm(f.client, tokens.RefreshToken)
	}, 500, "server_error", actPromise},
	{"revoke", lockOfUser, func(f *fixture, tokens oauth.Tokens) outgoing {
		return post(f.client, "/oauth/revoke", url.Values{"token": {tokens.RefreshToken}})
	}, 500, "server_error", actPromise},
	{"disconnect", lockOfUser, func(f *fixture, tokens oauth.Tokens) outgoing {
		return disconnect(f.client, tokens.GrantID.String())
	}, 500, "server_error", actPromise},
}

// send sends the request to an edge with these limits while the lock is held, and returns how long the answer took.
func (b blocked) send(t *testing.T, limits work.Limits) (took time.Duration) {
	t.Helper()
	f := newFixture(t)
	tokens := f.Connect(t, f.client, scope.All)
	hold, err := f.DB.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hold.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := hold.Exec(t.Context(), strings.ReplaceAll(b.lock, "USER", f.User.ID.String())); err != nil {
		t.Fatal(err)
	}
	limited := *f
	limited.config.Limits = limits
	limited.serve(t)
	began := time.Now()
	answer := limited.send(t, b.request(f, tokens))
	took = time.Since(began)
	answer.Check(t, b.status, b.code)
	if outcome := answer.Header.Get("Connect-Outcome"); outcome != "" { // the statement was sent
		t.Errorf("outcome is %q", outcome)
	}
	if err := hold.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.name == "revoke" || b.name == "disconnect" {
		return took // it is done a little later (docs/reliability.md)
	}
	f.send(t, steps(tokens.GrantID, tokens.AccessToken)).Check(t, 200, "") // nothing has ended
	return took
}

// A request that has to wait is answered although what it waits for does not end. That it is answered in its time is measured by
// TestTimedAnswers_5.
func TestBlocked_5(t *testing.T) {
	t.Parallel()
	limits := wait.Patient
	limits.Read, limits.Act = 200*time.Millisecond, 200*time.Millisecond
	for _, test := range blockedRequests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.send(t, limits)
		})
	}
}
