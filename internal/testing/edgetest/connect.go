package edgetest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/oauth"
	"connect-svc/internal/scope"
	"connect-svc/internal/testing/pgtest"
)

const (
	// State has all kinds of characters that the address of the callback has to escape.
	State = "st~ate-with+odd/&=%chars;'\"<>"
	// Verifier is the one of all authorization requests (RFC 7636, appendix B).
	Verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
)

// AuthorizationQuery is a valid authorization request of a partner.
func AuthorizationQuery(of pgtest.Client, scopes scope.Set) url.Values {
	return url.Values{
		"client_id":             {of.ID.String()},
		"redirect_uri":          {of.CallbackURL},
		"response_type":         {"code"},
		"scope":                 {scopes.String()},
		"state":                 {State},
		"code_challenge":        {Challenge(Verifier)},
		"code_challenge_method": {"S256"},
	}
}

// Challenge is what everybody may know of a verifier.
func Challenge(verifier string) string {
	hash := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(hash[:])
}

// Code has the user sign in and allow what a partner asks for, in a browser of its own, and returns the authorization code.
func (b Backend) Code(t testing.TB, of pgtest.Client, scopes scope.Set) string {
	t.Helper()
	ctx := t.Context()
	var browser [sha256.Size]byte
	_, _ = rand.Read(browser[:])
	var location string
	request, err := b.OAuth.Authorize(ctx, AuthorizationQuery(of, scopes).Encode(), 1000, browser)
	for _, step := range []func() error{
		func() error { return err },
		func() error { return b.OAuth.SignIn(ctx, request, browser, browser, b.User.ID) },
		func() (err error) { _, err = b.OAuth.Consent(ctx, request.ID, browser); return err },
		func() (err error) { location, err = b.OAuth.Allow(ctx, request.ID, browser); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	callback, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	return callback.Query().Get("code")
}

// Connect goes on to tokens.
func (b Backend) Connect(t testing.TB, of pgtest.Client, scopes scope.Set) oauth.Tokens {
	t.Helper()
	tokens, err := b.OAuth.Exchange(t.Context(), Credentials(of), oauth.ExchangeParams{
		Code: b.Code(t, of, scopes), RedirectURI: of.CallbackURL, CodeVerifier: Verifier,
	})
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// ConnectNew registers a partner of a name, and connects the user with it to everything.
func (b Backend) ConnectNew(t testing.TB, name string) (pgtest.Client, oauth.Tokens) {
	t.Helper()
	partner := b.DB.Client(t, func(c *pgtest.Client) { c.Name = name })
	return partner, b.Connect(t, partner, scope.All)
}

// Disconnect ends the user's connection with a partner, as the user does.
func (b Backend) Disconnect(t testing.TB, partner uuid.UUID) {
	t.Helper()
	if err := b.OAuth.DisconnectUser(t.Context(), b.User.ID, partner); err != nil {
		t.Fatal(err)
	}
}

// Credentials are a partner's.
func Credentials(of pgtest.Client) oauth.Credentials {
	return oauth.Credentials{ClientID: of.ID, SecretHash: of.SecretHash()}
}

// Basic authenticates as a client, whether or not there is one (RFC 6749, section 2.3.1).
func Basic(id, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))
}

// BasicOf authenticates as a partner.
func BasicOf(of pgtest.Client) string { return Basic(of.ID.String(), of.Secret) }
