package e2e

import (
	"crypto/sha256"
	"errors"
	"net/url"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/app"
	"connect-svc/internal/oauth"
	"connect-svc/internal/scope"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// Consenting is a request at which the user has to decide, and its browser.
func Consenting(t testing.TB, a *app.App, partner pgtest.Client, user pgtest.User) (id uuid.UUID, browser [sha256.Size]byte) {
	t.Helper()
	query := edgetest.AuthorizationQuery(partner, scope.All).Encode()
	browser = sha256.Sum256([]byte(t.Name()))
	asked, err := a.OAuth.Authorize(t.Context(), query, len(query), browser)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.OAuth.SignIn(t.Context(), asked, browser, browser, user.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := a.OAuth.Consent(t.Context(), asked.ID, browser); err != nil {
		t.Fatal(err)
	}
	return asked.ID, browser
}

// Authorized goes through consent and returns the code.
func Authorized(t testing.TB, a *app.App, partner pgtest.Client, user pgtest.User) string {
	t.Helper()
	id, browser := Consenting(t, a, partner, user)
	location, err := a.OAuth.Allow(t.Context(), id, browser)
	if errors.Is(err, oauth.ErrRequestEnded) { // the day was over in between, and with it what was consented to
		id, browser = Consenting(t, a, partner, user)
		location, err = a.OAuth.Allow(t.Context(), id, browser)
	}
	if err != nil {
		t.Fatal(err)
	}
	callback, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	return callback.Query().Get("code")
}

// Exchange exchanges a code of [Authorized].
func Exchange(t testing.TB, a *app.App, partner pgtest.Client, code string) oauth.Tokens {
	t.Helper()
	tokens, err := a.OAuth.Exchange(t.Context(), edgetest.Credentials(partner), oauth.ExchangeParams{
		Code: code, RedirectURI: partner.CallbackURL, CodeVerifier: edgetest.Verifier,
	})
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}
