package partner

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/ratelimit"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// The tests of this package together produce every answer that the document has.
func TestMain(m *testing.M) { pgtest.Main(m, contracttest.Covered) }

const (
	baseURL  = "https://connect.example"
	callback = "https://partner.example/callback"
	verifier = edgetest.Verifier
	formText = "application/x-www-form-urlencoded"
)

// start is when the time of a fixture begins; the calendar day of its connections.
var start = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// plenty is a budget that no test uses up.
var plenty = client.Policy{RequestsPerMinute: 1000000, Burst: 1000000, ConcurrentReads: 10000}

type (
	outgoing = edgetest.Request
	answer   = edgetest.Answer
)

// fixture is the edge with everything behind it and one client. Every answer that it receives is held against the document.
type fixture struct {
	edgetest.Backend
	config  Config
	client  pgtest.Client
	handler http.Handler
	url     string
	browser *http.Client
}

func newFixture(t testing.TB, change ...func(*fixture)) *fixture {
	t.Helper()
	f := &fixture{Backend: edgetest.New(t, start)}
	f.config = Config{
		BaseURL:  baseURL,
		OAuth:    f.OAuth,
		Activity: f.Activity,
		Limiter:  ratelimit.New(ratelimit.NewPostgres(f.DB.Pool), wait.Patient.Limiter),
		Logger:   telemetry.NewLogger(f.Log, slog.LevelDebug),
		Now:      f.DB.Now,
		Limits:   wait.Patient,
	}
	f.client = f.newClient(t, plenty)
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
	f.url, f.browser = edgetest.Serve(t, f.handler, contracttest.Partner)
}

func (f *fixture) newClient(t testing.TB, policy client.Policy) pgtest.Client {
	t.Helper()
	return f.DB.Client(t, func(c *pgtest.Client) {
		c.RequestsPerMinute, c.Burst, c.ConcurrentReads = policy.RequestsPerMinute, policy.Burst, policy.ConcurrentReads
	})
}

func (f *fixture) send(t testing.TB, out outgoing) answer {
	t.Helper()
	return edgetest.Send(t, f.browser, f.url, out)
}

// post is a request with a form and client authentication.
var post = edgetest.Form
