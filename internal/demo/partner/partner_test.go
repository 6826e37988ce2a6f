package partner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	openapi "github.com/oapi-codegen/runtime/types"

	sdk "connect-svc/gen/sdk/go"
)

// service is a service whose answers a test decides.
type service struct {
	*httptest.Server
	token func(form url.Values) int // status of the token endpoint
	read  func(bearer string) int   // status of the reads
	calls atomic.Int64              // of the token endpoint
}

func newService(t *testing.T) *service {
	s := &service{token: func(url.Values) int { return 200 }, read: func(string) int { return 200 }}
	answer := func(w http.ResponseWriter, status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /oauth/token", func(w http.ResponseWriter, r *http.Request) {
		n := s.calls.Add(1)
		if id, secret, ok := r.BasicAuth(); !ok || id != "client%3A1" || secret != "s%25cret" {
			t.Errorf("client authentication %q %q is not form-encoded", id, secret)
		}
		_ = r.ParseForm()
		status := s.token(r.PostForm)
		switch status {
		case 200:
			answer(w, status, map[string]any{
				"grant_id": uuid.Nil.String(), "history_from": "2026-01-01", "connection_version": "1", "token_type": "Bearer",
				"access_token": fmt.Sprint("access-", n), "refresh_token": fmt.Sprint("refresh-", n), "expires_in": 300, "scope": scopes,
			})
		case 400:
			answer(w, status, map[string]string{"error": "invalid_grant", "error_description": "x"})
		default:
			answer(w, status, map[string]string{"error": "server_error", "error_description": "x"})
		}
	})
	mux.HandleFunc("GET /connect-svc/v1/grants/{grant}/{dataset}", func(w http.ResponseWriter, r *http.Request) {
		status := s.read(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		answer(w, status, map[string]any{"data": []any{}, "meta": map[string]any{"from": r.URL.Query().Get("from"), "to": r.URL.Query().Get("to")}})
	})
	s.Server = httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	return s
}

// member has a connection whose access token has run out.
func (s *service) partner(t *testing.T) (*Partner, Member) {
	t.Helper()
	member := Member{Key: "alex", Name: "Alex", Email: "alex@example.com", Timezone: time.UTC}
	p, err := New(Config{
		Issuer: s.URL, ClientID: "client:1", ClientSecret: "s%cret", BaseURL: "https://partner.example", HTTP: s.Client(),
		WebhookSecret: webhookSecret,
		TokensFile:    filepath.Join(t.TempDir(), "tokens.json"), Members: []Member{member, {Key: "robin", Name: "Robin", Timezone: time.UTC}},
	})
	if err != nil {
		t.Fatal(err)
	}
	tokens := sdk.TokenResponse{RefreshToken: "refresh-0", AccessToken: "access-0", HistoryFrom: openapi.Date{Time: date(time.Now())}}
	if err := p.Keep(member.Key, tokens, time.Now()); err != nil {
		t.Fatal(err)
	}
	return p, member
}

// Specification 5.4: at most one refresh of a connection runs at a time, and all wait for its result.
func TestOneRefreshAtATime(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p, member := s.partner(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := p.read(context.Background(), member); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := s.calls.Load(); n != 1 {
		t.Errorf("%d refreshes", n)
	}
}

// Specification 5.4: what becomes of the refresh token after each outcome of a refresh.
func TestOutcomeOfARefresh(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		status int // 0: nobody listens
		kept   string
		over   bool
	}{
		{"200", 200, "refresh-1", false},
		{"400 invalid_grant", 400, "", true},
		{"401 invalid_client: not consumed", 401, "refresh-0", false},
		{"500: perhaps consumed", 500, "", true},
		{"503 of a proxy: perhaps consumed", 503, "", true},
		{"never sent", 0, "refresh-0", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			p, member := s.partner(t)
			s.token = func(form url.Values) int {
				// Out of the file before it is sent: a crash now must not make the next start send it again.
				text, _ := os.ReadFile(p.config.TokensFile)
				if sent := form.Get("refresh_token"); sent == "" || strings.Contains(string(text), sent) {
					t.Errorf("while %q is under way the file holds %s", sent, text)
				}
				return test.status
			}
			if test.status == 0 {
				s.Close()
			}
			_, err := p.fresh(context.Background(), member.Key, "")
			if (err == nil) != (test.status == 200) || errors.Is(err, errOver) != test.over {
				t.Errorf("error = %v", err)
			}
			again, err := openStore(p.config.TokensFile)
			if err != nil {
				t.Fatal(err)
			}
			if c, _ := again.get(member.Key); c.RefreshToken != test.kept || (c.Over != "") != test.over {
				t.Errorf("kept %+v", c)
			}
			if n := s.calls.Load(); n > 1 {
				t.Errorf("sent %d times", n)
			}
		})
	}
}

// Specification 7.4: a 401 is tried once more, with a new access token.
func TestRejectedAccessToken(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p, member := s.partner(t)
	if _, err := p.fresh(context.Background(), member.Key, ""); err != nil {
		t.Fatal(err)
	}
	s.read = func(bearer string) int {
		if bearer == "access-1" {
			return 401
		}
		return 200
	}
	if _, err := p.read(context.Background(), member); err != nil || s.calls.Load() != 2 {
		t.Errorf("read: %v, after %d calls for tokens", err, s.calls.Load())
	}
	s.read = func(string) int { return 401 }
	if _, err := p.read(context.Background(), member); err == nil || s.calls.Load() != 3 {
		t.Errorf("read that is always refused: %v, after %d calls for tokens", err, s.calls.Load())
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

// Specification 5.3: state is accepted once, and only from the browser that began.
func TestStateBelongsToTheBrowser(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p, _ := s.partner(t)
	mine, other := &browserOf{t: t, handler: p.Handler()}, &browserOf{t: t, handler: p.Handler()}
	begin := func() string {
		t.Helper()
		location, err := mine.do("POST", "/connect").Location()
		if err != nil || !strings.HasPrefix(location.String(), s.URL+"/oauth/authorize?") {
			t.Fatalf("location %v, %v", location, err)
		}
		if query := location.Query(); len(query) != 7 || len(query.Get("code_challenge")) != 43 || len(query.Get("state")) < 22 {
			t.Errorf("query %v", query)
		}
		return location.Query().Get("state")
	}
	state := begin()
	if begin() == state {
		t.Error("the same state twice")
	}
	for _, step := range []struct {
		name    string
		browser *browserOf
		target  string
		status  int
		calls   int64
	}{
		{"another browser", other, "?code=c&state=" + state, 400, 0},
		{"unknown state", mine, "?code=c&state=unknown", 400, 0},
		{"no state", mine, "?code=c", 400, 0},
		{"the browser that began", mine, "?code=c&state=" + state, 303, 1},
		{"once more", mine, "?code=c&state=" + state, 400, 1},
		{"a no", mine, "?error=access_denied&state=" + begin(), 303, 1},
	} {
		answer := step.browser.do("GET", CallbackPath+step.target)
		if answer.StatusCode != step.status || s.calls.Load() != step.calls {
			t.Errorf("%s: status %d after %d exchanges, want %d after %d", step.name, answer.StatusCode, s.calls.Load(), step.status, step.calls)
		}
	}
	// Too late is too late.
	late := begin()
	p.now = func() time.Time { return time.Now().Add(attemptLifetime + time.Minute) }
	if answer := mine.do("GET", CallbackPath+"?code=c&state="+late); answer.StatusCode != 400 {
		t.Errorf("late: status %d", answer.StatusCode)
	}
}

// No page holds a token or the grant (specification 5.5).
func TestPageHoldsNoCredential(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p, member := s.partner(t)
	c, _ := p.store.get(member.Key)
	c.GrantID = "0c9f5a3e-1111-4111-8111-111111111111"
	if err := p.store.put(member.Key, c); err != nil {
		t.Fatal(err)
	}
	answer := (&browserOf{t: t, handler: p.Handler()}).do("GET", "/")
	page, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != 200 || !strings.Contains(string(page), "Alex is connected") {
		t.Fatalf("status %d:\n%s", answer.StatusCode, page)
	}
	for _, never := range []string{"access-", "refresh-", "0c9f5a3e"} {
		if strings.Contains(string(page), never) {
			t.Errorf("the page holds %q", never)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Specification 7.4 and 8: what is asked again, and when.
func TestPatience(t *testing.T) {
	t.Parallel()
	reply := func(status int, retryAfter string) *http.Response {
		return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {retryAfter}}, Body: http.NoBody}
	}
	for _, test := range []struct {
		name       string
		method     string
		answers    []int // 0: the network fails
		retryAfter string
		want       int // 0: an error
		tries      int
		least      time.Duration
	}{
		{"at once", "GET", []int{200}, "", 200, 1, 0},
		{"429 waits as asked", "GET", []int{429, 429, 200}, "7", 200, 3, 14 * time.Second},
		{"429 without a number", "GET", []int{429, 200}, "soon", 200, 2, time.Second},
		{"503 backs off", "GET", []int{503, 503, 200}, "", 200, 3, time.Second},
		{"network", "GET", []int{0, 200}, "", 200, 2, 500 * time.Millisecond},
		{"gives up", "GET", []int{503, 503, 503, 503, 200}, "", 503, 4, time.Second},
		{"400 is an answer", "GET", []int{400, 200}, "", 400, 1, 0},
		{"a post is sent once", "POST", []int{503, 200}, "", 503, 1, 0},
		{"a post is sent once, also when the network fails", "POST", []int{0, 200}, "", 0, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				p := &patience{next: transport(func(*http.Request) (*http.Response, error) {
					status := test.answers[tries]
					tries++
					if status == 0 {
						return nil, errors.New("network")
					}
					return reply(status, test.retryAfter), nil
				})}
				begin := time.Now()
				r, _ := http.NewRequestWithContext(t.Context(), test.method, "https://connect.example/", nil)
				answer, err := p.RoundTrip(r)
				got := 0
				if err == nil {
					got = answer.StatusCode
				}
				if got != test.want || tries != test.tries || time.Since(begin) < test.least {
					t.Errorf("%d (%v) after %d tries and %v, want %d after %d and %v", got, err, tries, time.Since(begin), test.want, test.tries, test.least)
				}
			})
		})
	}

	t.Run("one 429 holds back every worker", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &patience{next: transport(func(*http.Request) (*http.Response, error) { return reply(200, ""), nil })}
			p.holdBack("30")
			begin := time.Now()
			r, _ := http.NewRequestWithContext(t.Context(), "GET", "https://connect.example/", nil)
			if _, err := p.RoundTrip(r); err != nil || time.Since(begin) < 30*time.Second {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
			p.holdBack("30")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := p.RoundTrip(r.WithContext(ctx)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a request whose time is over: %v", err)
			}
		})
	})
}
