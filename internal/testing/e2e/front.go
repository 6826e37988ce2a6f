package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/pgtest"
)

// Front is a listener of the service that counts who comes and who leaves before the answer.
type Front struct {
	Base       string
	Client     *http.Client
	Came, Left atomic.Int64
}

// NewFront is a listener of the service, with TLS.
func NewFront(t *testing.T, e *Service, http2 bool) *Front {
	t.Helper()
	f := new(Front)
	service := contracttest.Handler(t, e.App.Handler())
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.Came.Add(1)
		stays := context.AfterFunc(r.Context(), func() { f.Left.Add(1) })
		defer stays()
		service.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = http2
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 10_000} // one connection is enough for any test
	server.StartTLS()
	t.Cleanup(server.Close)
	f.Base, f.Client = server.URL, server.Client()
	if http2 {
		// All requests share this connection. Hundreds that dial at once close each other's connections, and lose a request now and then.
		f.Get(t, "/.well-known/oauth-authorization-server")
		f.Came.Store(0)
	}
	return f
}

// Response is a whole answer; without a status there is none.
type Response struct {
	Status int
	Body   string
}

// RefreshToken is the one of a token response.
func (r Response) RefreshToken(t *testing.T) string {
	t.Helper()
	_, rest, _ := strings.Cut(r.Body, `"refresh_token":"`)
	token, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatal("no refresh token")
	}
	return token
}

// do sends a request and returns the whole answer. If the request fails, so does the test, unless ctx has ended.
func (f *Front) do(ctx context.Context, t *testing.T, method, path string, form url.Values, authenticate func(*http.Request)) Response {
	request, err := http.NewRequestWithContext(ctx, method, f.Base+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Error(err)
		return Response{}
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	authenticate(request)
	answer, err := f.Client.Do(request)
	if err == nil {
		defer answer.Body.Close()
		var body []byte
		if body, err = io.ReadAll(answer.Body); err == nil {
			return Response{answer.StatusCode, string(body)}
		}
	}
	if ctx.Err() == nil {
		t.Error(err)
	}
	return Response{}
}

// Get asks for a page.
func (f *Front) Get(t *testing.T, path string) Response {
	return f.do(t.Context(), t, http.MethodGet, path, nil, func(*http.Request) {})
}

// Post sends a form with the partner's credentials.
func (f *Front) Post(ctx context.Context, t *testing.T, partner pgtest.Client, path string, form url.Values) Response {
	return f.do(ctx, t, http.MethodPost, path, form, basic(partner))
}

func basic(partner pgtest.Client) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(partner.ID.String(), url.QueryEscape(partner.Secret)) }
}

// Token sends a request to the token endpoint.
func (f *Front) Token(ctx context.Context, t *testing.T, partner pgtest.Client, form url.Values) Response {
	return f.Post(ctx, t, partner, "/oauth/token", form)
}

// Disconnect ends a connection.
func (f *Front) Disconnect(ctx context.Context, t *testing.T, partner pgtest.Client, grantID uuid.UUID) Response {
	return f.do(ctx, t, http.MethodDelete, "/connect-svc/v1/customer/grants/"+grantID.String(), nil, basic(partner))
}

// Refresh sends a refresh token.
func (f *Front) Refresh(ctx context.Context, t *testing.T, partner pgtest.Client, token string) Response {
	return f.Token(ctx, t, partner, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
}

// Read asks for the steps of the day of the consent.
func (f *Front) Read(ctx context.Context, t *testing.T, tokens oauth.Tokens) Response {
	day := tokens.HistoryFrom.Format(time.DateOnly)
	path := fmt.Sprintf("/connect-svc/v1/grants/%s/daily-activity?from=%s&to=%s", tokens.GrantID, day, day)
	return f.do(ctx, t, http.MethodGet, path, nil, func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+tokens.AccessToken)
	})
}
