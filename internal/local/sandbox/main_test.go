package sandbox

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/wait"
)

// running is a sandbox that a test started. Every answer of its driver, and every one of the partner API, is held against
// its document.
type running struct {
	*sandbox
	described sandboxapi.Sandbox
	driver    *http.Client
	network   *http.Transport   // that trusts the sandbox
	partner   http.RoundTripper // network, whose answers are held against the contract
	stop      func() error
}

// start runs a sandbox until the test ends.
func start(t *testing.T, change ...func(*Config)) *running {
	t.Helper()
	r := new(running)
	config := Config{
		Listen: "127.0.0.1:0", PrivateListen: "127.0.0.1:0", CallbackURL: "https://partner.example/callback",
		Logger: telemetry.NewLogger(t.Output(), slog.LevelWarn), Limits: wait.Patient,
	}
	for _, f := range change {
		f(&config)
	}
	started, ended := make(chan struct{}), make(chan error, 1)
	config.Ready = func(described sandboxapi.Sandbox) error {
		r.described = described
		close(started)
		return nil
	}
	r.sandbox = &sandbox{config: config}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- r.live(ctx) }()
	r.stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("the sandbox ended with: %v", err)
		}
	})
	select {
	case <-started:
	case err := <-ended:
		ended <- err
		t.Fatalf("the sandbox did not start: %v", err)
	}
	r.driver = &http.Client{Transport: contracttest.Sandbox.Transport(t, nil)}
	r.network = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: r.authority.Roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(r.network.CloseIdleConnections)
	r.partner = contracttest.Partner.Transport(t, unexplained{r.network})
	return r
}

// unexplained leaves out what the sandbox adds to errors. The rest is the contract's.
type unexplained struct{ base http.RoundTripper }

func (u unexplained) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := u.base.RoundTrip(request)
	if err == nil {
		response.Header.Del("X-Connect-Reason")
		response.Header.Del("Link")
	}
	return response, err
}

func (r *running) send(t *testing.T, client *http.Client, method, url, contentType, body string) edgetest.Answer {
	t.Helper()
	header := http.Header{}
	if body != "" {
		header.Set("Content-Type", contentType)
	}
	return edgetest.Send(t, client, url, edgetest.Request{Method: method, Body: body, Header: header})
}

// drive asks the driver, with a body that is JSON unless it is empty.
func (r *running) drive(t *testing.T, method, path, body string) edgetest.Answer {
	t.Helper()
	return r.send(t, r.driver, method, r.described.DriverUrl+path, "application/json", body)
}

// want is drive for what must succeed with a status. It reads the body as a T.
func want[T any](t *testing.T, r *running, status int, method, path, body string) (value T) {
	t.Helper()
	got := r.drive(t, method, path, body)
	if got.Status != status {
		t.Fatalf("%s %s: %d, want %d: %s", method, path, got.Status, status, got.Body)
	}
	if len(got.Body) > 0 {
		decoder := json.NewDecoder(strings.NewReader(got.Body))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return value
}

type nothing struct{}

func encode(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// newUser is a user of a kind whom no other test knows.
func (r *running) newUser(t *testing.T, kind sandboxapi.Kind) uuid.UUID {
	t.Helper()
	return want[sandboxapi.User](t, r, 201, "POST", "/sandbox/users", encode(t, sandboxapi.NewUser{Kind: kind})).UserId
}

func (r *running) advanceBy(t *testing.T, by time.Duration) {
	t.Helper()
	want[sandboxapi.Time](t, r, 200, "POST", "/sandbox/clock", encode(t, sandboxapi.ClockAdvance{AdvanceSeconds: int32(by / time.Second)}))
}

// decides is a user in the browser. It returns where the browser is sent.
func (r *running) decides(t *testing.T, user uuid.UUID, url string, decision sandboxapi.AuthorizationDecisionDecision) string {
	t.Helper()
	return want[sandboxapi.Redirect](t, r, 200, "POST", "/sandbox/authorizations", encode(t, sandboxapi.AuthorizationDecision{
		AuthorizationUrl: url, UserId: user, Decision: decision,
	})).RedirectUrl
}

// force has the next request for an operation fail.
func (r *running) force(t *testing.T, operation string, status int32, code string) {
	t.Helper()
	want[nothing](t, r, 204, "POST", "/sandbox/answers", encode(t, sandboxapi.ForcedAnswer{
		OperationId: sandboxapi.ForcedAnswerOperationId(operation), Status: status, Code: code,
	}))
}

// webhook waits for the newest webhook about a grant that is as it should be.
func (r *running) webhook(t *testing.T, grant uuid.UUID, wanted func(sandboxapi.Webhook) bool) sandboxapi.Webhook {
	t.Helper()
	var found sandboxapi.Webhook
	wait.Until(t, "such a webhook is sent", func() bool {
		all := want[sandboxapi.Webhooks](t, r, 200, "GET", "/sandbox/webhooks", "").Data
		i := slices.IndexFunc(all, func(sent sandboxapi.Webhook) bool { return strings.Contains(sent.Body, grant.String()) && wanted(sent) })
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}

// newClient registers a client that no other test knows.
func (r *running) newClient(t *testing.T, body string) sandboxapi.SandboxClient {
	t.Helper()
	return want[sandboxapi.SandboxClient](t, r, 201, "POST", "/sandbox/clients", body)
}

// of is the sandbox as a partner with another client sees it.
func (r *running) of(client sandboxapi.SandboxClient) *running {
	other := *r
	other.described.Client = client
	return &other
}

// newWebhook is one about a user who has disconnected.
func (r *running) newWebhook(t *testing.T) sandboxapi.Webhook {
	t.Helper()
	p := r.newPartner(t, sandboxapi.KindNew)
	grant := p.connect(t).GrantID
	want[nothing](t, r, 204, "DELETE", "/sandbox/users/"+p.user.String()+"/connections/"+r.described.Client.ClientId.String(), "")
	return r.webhook(t, grant, func(sandboxapi.Webhook) bool { return true })
}

// stoppedWebhook returns the id of a webhook whose receiver has answered 410.
func (r *running) stoppedWebhook(t *testing.T) string {
	t.Helper()
	gone := r.plainReceiver(t, func(http.Header, string) int { return http.StatusGone })
	other := r.of(r.newClient(t, fmt.Sprintf(`{"webhook_url":%q}`, gone)))
	id := other.newWebhook(t).Id
	wait.Until(t, "the webhook is stopped", func() bool {
		endpoint, err := r.service.Webhooks.Endpoint(t.Context(), other.described.Client.ClientId)
		return err == nil && !endpoint.StoppedAt.IsZero()
	})
	return id
}

// plainReceiver is a partner's receiver on this machine, without TLS. It returns its URL.
func (r *running) plainReceiver(t *testing.T, answer func(http.Header, string) int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil || request.URL.Path != "/webhooks" || request.Host != request.Context().Value(http.LocalAddrContextKey).(net.Addr).String() {
			t.Errorf("%s of %s: %v", request.URL, request.Host, err)
		}
		w.WriteHeader(answer(request.Header, string(body)))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/webhooks"
}

// answered sends a request of a partner and returns the status and the code of an error.
func (r *running) answered(t *testing.T, request *http.Request) (status int, code string) {
	t.Helper()
	response, err := r.partner.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body any
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, codeOf(body)
}
