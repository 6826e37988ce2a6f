package oauth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// fixture is an authorization server on its own database, with one client and one user.
type fixture struct {
	*Server
	db       *pgtest.DB
	registry *client.Registry
	client   client.Client
	user     uuid.UUID
	secrets  sync.Map // of every client, by its id
}

const callback = "https://partner.example/callback?tenant=7"

// start is when the clock of a fixture begins: noon in UTC, 13:00 in the user's time zone.
var start = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

func newFixture(t testing.TB) *fixture {
	t.Helper()
	db := pgtest.New(t)
	db.StartAt(t, start)
	settings := DefaultSettings
	settings.Now, settings.Limits = db.Now, wait.Patient
	f := &fixture{
		Server:   New(db.Pool, credential.NewTestKeyring(), settings),
		db:       db,
		registry: client.NewRegistry(db.Pool, EndConnectionsOfClient),
	}
	f.client = f.newClient(t)
	f.user = f.newUser(t, "Europe/Berlin")
	return f
}

func (f *fixture) newClient(t testing.TB) client.Client {
	t.Helper()
	created, secret, err := f.registry.Create(t.Context(), client.Registration{
		Name: "Ride Club", CallbackURL: callback, Scopes: scope.All, Policy: client.DefaultPolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.secrets.Store(created.ID, secret)
	return created
}

// as is a client with its own secret.
func (f *fixture) as(clientID uuid.UUID) Credentials {
	secret, _ := f.secrets.Load(clientID)
	return Credentials{clientID, [32]byte(credential.Hash(secret.(string)))}
}

func (f *fixture) newUser(t testing.TB, timezone string) uuid.UUID {
	t.Helper()
	id := uuid.New()
	f.db.Exec(t, `insert into users (user_id, email, timezone, registered_on, created_at)
		values ($1, $2, $3, '2020-01-01', connect_now())`, id, id.String()+"@example.com", timezone)
	return id
}

// browser is one browser of one user.
func newBrowser() (hash [sha256.Size]byte) {
	_, _ = rand.Read(hash[:])
	return hash
}

const (
	state    = "st~ate-with+odd/&=%chars;'\"<>"
	verifier = "a-verifier.of_at~least-43-characters-0123456789"
)

func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// query is a valid authorization request of a client.
func (f *fixture) query(scopes scope.Set) url.Values {
	return url.Values{
		"client_id":             {f.client.ID.String()},
		"redirect_uri":          {callback},
		"response_type":         {"code"},
		"scope":                 {scopes.String()},
		"state":                 {state},
		"code_challenge":        {challenge(verifier)},
		"code_challenge_method": {"S256"},
	}
}

// consent brings a request to the consent page, in a browser of its own.
func (f *fixture) consent(t testing.TB, scopes scope.Set) (uuid.UUID, [sha256.Size]byte) {
	t.Helper()
	id, browser := f.signedIn(t, scopes)
	if _, err := f.Consent(t.Context(), id, browser); err != nil {
		t.Fatal(err)
	}
	return id, browser
}

func (f *fixture) signedIn(t testing.TB, scopes scope.Set) (uuid.UUID, [sha256.Size]byte) {
	t.Helper()
	browser := newBrowser()
	asked, err := f.Authorize(t.Context(), f.query(scopes).Encode(), 1000, browser)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.SignIn(t.Context(), asked, browser, browser, f.user); err != nil {
		t.Fatal(err)
	}
	return asked.ID, browser
}

// code goes through consent and returns the code.
func (f *fixture) code(t testing.TB, scopes scope.Set) string {
	t.Helper()
	id, browser := f.consent(t, scopes)
	location, err := f.Allow(t.Context(), id, browser, "")
	if err != nil {
		t.Fatal(err)
	}
	return parameter(t, location, "code")
}

// fataler is what *testing.T and *rapid.T have in common here.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func parameter(t fataler, location, name string) string {
	t.Helper()
	parsed, err := url.Parse(location)
	if err != nil || parsed.Query().Get(name) == "" {
		t.Fatalf("no %s in the redirect: %v", name, err)
	}
	return parsed.Query().Get(name)
}

func (f *fixture) exchange(t testing.TB, code string) (Tokens, error) {
	t.Helper()
	return f.Exchange(t.Context(), f.as(f.client.ID), ExchangeParams{Code: code, RedirectURI: callback, CodeVerifier: verifier})
}

// connect goes all the way to tokens.
func (f *fixture) connect(t testing.TB, scopes scope.Set) Tokens {
	t.Helper()
	tokens, err := f.exchange(t, f.code(t, scopes))
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func (f *fixture) refresh(t testing.TB, tokens Tokens) Tokens {
	t.Helper()
	next, err := f.Refresh(t.Context(), f.as(f.client.ID), tokens.RefreshToken)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// works and dead say whether an access token gives access.
func (f *fixture) works(t testing.TB, tokens Tokens) {
	t.Helper()
	if _, err := f.Authenticate(t.Context(), tokens.AccessToken); err != nil {
		t.Errorf("the access token of version %d does not work: %v", tokens.ConnectionVersion, err)
	}
}

// reads records a read by an access token of what a scope grants.
func (f *fixture) reads(t testing.TB, tokens Tokens, of scope.Set) {
	t.Helper()
	f.asks(t, tokens, of)
	f.Server.reads.Flush(t.Context())
}

// asks is reads, but the read waits to be recorded.
func (f *fixture) asks(t testing.TB, tokens Tokens, of scope.Set) {
	t.Helper()
	access, err := f.Authenticate(t.Context(), tokens.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	f.RecordRead(&access, of)
}

func (f *fixture) dead(t testing.TB, tokens Tokens) {
	t.Helper()
	if _, err := f.Authenticate(t.Context(), tokens.AccessToken); !errors.Is(err, ErrInvalidAccessToken) {
		t.Errorf("the access token of version %d: %v", tokens.ConnectionVersion, err)
	}
}

func (f *fixture) noGrant(t testing.TB, tokens Tokens) {
	t.Helper()
	want := ErrInvalidGrant
	if pgtest.Value[string](t, f.db, "select status from clients where client_id = $1", f.client.ID) != "active" {
		want = ErrInvalidClient
	}
	if _, err := f.Refresh(t.Context(), f.as(f.client.ID), tokens.RefreshToken); !errors.Is(err, want) {
		t.Errorf("the refresh token of version %d: %v", tokens.ConnectionVersion, err)
	}
}
