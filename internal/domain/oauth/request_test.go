package oauth

import (
	"errors"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

// ask brings a request to its first page, in a browser of its own.
func (f *fixture) ask(t testing.TB) (SealedRequest, [32]byte) {
	t.Helper()
	browser := newBrowser()
	asked, err := f.Authorize(t.Context(), f.query(scope.All).Encode(), 1000, browser)
	if err != nil {
		t.Fatal(err)
	}
	return asked, browser
}

// Before sign-in a request is stored only in its browser, and ends like any other.
func TestSealedRequestIsNotStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	asked, browser := f.ask(t)
	request, err := f.OpenRequest(t.Context(), asked, browser)
	if err != nil || request.SignedIn || request.Partner.ClientID != f.client.ID || request.CallbackURL != callback || request.Scopes != scope.All {
		t.Errorf("%+v, %v", request, err)
	}
	location, err := f.DenySealed(t.Context(), asked, browser)
	if err != nil || parameter(t, location, "error") != "access_denied" || parameter(t, location, "state") != state {
		t.Errorf("cancelled: %v", err)
	}
	if n := pgtest.Value[int](t, f.db, "select count(*)::int from authorization_requests"); n != 0 {
		t.Errorf("%d requests are stored", n)
	}
	for name, test := range map[string]struct {
		asked   SealedRequest
		browser [32]byte
	}{
		"another browser":           {asked, newBrowser()},
		"another request":           {SealedRequest{newRequest(t, f).ID, asked.Sealed}, browser},
		"altered":                   {SealedRequest{asked.ID, strings.Replace(asked.Sealed, asked.Sealed[20:21], "_", 1) + "A"}, browser},
		"a credential of a partner": {SealedRequest{asked.ID, f.code(t, scope.All)}, browser},
		"nothing":                   {SealedRequest{}, browser},
	} {
		f.refusesAll(t, name, test.asked, test.browser)
		if ending, err := f.Ending(t.Context(), test.asked, test.browser); err != nil || ending != (Ending{Cause: EndedElsewhere}) {
			t.Errorf("%s: %+v, %v", name, ending, err)
		}
	}
	f.db.Clock.Advance(10 * time.Minute)
	f.refusesAll(t, "expired", asked, browser)
	if ending, err := f.Ending(t.Context(), asked, browser); err != nil || ending.Cause != EndedByTime || ending.Partner.ClientID != f.client.ID {
		t.Errorf("expired: %+v, %v", ending, err)
	}
	asked, browser = f.ask(t)
	f.db.Exec(t, "update clients set callback_url = 'https://partner.example/new' where client_id = $1", f.client.ID)
	f.refusesAll(t, "another callback", asked, browser)
	if ending, err := f.Ending(t.Context(), asked, browser); err != nil || ending.Cause != EndedByPartner {
		t.Errorf("another callback: %+v, %v", ending, err)
	}
}

func newRequest(t testing.TB, f *fixture) SealedRequest {
	t.Helper()
	asked, _ := f.ask(t)
	return asked
}

// refusesAll checks that no act accepts a sealed request.
func (f *fixture) refusesAll(t *testing.T, name string, asked SealedRequest, browser [32]byte) {
	t.Helper()
	_, request := f.OpenRequest(t.Context(), asked, browser)
	_, deny := f.DenySealed(t.Context(), asked, browser)
	signIn := f.SignIn(t.Context(), asked, browser, newBrowser(), f.user)
	for act, err := range map[string]error{"request": request, "deny": deny, "sign-in": signIn} {
		if !errors.Is(err, ErrRequestEnded) {
			t.Errorf("%s: %s: %v", name, act, err)
		}
	}
}

// A request is decided once, by the user or by the end of the user's address, although its browser still has it.
func TestRequestIsDecidedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, decide := range map[string]func(SealedRequest, [32]byte) error{
		"allowed":  func(a SealedRequest, b [32]byte) error { _, err := f.Allow(t.Context(), a.ID, b, ""); return err },
		"denied":   func(a SealedRequest, b [32]byte) error { _, err := f.Deny(t.Context(), a.ID, b); return err },
		"in a tab": func(a SealedRequest, b [32]byte) error { _, err := f.DenySealed(t.Context(), a, b); return err },
		"by the end of the address": func(SealedRequest, [32]byte) error {
			f.db.Exec(t, "update authorization_requests set decided = true, user_id = null, session_hash = null, consent_day = null where user_id = $1", f.user)
			return nil
		},
	} {
		asked, browser := f.ask(t)
		if err := f.SignIn(t.Context(), asked, browser, browser, f.user); err != nil {
			t.Fatal(err)
		}
		if err := decide(asked, browser); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for act, err := range map[string]error{
			"sign-in": f.SignIn(t.Context(), asked, browser, browser, f.user),
			"another": f.SignIn(t.Context(), asked, browser, newBrowser(), f.newUser(t, "UTC")),
			"deny":    func() error { _, err := f.DenySealed(t.Context(), asked, browser); return err }(),
			"allow":   func() error { _, err := f.Allow(t.Context(), asked.ID, browser, ""); return err }(),
		} {
			if again := name == "allowed" && act == "allow" || act == "deny" && (name == "denied" || name == "in a tab"); again {
				if err != nil {
					t.Errorf("%s again: %v", name, err)
				}
			} else if !errors.Is(err, ErrRequestEnded) {
				t.Errorf("%s: %s: %v", name, act, err)
			}
		}
	}
}

// A sealed session opens as what it is and as nothing else.
func TestSealedSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	asked, browser := f.ask(t)
	session := Session{RequestID: asked.ID, UserID: f.user, Browser: browser, Secret: [32]byte{1, 2, 3}}
	sealed, err := f.SealSession(session)
	if err != nil {
		t.Fatal(err)
	}
	if opened, err := f.OpenSession(sealed); err != nil || opened != session {
		t.Errorf("%v, %v", opened.UserID, err)
	}
	for _, other := range []string{"", asked.Sealed, sealed + "A", "A" + sealed, f.code(t, scope.All)} {
		if _, err := f.OpenSession(other); err == nil {
			t.Errorf("%d characters open as a session", len(other))
		}
	}
}
