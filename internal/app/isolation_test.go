package app

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

	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
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
	wait.Until(t, "all are under way", func() bool { return f.came.Load() == asked })
	wait.Until(t, "the first waits for the row", func() bool { return e.waiting(t) > 0 })
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
