package oauth

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

// changes is what the acts of a request may change: nothing of it may happen twice.
func (f *fixture) changes(t *testing.T) string {
	t.Helper()
	return pgtest.Value[string](t, f.db, `select concat_ws(' ',
		(select string_agg(c::text, ' ' order by c.client_id) from connections c), (select count(*) from audit_log),
		(select count(*) from notices), (select count(*) from webhook_events),
		(select string_agg(r::text, ' ' order by r.request_id) from authorization_requests r))`)
}

// TestAllowAgain: a second Allow has a code that works, of the same connection version and the same day. Nothing happens twice, and of the
// two codes the first exchanged lives.
func TestAllowAgain(t *testing.T) {
	t.Parallel()
	for name, connected := range map[string]bool{"first connection": false, "renewed": true} {
		for _, exchanged := range []int{0, 1} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				day := "2026-03-10"
				version := int64(1)
				if connected {
					f.connect(t, scope.All)
					f.db.Clock.Advance(48 * time.Hour)
					version = 2
				}
				id, browser := f.consent(t, scope.All)
				codes := make([]string, 2)
				var before string
				for i := range codes {
					location, err := f.Allow(t.Context(), id, browser, "")
					if err != nil {
						t.Fatal(err)
					}
					codes[i] = parameter(t, location, "code")
					if parameter(t, location, "state") != state {
						t.Error("another state")
					}
					if i == 0 {
						before = f.changes(t)
					}
				}
				if after := f.changes(t); after != before {
					t.Errorf("the second Allow changes\n%s to\n%s", before, after)
				}
				tokens, err := f.exchange(t, codes[exchanged])
				if err != nil {
					t.Fatal(err)
				}
				if tokens.ConnectionVersion != version || tokens.HistoryFrom.Format(time.DateOnly) != day {
					t.Errorf("version %d from %s on", tokens.ConnectionVersion, tokens.HistoryFrom)
				}
				if _, err := f.exchange(t, codes[1-exchanged]); !errors.Is(err, ErrInvalidGrant) {
					t.Errorf("the other code: %v", err)
				}
				f.works(t, tokens)
				if _, err := f.Allow(t.Context(), id, browser, ""); !errors.Is(err, ErrRequestEnded) {
					t.Errorf("after the exchange: %v", err)
				}
			})
		}
	}
}

// TestAllowAgainIsNotLonger: the second code expires with the first, also if it was issued after the user's midnight. A later click
// gets none. It keeps the day on which the consent was shown.
func TestAllowAgainIsNotLonger(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.db.SetTime(time.Date(2026, 3, 10, 22, 59, 30, 0, time.UTC)) // half a minute before midnight in Berlin
	id, browser := f.consent(t, scope.All)
	again := func() string {
		t.Helper()
		location, err := f.Allow(t.Context(), id, browser, "")
		if err != nil {
			t.Fatal(err)
		}
		return parameter(t, location, "code")
	}
	again()
	f.db.Clock.Advance(119 * time.Second)
	late := again()
	f.db.Clock.Advance(2 * time.Second)
	if _, err := f.exchange(t, late); !errors.Is(err, ErrInvalidGrant) {
		t.Errorf("a code of another 120 seconds: %v", err)
	}
	if _, err := f.Allow(t.Context(), id, browser, ""); !errors.Is(err, ErrRequestEnded) {
		t.Errorf("after the code has expired: %v", err)
	}

	f.db.SetTime(time.Date(2026, 3, 10, 22, 59, 30, 0, time.UTC))
	id, browser = f.consent(t, scope.All)
	again()
	f.db.Clock.Advance(time.Minute)
	tokens, err := f.exchange(t, again())
	if err != nil || tokens.HistoryFrom.Format(time.DateOnly) != "2026-03-10" {
		t.Errorf("after midnight: from %s on, %v", tokens.HistoryFrom, err)
	}
}

// TestAllowAgainElsewhere: only the session that has allowed gets the result again, and only while nothing has ended what it is about.
func TestAllowAgainElsewhere(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *fixture) error{
		"disabled": func(t *testing.T, f *fixture) error { return f.registry.Disable(t.Context(), f.client.ID) },
		"disconnected": func(t *testing.T, f *fixture) error {
			return f.DisconnectUser(t.Context(), f.user, f.client.ID)
		},
		"another address": func(t *testing.T, f *fixture) error {
			return f.queries.EndRequestsOfUsers(t.Context(), []uuid.UUID{f.user})
		},
		"another callback": func(t *testing.T, f *fixture) error {
			f.db.Exec(t, "update clients set callback_url = 'https://partner.example/new'")
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.connect(t, scope.All)
			id, browser := f.consent(t, scope.All)
			if _, err := f.Allow(t.Context(), id, browser, ""); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Allow(t.Context(), id, newBrowser(), ""); !errors.Is(err, ErrRequestEnded) {
				t.Errorf("another browser: %v", err)
			}
			if _, err := f.Allow(t.Context(), id, browser, ""); err != nil {
				t.Errorf("the same browser: %v", err)
			}
			if err := end(t, f); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Allow(t.Context(), id, browser, ""); !errors.Is(err, ErrRequestEnded) {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestDenyAgain: a second denial leads to the same address, and is not audited.
func TestDenyAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, browser := f.consent(t, scope.All)
	first, err := f.Deny(t.Context(), id, browser)
	if err != nil {
		t.Fatal(err)
	}
	before := f.changes(t)
	if again, err := f.Deny(t.Context(), id, browser); again != first || err != nil {
		t.Errorf("again: %q, %v", again, err)
	}
	if after := f.changes(t); after != before {
		t.Errorf("the second denial changes\n%s to\n%s", before, after)
	}
	if _, err := f.Deny(t.Context(), id, newBrowser()); !errors.Is(err, ErrRequestEnded) {
		t.Errorf("another browser: %v", err)
	}
}

// TestDisconnectAgain: a second "Disconnect" leads to the same address, and ends nothing that began in between. If the connection was not ended
// the first time, it is the second time.
func TestDisconnectAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old := f.connect(t, scope.DailySteps)
	id, browser := f.consent(t, scope.All)
	first, err := f.DenyAndDisconnect(t.Context(), id, browser)
	if err != nil {
		t.Fatal(err)
	}
	f.dead(t, old)
	tokens := f.connect(t, scope.All)
	before := f.changes(t)
	if again, err := f.DenyAndDisconnect(t.Context(), id, browser); again != first || err != nil {
		t.Errorf("again: %q, %v", again, err)
	}
	if after := f.changes(t); after != before {
		t.Errorf("the second one changes\n%s to\n%s", before, after)
	}
	f.works(t, tokens)

	id, browser = f.consent(t, scope.DailySteps)
	f.db.Exec(t, `update authorization_requests set decided = true, decision = 'disconnect', decided_version = $1 where request_id = $2`,
		tokens.ConnectionVersion, id) // the server was killed at this point
	if _, err := f.DenyAndDisconnect(t.Context(), id, browser); err != nil {
		t.Error(err)
	}
	f.dead(t, tokens)
	if n := pgtest.Value[int](t, f.db, "select count(*)::int from audit_log where action = 'consent.denied'"); n != 1 {
		t.Errorf("%d denials", n)
	}
}

// TestDayOfTheSignIn: the day of a request is that of the sign-in, so the page of the consent stores nothing.
func TestDayOfTheSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.db.SetTime(time.Date(2026, 3, 10, 22, 59, 30, 0, time.UTC))
	id, browser := f.signedIn(t, scope.All)
	before := f.changes(t)
	if _, err := f.Consent(t.Context(), id, browser); err != nil {
		t.Fatal(err)
	}
	if after := f.changes(t); after != before {
		t.Errorf("the consent changes\n%s to\n%s", before, after)
	}
	f.db.Clock.Advance(time.Minute)
	if _, err := f.Consent(t.Context(), id, browser); !errors.Is(err, ErrDayOver) {
		t.Errorf("after midnight: %v", err)
	}
	if _, err := f.Allow(t.Context(), id, browser, ""); !errors.Is(err, ErrDayOver) {
		t.Errorf("allow after midnight: %v", err)
	}
	// A server of release 1.0.0 stores no day of the sign-in.
	f.db.Exec(t, "update authorization_requests set consent_day = null")
	location, err := f.Allow(t.Context(), id, browser, "")
	if err != nil {
		t.Fatal(err)
	}
	if tokens, err := f.exchange(t, parameter(t, location, "code")); err != nil || tokens.HistoryFrom.Format(time.DateOnly) != "2026-03-11" {
		t.Errorf("from %s on, %v", tokens.HistoryFrom, err)
	}
}

// TestDayOfThePage: a server of release 1.0.0 stores no day of the sign-in, and allows a request only on the day that a page has stored.
func TestDayOfThePage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.db.SetTime(time.Date(2026, 3, 10, 22, 59, 30, 0, time.UTC))
	id, browser := f.signedIn(t, scope.All)
	f.db.Exec(t, "update authorization_requests set consent_day = null")
	if _, err := f.Consent(t.Context(), id, browser); err != nil {
		t.Fatal(err)
	}
	if day := pgtest.Value[string](t, f.db, "select coalesce(consent_day::text, 'none') from authorization_requests"); day != "2026-03-10" {
		t.Errorf("the page stores the day %s", day)
	}
	f.db.Clock.Advance(time.Minute)
	if _, err := f.Allow(t.Context(), id, browser, ""); !errors.Is(err, ErrDayOver) {
		t.Errorf("allow after midnight: %v", err)
	}
}
