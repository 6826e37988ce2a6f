package edgetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
	"github.com/google/uuid"
)

const (
	// State has all kinds of characters that the address of the callback has to escape.
	State = "st~ate-with+odd/&=%chars;'\"<>"
	// Verifier is the one of all authorization requests (RFC 7636, appendix B).
	Verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
)

// AuthorizationQuery is a valid authorization request of a partner.
func AuthorizationQuery(partner pgtest.Client, scopes scope.Set) url.Values {
	return url.Values{
		"client_id":             {partner.ID.String()},
		"redirect_uri":          {partner.CallbackURL},
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

// Consenting is a request of a partner at which the user has to decide, and the user's browser.
func Consenting(t testing.TB, server *oauth.Server, partner pgtest.Client, scopes scope.Set, user uuid.UUID) (uuid.UUID, [sha256.Size]byte) {
	t.Helper()
	query := AuthorizationQuery(partner, scopes).Encode()
	browser := sha256.Sum256([]byte(rand.Text()))
	request, err := server.Authorize(t.Context(), query, len(query), browser)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.SignIn(t.Context(), request, browser, browser, user); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Consent(t.Context(), request.ID, browser); err != nil {
		t.Fatal(err)
	}
	return request.ID, browser
}

// Code has a user sign in and allow what a partner asks for, in a browser of its own, and returns the authorization code.
func Code(t testing.TB, server *oauth.Server, partner pgtest.Client, scopes scope.Set, user uuid.UUID) string {
	t.Helper()
	id, browser := Consenting(t, server, partner, scopes, user)
	location, err := server.Allow(t.Context(), id, browser, "")
	if errors.Is(err, oauth.ErrRequestEnded) { // the day was over in between, and with it what was consented to
		id, browser = Consenting(t, server, partner, scopes, user)
		location, err = server.Allow(t.Context(), id, browser, "")
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

// Exchange exchanges a code of [Code].
func Exchange(t testing.TB, server *oauth.Server, partner pgtest.Client, code string) oauth.Tokens {
	t.Helper()
	tokens, err := server.Exchange(t.Context(), Credentials(partner), oauth.ExchangeParams{
		Code: code, RedirectURI: partner.CallbackURL, CodeVerifier: Verifier,
	})
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// Connect connects a user with a partner.
func Connect(t testing.TB, server *oauth.Server, partner pgtest.Client, scopes scope.Set, user uuid.UUID) oauth.Tokens {
	t.Helper()
	return Exchange(t, server, partner, Code(t, server, partner, scopes, user))
}

// Code is [Code] of the backend's user.
func (b Backend) Code(t testing.TB, partner pgtest.Client, scopes scope.Set) string {
	t.Helper()
	return Code(t, b.OAuth, partner, scopes, b.User.ID)
}

// Connect is [Connect] of the backend's user.
func (b Backend) Connect(t testing.TB, partner pgtest.Client, scopes scope.Set) oauth.Tokens {
	t.Helper()
	return Connect(t, b.OAuth, partner, scopes, b.User.ID)
}

// Read records that a partner reads what a scope grants.
func (b Backend) Read(t testing.TB, tokens oauth.Tokens, scopes scope.Set) {
	t.Helper()
	access, err := b.OAuth.Authenticate(t.Context(), tokens.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	b.OAuth.RecordRead(&access, scopes)
	b.RecordReads(t)
}

// RecordReads records the reads that wait for it, as the service does when it stops.
func (b Backend) RecordReads(t testing.TB) {
	t.Helper()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	b.OAuth.Run(stopped)
}

// ConnectNew registers a partner of a name, and connects the user with it to everything.
func (b Backend) ConnectNew(t testing.TB, name string) (pgtest.Client, oauth.Tokens) {
	t.Helper()
	partner := b.DB.Client(t, func(c *pgtest.Client) { c.Name = name })
	return partner, b.Connect(t, partner, scope.All)
}

// Credentials are a partner's.
func Credentials(partner pgtest.Client) oauth.Credentials {
	return oauth.Credentials{ClientID: partner.ID, SecretHash: partner.SecretHash()}
}

// Basic authenticates as a client, whether or not there is one (RFC 6749, section 2.3.1).
func Basic(id, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))
}

// BasicOf authenticates as a partner.
func BasicOf(partner pgtest.Client) string { return Basic(partner.ID.String(), partner.Secret) }

// Tokens of operators: the one without a name, ada's and grace's.
const (
	UnnamedToken = "0123456789abcdef0123456789abcdef"
	AdaToken     = "svco_ada-ada-ada-ada-ada-ada-ada-ada"
	GraceToken   = "svco_grace-grace-grace-grace-grace"
)

// Operators are the holder of the token without a name, ada, who may change things, and grace, who may look at them.
func Operators(t testing.TB) *operators.Tokens {
	t.Helper()
	return Tokens(t, "ada write", AdaToken, "grace read", GraceToken)
}

// Tokens are the token without a name, and those of a file with these lines: pairs of a name with its right, and a token.
func Tokens(t testing.TB, lines ...string) *operators.Tokens {
	t.Helper()
	var text strings.Builder
	for i := 0; i < len(lines); i += 2 {
		fmt.Fprintf(&text, "%s sha256:%x\n", lines[i], credential.Hash(lines[i+1]))
	}
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := operators.New(credential.Hash(UnnamedToken), file)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}
