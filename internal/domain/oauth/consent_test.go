package oauth

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

// Specification 4.2: the registered query stays, the state comes back byte for byte.
func TestCallback_4_2(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, browser := f.consent(t, scope.All)
	location, err := f.Allow(t.Context(), id, browser, "")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(location, callback+"&state=") {
		t.Error("the callback does not begin as it was registered")
	}
	query, err := url.ParseQuery(location[strings.Index(location, "?")+1:])
	if err != nil {
		t.Fatal(err)
	}
	code := query["code"]
	if len(query) != 3 || query.Get("tenant") != "7" || query.Get("state") != state || len(code) != 1 ||
		!strings.HasPrefix(code[0], "svcc_") || len(code[0]) > 2048 {
		t.Errorf("the callback has other parameters than tenant, state and code")
	}

	id, browser = f.consent(t, scope.All)
	location, err = f.Deny(t.Context(), id, browser)
	if err != nil {
		t.Fatal(err)
	}
	if want := callback + "&state=" + url.QueryEscape(state) + "&error=access_denied"; location != want {
		t.Errorf("cancel goes to %q, want %q", location, want)
	}
	if got := callbackURL("https://a.example/cb", "s", "code", "c"); got != "https://a.example/cb?state=s&code=c" {
		t.Errorf("a callback without a query: %q", got)
	}
}

// Specification 3.1: a request ends when the user decided, and nothing else can be done with it.
func TestRequestEndsWithTheDecision_3_1(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, decide := range map[string]func(uuid.UUID, [32]byte) (string, error){
		"allow": func(id uuid.UUID, b [32]byte) (string, error) { return f.Allow(t.Context(), id, b, "") },
		"deny":  func(id uuid.UUID, b [32]byte) (string, error) { return f.Deny(t.Context(), id, b) },
	} {
		id, browser := f.consent(t, scope.All)
		if _, err := decide(id, browser); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		f.ended(t, name, id, browser, name)
	}
}

// ended checks that nothing can be done with a request, except for the acts that are named.
func (f *fixture) ended(t *testing.T, name string, id uuid.UUID, browser [32]byte, except ...string) {
	t.Helper()
	_, request := f.Request(t.Context(), id, browser)
	_, consent := f.Consent(t.Context(), id, browser)
	_, allow := f.Allow(t.Context(), id, browser, "")
	_, deny := f.Deny(t.Context(), id, browser)
	_, disconnect := f.DenyAndDisconnect(t.Context(), id, browser)
	signOut := f.SignOut(t.Context(), id, browser)
	if signOut != nil {
		t.Errorf("%s: sign-out: %v", name, signOut)
	}
	for act, err := range map[string]error{"request": request, "consent": consent, "allow": allow, "deny": deny, "disconnect": disconnect} {
		if !slices.Contains(except, act) && !errors.Is(err, ErrRequestEnded) {
			t.Errorf("%s: %s: %v", name, act, err)
		}
	}
}

// Specification 3.1: 10 minutes from the beginning, however far it went.
func TestRequestExpires_3_1(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, browser := f.consent(t, scope.All)
	other, otherBrowser := f.consent(t, scope.All)
	f.db.Clock.Advance(10*time.Minute - time.Second)
	if _, err := f.Allow(t.Context(), id, browser, ""); err != nil {
		t.Errorf("a second before the end: %v", err)
	}
	f.db.Clock.Advance(2 * time.Second)
	f.ended(t, "expired", other, otherBrowser)
	if err := f.Sweep(t.Context(), f.db.Now()); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int](t, f.db, "select count(*)::int from authorization_requests"); n != 0 {
		t.Errorf("%d requests after the sweep", n)
	}
}

// Specification 3.1: the code lives 120 seconds, less if the request ends sooner.
func TestCodeExpires_3_1(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		before      time.Duration // from the request to Allow
		after       time.Duration // from Allow to the exchange
		wantExpired bool
	}{
		{"within 120 s", 0, 119 * time.Second, false},
		{"after 120 s", 0, 121 * time.Second, true},
		{"request ends sooner, before", 9 * time.Minute, 58 * time.Second, false},
		{"request ends sooner, after", 9 * time.Minute, 62 * time.Second, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			id, browser := f.consent(t, scope.All)
			f.db.Clock.Advance(test.before)
			location, err := f.Allow(t.Context(), id, browser, "")
			if err != nil {
				t.Fatal(err)
			}
			f.db.Clock.Advance(test.after)
			if _, err := f.exchange(t, parameter(t, location, "code")); errors.Is(err, ErrInvalidGrant) != test.wantExpired {
				t.Errorf("exchange: %v", err)
			}
		})
	}
}

// Specification 3.1: the consent ends with the user's calendar day, in the user's time zone.
func TestConsentEndsAtLocalMidnight_3_1(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		timezone  string
		at        time.Time // UTC, when the consent is shown
		wantDay   string
		wantEnded bool // four minutes later
	}{
		{"Europe/Berlin", time.Date(2026, 3, 10, 22, 58, 0, 0, time.UTC), "2026-03-10", true},
		{"Europe/Berlin", time.Date(2026, 3, 10, 23, 58, 0, 0, time.UTC), "2026-03-11", false},
		{"UTC", time.Date(2026, 3, 10, 23, 58, 0, 0, time.UTC), "2026-03-10", true},
		{"Pacific/Kiritimati", time.Date(2026, 3, 10, 9, 58, 0, 0, time.UTC), "2026-03-10", true},
		{"Pacific/Kiritimati", time.Date(2026, 3, 10, 10, 1, 0, 0, time.UTC), "2026-03-11", false},
		{"America/New_York", time.Date(2026, 3, 8, 6, 58, 0, 0, time.UTC), "2026-03-08", false}, // the clock change
	} {
		t.Run(test.timezone+" "+test.at.Format(time.TimeOnly), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.user = f.newUser(t, test.timezone)
			f.db.SetTime(test.at)
			id, browser := f.consent(t, scope.All)
			consent, err := f.Consent(t.Context(), id, browser)
			if err != nil {
				t.Fatal(err)
			}
			if got := consent.HistoryFrom.Format(time.DateOnly); got != test.wantDay {
				t.Errorf("first day %s, want %s", got, test.wantDay)
			}
			f.db.Clock.Advance(4 * time.Minute)
			location, err := f.Allow(t.Context(), id, browser, "")
			if errors.Is(err, ErrRequestEnded) != test.wantEnded {
				t.Fatalf("allow four minutes later: %v", err)
			}
			if test.wantEnded {
				f.ended(t, "after midnight", id, browser, "request")
				return
			}
			tokens, err := f.exchange(t, parameter(t, location, "code"))
			if err != nil {
				t.Fatal(err)
			}
			if got := tokens.HistoryFrom.Format(time.DateOnly); got != test.wantDay {
				t.Errorf("history_from %s, want %s", got, test.wantDay)
			}
		})
	}
}

// Specification 3.1 and decisions section 4: one browser cannot use another's request, and Allow needs a sign-in.
func TestConsentNeedsItsBrowserAndASignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, _ := f.consent(t, scope.All)
	f.ended(t, "another browser", id, newBrowser())

	browser := newBrowser()
	asked, err := f.Authorize(t.Context(), f.query(scope.All).Encode(), 1000, browser)
	if err != nil {
		t.Fatal(err)
	}
	id = asked.ID
	if _, err := f.Consent(t.Context(), id, browser); !errors.Is(err, ErrRequestEnded) {
		t.Errorf("consent without sign-in: %v", err)
	}
	if err := f.SignIn(t.Context(), asked, browser, browser, f.user); err != nil {
		t.Fatal(err)
	}
	if err := f.SignIn(t.Context(), asked, browser, browser, f.newUser(t, "UTC")); !errors.Is(err, ErrRequestEnded) {
		t.Errorf("a second sign-in: %v", err)
	}
	if _, err := f.Deny(t.Context(), id, browser); err != nil {
		t.Errorf("cancel: %v", err)
	}
}

// A change of the registration while the user decides ends the request, so that no browser is sent to a former callback.
func TestRequestEndsWithItsRegistration(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  string
		refusal error
	}{
		"disabled":           {`update clients set status = 'disabled' where client_id = $1`, ErrInvalidClient},
		"another callback":   {`update clients set callback_url = 'https://partner.example/new' where client_id = $1`, ErrInvalidGrant},
		"a scope taken away": {`update clients set scopes = 3 where client_id = $1`, ErrInvalidGrant},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			id, browser := f.consent(t, scope.All)
			code := f.code(t, scope.All)
			f.db.Exec(t, test.change, f.client.ID)
			if _, err := f.Allow(t.Context(), id, browser, ""); !errors.Is(err, ErrRequestEnded) {
				t.Errorf("allow: %v", err)
			}
			if _, err := f.exchange(t, code); !errors.Is(err, test.refusal) {
				t.Errorf("exchange: %v", err)
			}
		})
	}
}

// Specification 3.1: while a connection has not been disconnected, another scope set is refused.
func TestScopeMismatch_3_1(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*fixture, Tokens)
		want   bool
	}{
		{"authorized", func(*fixture, Tokens) {}, true},
		{"lapsed", func(f *fixture, _ Tokens) { f.db.Clock.Advance(91 * 24 * time.Hour) }, true},
		{"revoked", func(f *fixture, tokens Tokens) { _ = f.Revoke(t.Context(), f.as(f.client.ID), tokens.RefreshToken) }, true},
		{"disconnected", func(f *fixture, tokens Tokens) { _ = f.Disconnect(t.Context(), f.as(f.client.ID), tokens.GrantID) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			test.change(f, f.connect(t, scope.DailySteps))
			for _, scopes := range []scope.Set{scope.DailySteps, scope.All} {
				id, browser := f.signedIn(t, scopes)
				consent, err := f.Consent(t.Context(), id, browser)
				if err != nil {
					t.Fatal(err)
				}
				want := test.want && scopes != scope.DailySteps
				if consent.ScopeMismatch != want {
					t.Errorf("%s: mismatch %v, want %v", scopes, consent.ScopeMismatch, want)
				}
				if _, err := f.Allow(t.Context(), id, browser, ""); errors.Is(err, ErrRequestEnded) != want {
					t.Errorf("%s: allow: %v", scopes, err)
				}
			}
		})
	}
}
