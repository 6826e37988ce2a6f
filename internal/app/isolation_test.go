package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/oauth"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/pgtest"
)

// Many refreshes of one connection are one statement at a time for the database, and nobody else waits for them.
func TestIsolationOfAConnection(t *testing.T) {
	t.Parallel()
	e := newEndToEnd(t)
	f := newFront(t, e, false)
	_, wanted := e.newConnection(t, e.partner)
	other := e.db.Client(t)
	_, theirs := e.newConnection(t, other)

	const asked = 30
	free := e.holdConnection(t, wanted.GrantID)
	answers := make(chan response, asked)
	for range asked {
		go func() { answers <- f.refresh(t.Context(), t, e.partner, wanted.RefreshToken) }()
	}
	eventually(t, "all are under way", func() bool { return f.came.Load() == asked })
	eventually(t, "the first waits for the row", func() bool { return e.waiting(t) > 0 })
	for range 5 {
		if got := f.read(t.Context(), t, theirs); got.status != http.StatusOK {
			t.Fatalf("a read of another client answers %d", got.status)
		}
		got := f.refresh(t.Context(), t, other, theirs.RefreshToken)
		if got.status != http.StatusOK {
			t.Fatalf("a refresh of another client answers %d", got.status)
		}
		theirs.RefreshToken = got.refreshToken(t)
		if n := e.waiting(t); n > 1 {
			t.Fatalf("%d statements wait for the row", n)
		}
	}
	if n := len(answers); n != 0 {
		t.Errorf("%d were answered while the row was held", n)
	}
	free()
	statuses := map[int]int{}
	for range asked {
		statuses[(<-answers).status]++
	}
	if want := (map[int]int{200: 1, 400: asked - 1}); !maps.Equal(statuses, want) {
		t.Errorf("answers %v, want %v", statuses, want)
	}
}

// A code that was used is refused without a lock: nothing that is held makes it wait.
func TestIsolationOfAUsedCode(t *testing.T) {
	t.Parallel()
	e := newEndToEnd(t)
	f := newFront(t, e, true)
	user := e.db.User(t)
	code := authorized(t, e.app, e.partner, user)
	exchange(t, e.app, e.partner, code)
	e.hold(t, "select 1 from connections c join users u on u.user_id = c.user_id where c.user_id = $1 for update", user.ID)
	if !pgtest.OnCluster() { // where a registration is held on all nodes at once
		e.hold(t, "select 1 from clients where client_id = $1 for update", e.partner.ID)
	}

	asked := 200
	if pgtest.OnCluster() { // where an exchange is several commands
		asked = 40
	}
	answers := make(chan response, asked)
	for range asked {
		go func() {
			answers <- f.token(t.Context(), t, e.partner, url.Values{
				"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {e.partner.CallbackURL}, "code_verifier": {verifier},
			})
		}()
	}
	refused := 0
	for range asked {
		if got := <-answers; got.status == http.StatusBadRequest && strings.Contains(got.body, `"invalid_grant"`) {
			refused++
		}
	}
	if refused != asked {
		t.Errorf("invalid_grant was answered %d times, want %d", refused, asked)
	}
}

// Who is out of budget costs nothing: no server writes anything about it, and all know it.
func TestIsolationOfAClientWithoutBudget(t *testing.T) {
	t.Parallel()
	s := newServers(t, 2, "")
	for range 20 { // the first reads open connections, and may be late on a busy machine
		if s.ask(t, 0).status == http.StatusOK {
			break
		}
	}
	s.db.Exec(t, "update clients set burst = 1, requests_per_minute = 1")
	if got := s.ask(t, 0); got.status != http.StatusOK {
		t.Fatalf("the first read answers %d", got.status)
	}
	kept := func() string {
		return pgtest.Value[string](t, s.db, "select ctid || ' ' || xmin || ' ' || state from rate_limits where client_id = $1", s.partner.ID)
	}
	before := kept()
	waits := make(chan time.Duration, 100)
	for range 5 {
		go func() {
			for range cap(waits) / 5 {
				waits <- s.refused(t, 0)
			}
		}()
	}
	var wait time.Duration
	for range cap(waits) {
		wait = max(wait, <-waits)
	}
	wait = max(wait, s.refused(t, 1))
	s.db.Clock.Advance(wait / 2)
	s.refused(t, 1)
	if diff := cmp.Diff(before, kept()); diff != "" {
		t.Errorf("refused reads changed what is kept (-before +after):\n%s", diff)
	}
	s.db.Clock.Advance(wait - wait/2)
	if got := s.ask(t, 1); got.status != http.StatusOK {
		t.Errorf("when the next is due a read answers %d", got.status)
	}
}

// refused wants a read to be refused by one of the servers, and returns for how long.
func (s *servers) refused(t *testing.T, server int) time.Duration {
	day := s.token.Extra("history_from")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf(
		"%s/connect-svc/v1/grants/%s/daily-activity?from=%s&to=%s", s.bases[server], s.token.Extra("grant_id"), day, day), nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	s.token.SetAuthHeader(request)
	answer, err := s.client.Do(request)
	if err != nil {
		t.Error(err)
		return 0
	}
	_ = answer.Body.Close()
	seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
	if answer.StatusCode != http.StatusTooManyRequests || err != nil || seconds < 1 {
		t.Errorf("server %d: %d, Retry-After %q", server, answer.StatusCode, answer.Header.Get("Retry-After"))
	}
	return time.Duration(seconds) * time.Second
}

// newConnection is a new user's connection with a client.
func (e *endToEnd) newConnection(t *testing.T, partner pgtest.Client) (pgtest.User, oauth.Tokens) {
	t.Helper()
	user := e.db.User(t)
	return user, exchange(t, e.app, partner, authorized(t, e.app, partner, user))
}

// hold takes a lock by a session of the test's own, until it is freed or the test ends.
func (e *endToEnd) hold(t *testing.T, lock string, args ...any) (free func()) {
	t.Helper()
	session, err := pgx.Connect(t.Context(), e.db.URL)
	if err != nil {
		t.Fatal(err)
	}
	free = func() { _ = session.Close(context.Background()) } // a second time it does nothing
	t.Cleanup(free)
	for _, statement := range []struct {
		sql  string
		args []any
	}{{sql: "begin"}, {lock, args}} {
		if _, err := session.Exec(t.Context(), statement.sql, statement.args...); err != nil {
			t.Fatal(err)
		}
	}
	return free
}

// holdConnection holds the connection of a grant.
func (e *endToEnd) holdConnection(t *testing.T, grant uuid.UUID) (free func()) {
	t.Helper()
	user := pgtest.Value[uuid.UUID](t, e.db, "select user_id from grant_directory where grant_id = $1", grant)
	return e.hold(t, "select 1 from connections where user_id = $1 for update", user)
}

// waiting is how many statements wait for a lock, on whichever node.
func (e *endToEnd) waiting(t *testing.T) (n int) {
	t.Helper()
	for _, url := range e.db.URLs {
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

// front is a listener of the service that counts who comes and who leaves before the answer.
type front struct {
	base       string
	client     *http.Client
	came, left atomic.Int64
}

func newFront(t *testing.T, e *endToEnd, http2 bool) *front {
	t.Helper()
	f := new(front)
	service := contracttest.Handler(t, e.app.public.Handler)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.came.Add(1)
		stays := context.AfterFunc(r.Context(), func() { f.left.Add(1) })
		defer stays()
		service.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = http2
	server.StartTLS()
	t.Cleanup(server.Close)
	f.base, f.client = server.URL, server.Client()
	return f
}

// response is a whole answer; without a status there is none.
type response struct {
	status int
	body   string
}

func (r response) refreshToken(t *testing.T) string {
	t.Helper()
	_, rest, _ := strings.Cut(r.body, `"refresh_token":"`)
	token, _, found := strings.Cut(rest, `"`)
	if !found {
		t.Fatal("no refresh token")
	}
	return token
}

func (f *front) do(ctx context.Context, t *testing.T, method, path string, form url.Values, authenticate func(*http.Request)) response {
	request, err := http.NewRequestWithContext(ctx, method, f.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Error(err)
		return response{}
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	authenticate(request)
	answer, err := f.client.Do(request)
	if err == nil {
		defer answer.Body.Close()
		var body []byte
		if body, err = io.ReadAll(answer.Body); err == nil {
			return response{answer.StatusCode, string(body)}
		}
	}
	if ctx.Err() == nil {
		t.Error(err)
	}
	return response{}
}

func (f *front) token(ctx context.Context, t *testing.T, partner pgtest.Client, form url.Values) response {
	return f.do(ctx, t, http.MethodPost, "/oauth/token", form, func(r *http.Request) {
		r.SetBasicAuth(partner.ID.String(), url.QueryEscape(partner.Secret))
	})
}

func (f *front) refresh(ctx context.Context, t *testing.T, partner pgtest.Client, token string) response {
	return f.token(ctx, t, partner, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
}

func (f *front) read(ctx context.Context, t *testing.T, tokens oauth.Tokens) response {
	day := tokens.HistoryFrom.Format(time.DateOnly)
	path := fmt.Sprintf("/connect-svc/v1/grants/%s/daily-activity?from=%s&to=%s", tokens.GrantID, day, day)
	return f.do(ctx, t, http.MethodGet, path, nil, func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+tokens.AccessToken)
	})
}
