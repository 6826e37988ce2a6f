package app

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/account"
	"connect-svc/internal/credential"
	"connect-svc/internal/oauth"
	"connect-svc/internal/scope"
	"connect-svc/internal/telemetry"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// serviceOn is a service on a database, with the keyset of a file. It is not running.
func serviceOn(t *testing.T, db *pgtest.DB, keyset string) *App {
	t.Helper()
	keys, err := credential.LoadKeyring(keyset)
	if err != nil {
		t.Fatal(err)
	}
	mailer, err := account.NewMailer("smtp://127.0.0.1:25", "no-reply@example.com")
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(t.Context(), Config{
		BaseURL:        "https://connect.example.com",
		DatabaseURL:    db.URL,
		Keys:           keys,
		Listen:         "127.0.0.1:0",
		PrivateListen:  "127.0.0.1:0",
		Mailer:         mailer,
		OAuth:          oauth.DefaultSettings,
		CursorLifetime: 15 * time.Minute,
		Clock:          db.Clock,
		Logger:         telemetry.NewLogger(t.Output(), slog.LevelWarn),
		Limits:         wait.Patient,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

const verifier = "a-verifier-of-at-least-forty-three-characters"

// consenting is a request at which the user has to decide, and its browser.
func consenting(t testing.TB, a *App, partner pgtest.Client, user pgtest.User) (id uuid.UUID, browser [sha256.Size]byte) {
	t.Helper()
	challenge := sha256.Sum256([]byte(verifier))
	query := url.Values{
		"client_id":             {partner.ID.String()},
		"redirect_uri":          {partner.CallbackURL},
		"response_type":         {"code"},
		"scope":                 {scope.All.String()},
		"state":                 {strings.Repeat("s", 22)},
		"code_challenge":        {base64.RawURLEncoding.EncodeToString(challenge[:])},
		"code_challenge_method": {"S256"},
	}.Encode()
	browser = sha256.Sum256([]byte(t.Name()))
	id, err := a.OAuth.Authorize(t.Context(), query, len(query), browser)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.OAuth.SignedIn(t.Context(), id, browser, browser, user.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := a.OAuth.Consent(t.Context(), id, browser); err != nil {
		t.Fatal(err)
	}
	return id, browser
}

// authorized goes through consent and returns the code.
func authorized(t testing.TB, a *App, partner pgtest.Client, user pgtest.User) string {
	t.Helper()
	id, browser := consenting(t, a, partner, user)
	location, err := a.OAuth.Allow(t.Context(), id, browser)
	if errors.Is(err, oauth.ErrRequestEnded) { // the day was over in between, and with it what was consented to
		id, browser = consenting(t, a, partner, user)
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

func exchange(t testing.TB, a *App, partner pgtest.Client, code string) oauth.Tokens {
	t.Helper()
	tokens, err := a.OAuth.Exchange(t.Context(), credentials(partner), oauth.ExchangeParams{
		Code: code, RedirectURI: partner.CallbackURL, CodeVerifier: verifier,
	})
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func credentials(of pgtest.Client) oauth.Credentials {
	return oauth.Credentials{ClientID: of.ID, SecretHash: of.SecretHash()}
}
