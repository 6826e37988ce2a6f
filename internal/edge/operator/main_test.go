package operator

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const token = edgetest.UnnamedToken

// start is when the time of a fixture begins.
var start = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

type (
	outgoing = edgetest.Request
	answer   = edgetest.Answer
)

// fixture is the edge with everything behind it. Every answer that it receives is held against the document.
type fixture struct {
	edgetest.Backend
	config Config
	url    string
	client *http.Client
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{Backend: edgetest.New(t, start)}
	f.config = Config{
		Operators: edgetest.Operators(t),
		Domains:   f.Domains,
		BaseURL:   "https://connect.example.com",
		Now:       f.DB.Now,
		Limits:    wait.Patient,
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
	f.url, f.client = edgetest.Serve(t, telemetry.Requests(telemetry.NewLogger(f.Log, slog.LevelDebug), handler), contracttest.Operator)
}

// send sends a request with the token and, where it has a body, the content type, unless its header says otherwise.
func (f *fixture) send(t testing.TB, out outgoing) answer {
	t.Helper()
	header := http.Header{"Authorization": {"Bearer " + token}}
	if out.Body != "" {
		header.Set("Content-Type", "application/json")
	}
	for name, values := range out.Header {
		header[name] = values
	}
	out.Header = header
	return edgetest.Send(t, f.client, f.url, out)
}

func (f *fixture) post(t testing.TB, path, body string) answer {
	t.Helper()
	return f.send(t, outgoing{Method: "POST", Target: path, Body: body})
}
