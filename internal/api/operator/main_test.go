package operator

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/account"
	"connect-svc/internal/activity"
	"connect-svc/internal/api/contract"
	"connect-svc/internal/audit"
	"connect-svc/internal/client"
	"connect-svc/internal/credential"
	"connect-svc/internal/oauth"
	"connect-svc/internal/operators"
	"connect-svc/internal/scope"
	"connect-svc/internal/telemetry"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/logtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
	"connect-svc/internal/usage"
	"connect-svc/internal/webhook"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	token      = "0123456789abcdef0123456789abcdef"
	adaToken   = "svco_ada-ada-ada-ada-ada-ada-ada-ada"
	graceToken = "svco_grace-grace-grace-grace-grace"
	verifier   = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
)

// start is when the clock of a fixture begins.
var start = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// fixture is the edge with everything behind it on a database of its own and one user. Every answer that it receives is
// held against the document.
type fixture struct {
	config Config
	db     *pgtest.DB
	user   pgtest.User
	url    string
	client *http.Client
	log    *logtest.Buffer
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{db: pgtest.New(t), log: new(logtest.Buffer)}
	f.db.Clock.Set(time.Until(start))
	f.user = f.db.User(t)
	keys := credential.NewTestKeyring()
	f.config = Config{
		Operators: newTokens(t, tokensFile(t)),
		Accounts: account.New(f.db.Pool, keys, nil, account.Settings{
			EndConnections: oauth.EndConnectionsOfUser, EndRequests: oauth.EndRequestsOfUsers,
			Limits: wait.Patient,
		}),
		Activity: activity.New(f.db.Pool, keys, activity.Settings{CursorLifetime: time.Minute}),
		OAuth:    oauth.New(f.db.Pool, keys, oauth.DefaultSettings),
		Clients:  client.NewRegistry(f.db.Pool, oauth.EndConnectionsOfClient),
		Webhooks: webhook.New(f.db.Pool, keys, webhook.Settings{
			AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, RootCAs: receiverCAs,
		}),
		Usage: usage.New(f.db.Pool, wait.Patient, slog.New(slog.DiscardHandler), f.db.Clock.Now),
		Audit: audit.New(f.db.Pool, wait.Patient, 0),
		Now:   f.db.Clock.Now,

		Limits: wait.Patient,
	}
	f.serve(t)
	return f
}

func newTokens(t testing.TB, file string) *operators.Tokens {
	t.Helper()
	tokens, err := operators.New(credential.Hash(token), file)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// tokensFile lets ada change, and grace look.
func tokensFile(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	text := fmt.Sprintf("ada write sha256:%x\ngrace read sha256:%x\n", credential.Hash(adaToken), credential.Hash(graceToken))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// serve serves what is configured now.
func (f *fixture) serve(t testing.TB) {
	t.Helper()
	handler, err := New(f.config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(telemetry.Requests(telemetry.NewLogger(f.log, slog.LevelDebug), handler))
	t.Cleanup(server.Close)
	f.url = server.URL
	f.client = &http.Client{Transport: contracttest.Operator.Transport(t, server.Client().Transport)}
}

// connect connects the user with a new client, as browser and backend do.
func (f *fixture) connect(t testing.TB, name string) (pgtest.Client, oauth.Tokens) {
	t.Helper()
	partner := f.db.Client(t, func(c *pgtest.Client) { c.Name = name })
	browser := sha256.Sum256([]byte(name))
	challenge := sha256.Sum256([]byte(verifier))
	request, err := f.config.OAuth.Authorize(t.Context(), url.Values{
		"client_id":             {partner.ID.String()},
		"redirect_uri":          {partner.CallbackURL},
		"response_type":         {"code"},
		"scope":                 {scope.All.String()},
		"state":                 {"0123456789012345678901"},
		"code_challenge":        {base64.RawURLEncoding.EncodeToString(challenge[:])},
		"code_challenge_method": {"S256"},
	}.Encode(), 1000, browser)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.config.OAuth.SignedIn(t.Context(), request, browser, browser, f.user.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := f.config.OAuth.Consent(t.Context(), request, browser); err != nil {
		t.Fatal(err)
	}
	location, err := f.config.OAuth.Allow(t.Context(), request, browser)
	if err != nil {
		t.Fatal(err)
	}
	answered, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := f.config.OAuth.Exchange(t.Context(), credentials(partner), oauth.ExchangeParams{
		Code: answered.Query().Get("code"), RedirectURI: partner.CallbackURL, CodeVerifier: verifier,
	})
	if err != nil {
		t.Fatal(err)
	}
	return partner, tokens
}

func credentials(of pgtest.Client) oauth.Credentials {
	return oauth.Credentials{ClientID: of.ID, SecretHash: of.SecretHash()}
}

// outgoing is a request with the token and, where it has a body, the content type, unless header says otherwise.
type outgoing struct {
	method, path, body string
	header             http.Header
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
	name   string            // of a problem, the last part of its type
	errors map[string]string // of a problem, details by pointer
}

func (f *fixture) send(t testing.TB, out outgoing) answer {
	t.Helper()
	var body io.Reader
	header := http.Header{"Authorization": {"Bearer " + token}}
	if out.body != "" {
		body = strings.NewReader(out.body)
		header.Set("Content-Type", "application/json")
	}
	request, err := http.NewRequestWithContext(t.Context(), out.method, f.url+out.path, body)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range out.header {
		header[name] = values
	}
	request.Header = header
	response, err := f.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	got := answer{status: response.StatusCode, header: response.Header, body: string(text)}
	if strings.HasSuffix(response.Header.Get("Content-Type"), "problem+json") && len(text) > 0 {
		var problem struct {
			Type   string
			Errors []struct{ Pointer, Detail string }
		}
		if err := json.Unmarshal(text, &problem); err != nil {
			t.Fatal(err)
		}
		got.name = strings.TrimPrefix(problem.Type, contract.TypePrefix)
		for _, e := range problem.Errors {
			if got.errors == nil {
				got.errors = map[string]string{}
			}
			got.errors[e.Pointer] = e.Detail
		}
	}
	return got
}

func (f *fixture) post(t testing.TB, path, body string) answer {
	t.Helper()
	return f.send(t, outgoing{method: "POST", path: path, body: body})
}

// check wants a status and the name of the problem, empty for none.
func (a answer) check(t testing.TB, what string, status int, name string) {
	t.Helper()
	if a.status != status || a.name != name {
		t.Errorf("%.200s: answer is %d %q, want %d %q", what, a.status, a.name, status, name)
	}
}

// wantErrors wants a 422 with these errors.
func (a answer) wantErrors(t testing.TB, what string, want map[string]string) {
	t.Helper()
	a.check(t, what, 422, "invalid-content")
	if diff := cmp.Diff(want, a.errors); diff != "" {
		t.Errorf("%.200s: errors (-want +got):\n%s", what, diff)
	}
}
