package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// audited returns the audit log of the fixture's client: actor, action, resulting version and reason.
func (f *fixture) audited(t *testing.T) (lines []string) {
	t.Helper()
	log, err := audit.New(f.db.Pool, wait.Patient, 0).List(t.Context(), audit.Filter{ClientID: f.client.ID}, page.Key{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range log.Events {
		var detail struct{ Reason string }
		if err := json.Unmarshal(e.Detail, &detail); err != nil {
			t.Fatal(err)
		}
		if e.Action != "client.created" {
			lines = append(lines, strings.TrimSpace(fmt.Sprint(e.Actor, " ", e.Action, " ", e.ConnectionVersion, " ", detail.Reason)))
		}
	}
	return lines
}

// Every act on a connection is in the audit log once, with the resulting version. Refreshes are not.
func TestAudit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, browser := f.consent(t, scope.All)
	if _, err := f.Deny(t.Context(), id, browser); err != nil {
		t.Fatal(err)
	}
	tokens := f.connect(t, scope.All)
	next := f.refresh(t, tokens)
	f.noGrant(t, tokens) // a replay
	f.noGrant(t, tokens) // of what is revoked already
	f.noGrant(t, next)

	tokens = f.connect(t, scope.All)
	for range 2 {
		if err := f.Revoke(t.Context(), f.as(f.client.ID), tokens.AccessToken); err != nil {
			t.Fatal(err)
		}
		if err := f.Revoke(t.Context(), f.as(f.client.ID), tokens.RefreshToken); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Disconnect(t.Context(), f.as(f.client.ID), tokens.GrantID); err != nil {
		t.Fatal(err)
	}
	f.connect(t, scope.DailySteps)
	if err := f.DisconnectUser(t.Context(), f.user, f.client.ID); err != nil {
		t.Fatal(err)
	}
	// Ended already: the version rises again, and that is all.
	if err := f.DisconnectByOperator(t.Context(), f.user, f.client.ID); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"user consent.denied 0",
		"user consent.allowed 0", "client connection.authorized 1",
		"client connection.revoked 1 refresh_token_replayed",
		"user consent.allowed 1", "client connection.authorized 2",
		"client access_token.revoked 2",
		"client connection.revoked 2 refresh_token_revoked",
		"client connection.disconnected 3",
		"user consent.allowed 3", "client connection.authorized 4",
		"user connection.disconnected 5",
	}
	if diff := cmp.Diff(want, f.audited(t)); diff != "" {
		t.Errorf("audit log (-want +got):\n%s", diff)
	}

	// All of it is found by the user, of whom it says nothing else.
	ofUser, err := audit.New(f.db.Pool, wait.Patient, 0).List(t.Context(), audit.Filter{UserID: f.user}, page.Key{}, 1000)
	if err != nil || len(ofUser.Events) != len(want) {
		t.Errorf("%d events of the user, want %d: %v", len(ofUser.Events), len(want), err)
	}
	whole := pgtest.Value[string](t, f.db, "select string_agg(e::text, ' ') from audit_log e")
	for _, secret := range []string{tokens.AccessToken, tokens.RefreshToken, "svcr", "svca", "svcc", "@"} {
		if strings.Contains(whole, secret) {
			t.Errorf("the log holds %s", secret)
		}
	}
}

// A refused act is not audited.
func TestAuditOfRefusals(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	code := f.code(t, scope.All)
	if _, err := f.exchange(t, code); err != nil {
		t.Fatal(err)
	}
	before := f.audited(t)
	if _, err := f.exchange(t, code); !errors.Is(err, ErrInvalidGrant) {
		t.Errorf("a used code: %v", err)
	}
	id, browser := f.consent(t, scope.DailySteps) // not the connection's scopes
	if _, err := f.Allow(t.Context(), id, browser, ""); !errors.Is(err, ErrRequestEnded) {
		t.Errorf("other scopes: %v", err)
	}
	if _, err := f.Deny(t.Context(), id, newBrowser()); !errors.Is(err, ErrRequestEnded) {
		t.Errorf("another browser: %v", err)
	}
	if diff := cmp.Diff(before, f.audited(t)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}
