package partner

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/activity"
	"connect-svc/internal/client"
	"connect-svc/internal/credential"
	"connect-svc/internal/oauth"
	"connect-svc/internal/ratelimit"
	"connect-svc/internal/scope"
	"connect-svc/internal/telemetry"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/logtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// The tests of this package together produce every answer that the document has.
func TestMain(m *testing.M) { pgtest.Main(m, contracttest.Covered) }

const (
	baseURL  = "https://connect.example"
	callback = "https://partner.example/callback"
	verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	formText = "application/x-www-form-urlencoded"
)

// start is when the clock of a fixture begins; the calendar day of its connections.
var start = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// fixture is the edge with everything behind it on a database of its own, one client and one user in UTC. Every
// answer that it receives is held against the document.
type fixture struct {
	config  Config
	db      *pgtest.DB
	keys    *credential.Keyring
	clients *client.Registry
	client  partner
	user    uuid.UUID
	handler http.Handler
	url     string
	browser *http.Client
	log     *logtest.Buffer
}

// partner is a client with the secret that it was given.
type partner struct {
	client.Client
	secret string
}

func newFixture(t testing.TB, change ...func(*fixture)) *fixture {
	t.Helper()
	f := &fixture{db: pgtest.New(t), keys: credential.NewTestKeyring(), log: new(logtest.Buffer)}
	f.db.Clock.Set(time.Until(start))
	f.config = Config{
		BaseURL:  baseURL,
		OAuth:    oauth.New(f.db.Pool, f.keys, oauth.DefaultSettings),
		Activity: activity.New(f.db.Pool, f.keys, activity.Settings{CursorLifetime: 15 * time.Minute}),
		Limiter:  ratelimit.New(ratelimit.NewPostgres(f.db.Pool), wait.Patient.Limiter),
		Logger:   telemetry.NewLogger(f.log, slog.LevelDebug),
		Now:      f.db.Clock.Now,
		Limits:   wait.Patient,
	}
	f.clients = client.NewRegistry(f.db.Pool, oauth.EndConnectionsOfClient)
	f.client = f.newClient(t, client.Policy{RequestsPerMinute: 1000000, Burst: 1000000, ConcurrentReads: 10000})
	f.user = f.newUser(t)
	for _, c := range change {
		c(f)
	}
	f.serve(t)
	return f
}

// serve serves what is configured now.
func (f *fixture) serve(t testing.TB) {
	t.Helper()
	handler, err := New(f.config)
	if err != nil {
		t.Fatal(err)
	}
	f.handler = telemetry.Requests(f.config.Logger, handler)
	server := httptest.NewServer(f.handler)
	t.Cleanup(server.Close)
	f.url = server.URL
	f.browser = &http.Client{
		Transport:     contracttest.Partner.Transport(t, server.Client().Transport),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (f *fixture) newClient(t testing.TB, policy client.Policy) partner {
	t.Helper()
	created, secret, err := f.clients.Create(t.Context(), client.Registration{
		Name: "Ride Club", CallbackURL: callback, Scopes: scope.All, Policy: policy,
	})
	if err != nil {
		t.Fatal(err)
	}
	return partner{created, secret}
}

func (f *fixture) newUser(t testing.TB) uuid.UUID {
	t.Helper()
	id := uuid.New()
	f.db.Exec(t, `insert into users (user_id, email, timezone, registered_on, created_at)
		values ($1, $2, 'Etc/UTC', '2020-01-01', connect_now())`, id, id.String()+"@example.com")
	return id
}

// code goes through authorization and consent, as a browser would, and returns the code.
func (f *fixture) code(t testing.TB, of partner, scopes scope.Set) string {
	t.Helper()
	var browser [sha256.Size]byte
	_, _ = rand.Read(browser[:])
	challenge := sha256.Sum256([]byte(verifier))
	request, err := f.config.OAuth.Authorize(t.Context(), url.Values{
		"client_id":             {of.ID.String()},
		"redirect_uri":          {callback},
		"response_type":         {"code"},
		"scope":                 {scopes.String()},
		"state":                 {"0123456789012345678901"},
		"code_challenge":        {base64.RawURLEncoding.EncodeToString(challenge[:])},
		"code_challenge_method": {"S256"},
	}.Encode(), 1000, browser)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.config.OAuth.SignedIn(t.Context(), request, browser, browser, f.user); err != nil {
		t.Fatal(err)
	}
	if _, err := f.config.OAuth.Consent(t.Context(), request, browser); err != nil {
		t.Fatal(err)
	}
	location, err := f.config.OAuth.Allow(t.Context(), request, browser)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Query().Get("code")
}

// connect goes all the way to tokens.
func (f *fixture) connect(t testing.TB, of partner, scopes scope.Set) oauth.Tokens {
	t.Helper()
	tokens, err := f.config.OAuth.Exchange(t.Context(), of.credentials(), oauth.ExchangeParams{
		Code: f.code(t, of, scopes), RedirectURI: callback, CodeVerifier: verifier,
	})
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// call is a request to be sent.
type outgoing struct {
	method, target string
	header         http.Header
	body           string
	chunked        bool // without Content-Length
}

// answer is what came back.
type answer struct {
	status int
	code   string // of an error
	header http.Header
	body   string
}

func (f *fixture) send(t testing.TB, out outgoing) answer {
	t.Helper()
	var body io.Reader
	if out.body != "" {
		body = strings.NewReader(out.body)
	}
	if out.chunked {
		body = io.MultiReader(body) // of unknown length
	}
	request, err := http.NewRequestWithContext(t.Context(), out.method, f.url+out.target, body)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range out.header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	response, err := f.browser.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, errorCode(text), response.Header, string(text)}
}

// errorCode is the code of an error in either shape.
func errorCode(body []byte) string {
	var fields struct {
		Error json.RawMessage `json:"error"`
	}
	_ = json.Unmarshal(body, &fields)
	var code string
	if json.Unmarshal(fields.Error, &code) == nil {
		return code
	}
	var detail struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(fields.Error, &detail)
	return detail.Code
}

func (a answer) check(t testing.TB, status int, code string) {
	t.Helper()
	a.checkNamed(t, "the request", status, code)
}

func (a answer) checkNamed(t testing.TB, name string, status int, code string) {
	t.Helper()
	if a.status != status || a.code != code {
		t.Errorf("%s: answer is %d %q, want %d %q", name, a.status, a.code, status, code)
	}
}

func basic(id, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))
}

func (p partner) basic() string { return basic(p.ID.String(), p.secret) }

func (p partner) credentials() oauth.Credentials {
	return oauth.Credentials{ClientID: p.ID, SecretHash: sha256.Sum256([]byte(p.secret))}
}

// post is a request with a form and client authentication.
func post(p partner, target string, fields url.Values) outgoing {
	return outgoing{method: "POST", target: target, body: fields.Encode(), header: http.Header{
		"Authorization": {p.basic()}, "Content-Type": {formText},
	}}
}
