package partner

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/uuid"

	"connect.invalid/connect-go/connect"
)

const (
	webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	clientSecret  = "svci_k3JmQpX0vT9%rWbZyL5nHcGdFs8aUe2oIi7"
	clientID      = "2f6c1f0e-58c4-4c9e-9a55-0d6f6a3f9b11"
	grant         = "8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55"
)

// service is a service without a network, whose answers a test decides.
type service struct {
	mu      sync.Mutex
	version int
	refuse  map[string]int // status by the last part of the path; -1: nobody listens
	secrets []string       // all that it gave away
	asked   map[string]int // by the last part of the path
}

func newService() *service {
	return &service{refuse: map[string]int{}, asked: map[string]int{}}
}

// RoundTrip implements http.RoundTripper.
func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	end := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	s.mu.Lock()
	status := s.refuse[end]
	s.asked[end]++
	s.mu.Unlock()
	if status == -1 {
		return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case status != 0 && strings.HasPrefix(r.URL.Path, "/oauth"):
		w.WriteHeader(status)
		code := map[int]string{400: "invalid_grant", 401: "invalid_client"}[status]
		if code == "" {
			code = "server_error"
		}
		fmt.Fprintf(w, `{"error":%q,"error_description":"A fixed text."}`, code)
	case status != 0:
		w.Header().Set("Retry-After", "30")
		w.Header().Set("X-Request-ID", "7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4")
		w.WriteHeader(status)
		code := map[int]string{401: "invalid_access_token", 403: "insufficient_scope", 429: "rate_limited", 503: "data_unavailable"}[status]
		fmt.Fprintf(w, `{"error":{"code":%q,"message":"A fixed text."},"request_id":"7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4"}`, code)
	default:
		s.answer(w, r, end)
	}
	return w.Result(), nil
}

func (s *service) answer(w http.ResponseWriter, r *http.Request, end string) {
	meta := `"meta":{"from":"2026-11-20","to":"2026-11-21","snapshot_at":"2026-11-21T10:00:00.000Z"`
	switch end {
	case "token":
		_ = r.ParseForm()
		s.mu.Lock()
		if r.PostForm.Get("grant_type") == "authorization_code" {
			s.version++
		}
		version := s.version
		s.mu.Unlock()
		fmt.Fprintf(w, `{"grant_id":%q,"history_from":"2000-01-01","connection_version":"%d","token_type":"Bearer","access_token":%q,
			"refresh_token":%q,"expires_in":300,"scope":"daily_steps:read"}`, grant, version, s.secret("svca_"), s.secret("svcr2_"))
	case "revoke":
	case "daily-activity":
		fmt.Fprint(w, `{"data":[{"date":"2000-01-01","steps":8123,"updated_at":null}],`+meta+`}}`)
	case "cycling-daily":
		fmt.Fprint(w, `{"data":[],`+meta+`}}`)
	case "cycling-activities":
		next := "null"
		if r.URL.Query().Get("cursor") == "" {
			next = `"` + s.secret("cc1_") + `"`
		}
		fmt.Fprint(w, `{"data":[],`+meta+`,"next_cursor":`+next+`}}`)
	default: // disconnect
		w.WriteHeader(http.StatusNoContent)
	}
}

// secret is a credential that must be on no page.
func (s *service) secret(prefix string) string {
	var bytes [32]byte
	_, _ = rand.Read(bytes[:])
	value := prefix + base64.RawURLEncoding.EncodeToString(bytes[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets = append(s.secrets, value)
	return value
}

func (s *service) set(end string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse[end] = status
}

func (s *service) count(end string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[end]
}

// partner has two members, Alex and Robin, and no connection.
func (s *service) partner(t *testing.T) *Partner {
	t.Helper()
	return s.open(t, connect.NewMemoryStore())
}

func (s *service) open(t *testing.T, store connect.Store) *Partner {
	t.Helper()
	p, err := New(t.Context(), Config{
		Issuer: "https://connect.example", ClientID: clientID, ClientSecret: clientSecret, BaseURL: "https://partner.example",
		Transport: s, WebhookSecret: webhookSecret, Store: store, MailPage: "http://mail.example/",
		Members: []Member{{Key: "alex", Name: "Alex", Timezone: time.UTC}, {Key: "robin", Name: "Robin", Timezone: time.UTC}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// keep gives Alex a connection whose access token has run out.
func keep(t *testing.T, p *Partner, version string) {
	t.Helper()
	err := p.Keep(t.Context(), "alex", connect.Connection{
		GrantID: uuid.MustParse(grant), Version: version, State: connect.StateActive, RefreshToken: "svcr2_first",
		HistoryFrom: connect.Day(time.Now().Date()),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// browserOf follows no redirects and keeps the cookie of one browser.
type browserOf struct {
	t       *testing.T
	handler http.Handler
	cookies []*http.Cookie
}

func (b *browserOf) do(method, target string) *http.Response {
	b.t.Helper()
	r := httptest.NewRequest(method, "https://partner.example"+target, nil)
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	b.cookies = append(b.cookies, w.Result().Cookies()...)
	return w.Result()
}

func (b *browserOf) page(target string) string {
	b.t.Helper()
	text, err := io.ReadAll(b.do("GET", target).Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// begin presses Connect and is where the service takes over.
func (b *browserOf) begin() url.Values {
	b.t.Helper()
	location, err := b.do("POST", "/connect").Location()
	if err != nil || !strings.HasPrefix(location.String(), "https://connect.example/oauth/authorize?") {
		b.t.Fatalf("location %v, %v", location, err)
	}
	return location.Query()
}

// Specification 5.3: state is accepted once, and only from the browser that began, for the user who began there.
func TestStateBelongsToTheBrowser(t *testing.T) {
	t.Parallel()
	s := newService()
	p := s.partner(t)
	mine, other := &browserOf{t: t, handler: p.Handler()}, &browserOf{t: t, handler: p.Handler()}
	state := mine.begin().Get("state")
	if mine.begin().Get("state") == state {
		t.Error("the same state twice")
	}
	for _, step := range []struct {
		name    string
		browser *browserOf
		target  string
		status  int
		calls   int
	}{
		{"another browser", other, "?code=c&state=" + state, 400, 0},
		{"unknown state", mine, "?code=c&state=unknown", 400, 0},
		{"no state", mine, "?code=c", 400, 0},
		{"two states", mine, "?code=c&state=" + state + "&state=x", 400, 0},
		{"used up by that", mine, "?code=c&state=" + state, 400, 0},
		{"the browser that began", mine, "?code=c&state=" + mine.begin().Get("state"), 303, 1},
		{"a no", mine, "?error=access_denied&state=" + mine.begin().Get("state"), 303, 1},
	} {
		answer := step.browser.do("GET", CallbackPath+step.target)
		if answer.StatusCode != step.status || s.count("token") != step.calls {
			t.Errorf("%s: status %d after %d exchanges, want %d after %d", step.name, answer.StatusCode, s.count("token"), step.status, step.calls)
		}
	}
	// Another member has signed in in this browser meanwhile (specification 5.3).
	state = mine.begin().Get("state")
	session, _, _ := strings.Cut(mine.cookies[0].Value, ".")
	mine.cookies = []*http.Cookie{{Name: cookieName, Value: session + ".robin"}}
	if answer := mine.do("GET", CallbackPath+"?code=c&state="+state); answer.StatusCode != 400 || s.count("token") != 1 {
		t.Errorf("another member: status %d after %d exchanges", answer.StatusCode, s.count("token"))
	}
}

// The next process finds what the store holds, also an act that a process did not finish (specification 5.4).
func TestRestart(t *testing.T) {
	t.Parallel()
	s := newService()
	p := s.partner(t)
	keep(t, p, "3")
	if _, err := p.connector.Client.Refresh(t.Context(), "alex"); err != nil {
		t.Fatal(err)
	}
	again := s.open(t, p.config.Store)
	b := &browserOf{t: t, handler: again.Handler()}
	b.call("msg_1", updatedEvent("3", "2026-11-20", "2026-11-20"), nil)
	if got := worked(t, again); got.About != "Alex" {
		t.Errorf("after a restart, whose event: %+v", got)
	}
	after, state, err := again.held(t.Context(), "alex")
	if err != nil || state != "connected" {
		t.Fatalf("after a restart: %q, %v", state, err)
	}
	after.State = connect.StateRefreshing
	if err := again.Keep(t.Context(), "alex", after); err != nil {
		t.Fatal(err)
	}
	last, calls := s.open(t, p.config.Store), s.count("token")
	if _, err := last.connector.Client.Refresh(t.Context(), "alex"); !errors.Is(err, connect.ErrReconnect) || s.count("token") != calls {
		t.Errorf("after a refresh that was cut off: %v, %d requests", err, s.count("token")-calls)
	}
	if page := (&browserOf{t: t, handler: last.Handler()}).page("/"); !strings.Contains(page, "must not be sent again") {
		t.Error(page)
	}
}

// A connection that breaks off in the middle of an answer breaks off for the SDK, too.
func TestRecorderPassesOn(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	long := strings.Repeat("x", 2*mostRecorded)
	for name, body := range map[string]io.Reader{
		"long":   strings.NewReader(long),
		"broken": io.MultiReader(strings.NewReader("half"), iotest.ErrReader(gone)),
	} {
		ctx, trace := traced(context.Background())
		r, err := http.NewRequestWithContext(ctx, "GET", "https://connect.example/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := recorder{transport(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(body)}, nil
		})}.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if name == "long" && (err != nil || string(text) != long) || name == "broken" && (!errors.Is(err, gone) || string(text) != "half") {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
		if shown := trace.take(); len(shown) != 1 || strings.Contains(shown[0].Response, "xxx") {
			t.Errorf("%s: shown as %+v", name, shown)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
