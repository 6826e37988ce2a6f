package isolation_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// Many refreshes of one connection are one statement at a time for the database, and nobody else waits for them.
func TestIsolationOfAConnection(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	f := e2e.NewFront(t, e, false)
	_, wanted := e.NewConnection(t, e.Partner)
	other := e.DB.Client(t)
	_, theirs := e.NewConnection(t, other)

	const asked = 30
	free := e.HoldConnection(t, wanted.GrantID)
	answers := make(chan e2e.Response, asked)
	for range asked {
		go func() { answers <- f.Refresh(t.Context(), t, e.Partner, wanted.RefreshToken) }()
	}
	wait.Until(t, "all are under way", func() bool { return f.Came.Load() == asked })
	wait.Until(t, "the first waits for the row", func() bool { return e.DB.Waiting(t) > 0 })
	for range 5 {
		if got := f.Read(t.Context(), t, theirs); got.Status != http.StatusOK {
			t.Fatalf("a read of another client answers %d", got.Status)
		}
		got := f.Refresh(t.Context(), t, other, theirs.RefreshToken)
		if got.Status != http.StatusOK {
			t.Fatalf("a refresh of another client answers %d", got.Status)
		}
		theirs.RefreshToken = got.RefreshToken(t)
		if n := e.DB.Waiting(t); n > 1 {
			t.Fatalf("%d statements wait for the row", n)
		}
	}
	if n := len(answers); n != 0 {
		t.Errorf("%d were answered while the row was held", n)
	}
	free()
	statuses := map[int]int{}
	for range asked {
		statuses[(<-answers).Status]++
	}
	if want := (map[int]int{200: 1, 400: asked - 1}); !maps.Equal(statuses, want) {
		t.Errorf("answers %v, want %v", statuses, want)
	}
}

// A code that was used is refused without a lock: nothing that is held makes it wait.
func TestIsolationOfAUsedCode(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	f := e2e.NewFront(t, e, true)
	user := e.DB.User(t)
	code := edgetest.Code(t, e.App.OAuth, e.Partner, scope.All, user.ID)
	edgetest.Exchange(t, e.App.OAuth, e.Partner, code)
	e.Hold(t, "select 1 from connections c join users u on u.user_id = c.user_id where c.user_id = $1 for update", user.ID)
	if !pgtest.OnCluster() { // where a registration is held on all nodes at once
		e.Hold(t, "select 1 from clients where client_id = $1 for update", e.Partner.ID)
	}

	asked := 200
	if pgtest.OnCluster() { // where an exchange is several commands
		asked = 40
	}
	answers := make(chan e2e.Response, asked)
	for range asked {
		go func() {
			answers <- f.Token(t.Context(), t, e.Partner, url.Values{
				"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {e.Partner.CallbackURL}, "code_verifier": {edgetest.Verifier},
			})
		}()
	}
	refused := 0
	for range asked {
		if got := <-answers; got.Status == http.StatusBadRequest && strings.Contains(got.Body, `"invalid_grant"`) {
			refused++
		}
	}
	if refused != asked {
		t.Errorf("invalid_grant was answered %d times, want %d", refused, asked)
	}
}

// A client without budget costs nothing: no server writes anything about it, and all servers know it.
func TestIsolationOfAClientWithoutBudget(t *testing.T) {
	t.Parallel()
	s := newServers(t, 2, "")
	s.DB.StartAt(t, time.Now()) // a busy machine does not get to the next minute before the test does
	s.DB.Exec(t, "update clients set burst = 1, requests_per_minute = 1")
	if got := s.ask(t, 0); got.status != http.StatusOK {
		t.Fatalf("the first read answers %d", got.status)
	}
	kept := func() string {
		return pgtest.Value[string](t, s.DB, "select ctid || ' ' || xmin || ' ' || state from rate_limits where client_id = $1", s.Partner.ID)
	}
	wait.Until(t, "the lease of the first read is released", func() bool { return !strings.Contains(kept(), `"leases"`) })
	before := kept()
	waits := make(chan time.Duration, 100)
	for range 5 {
		go func() {
			for range cap(waits) / 5 {
				waits <- s.refused(t, 0)
			}
		}()
	}
	var due time.Duration
	for range cap(waits) {
		due = max(due, <-waits)
	}
	due = max(due, s.refused(t, 1))
	s.DB.Clock.Advance(due / 2)
	s.refused(t, 1)
	if diff := cmp.Diff(before, kept()); diff != "" {
		t.Errorf("refused reads changed what is kept (-before +after):\n%s", diff)
	}
	s.DB.Clock.Advance(due - due/2)
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
