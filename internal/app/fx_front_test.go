package app

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

	"connect-svc/internal/oauth"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/pgtest"
)

// front is a listener of the service that counts who comes and who leaves before the answer.
type front struct {
	base       string
	client     *http.Client
	came, left atomic.Int64
}

func newFront(t *testing.T, e *endToEnd, http2 bool) *front {
	t.Helper()
	f := new(front)
	service := contracttest.Handler(t, e.app.Handler())
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.came.Add(1)
		stays := context.AfterFunc(r.Context(), func() { f.left.Add(1) })
		defer stays()
		service.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = http2
	server.StartTLS()
	t.Cleanup(server.Close)
	f.base, f.client = server.URL, server.Client()
	return f
}

// response is a whole answer; without a status there is none.
type response struct {
	status int
	body   string
}

func (r response) refreshToken(t *testing.T) string {
	t.Helper()
	_, rest, _ := strings.Cut(r.body, `"refresh_token":"`)
	token, _, found := strings.Cut(rest, `"`)
	if !found {
		t.Fatal("no refresh token")
	}
	return token
}

func (f *front) do(ctx context.Context, t *testing.T, method, path string, form url.Values, authenticate func(*http.Request)) response {
	request, err := http.NewRequestWithContext(ctx, method, f.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Error(err)
		return response{}
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	authenticate(request)
	answer, err := f.client.Do(request)
	if err == nil {
		defer answer.Body.Close()
		var body []byte
		if body, err = io.ReadAll(answer.Body); err == nil {
			return response{answer.StatusCode, string(body)}
		}
	}
	if ctx.Err() == nil {
		t.Error(err)
	}
	return response{}
}

func (f *front) token(ctx context.Context, t *testing.T, partner pgtest.Client, form url.Values) response {
	return f.do(ctx, t, http.MethodPost, "/oauth/token", form, func(r *http.Request) {
		r.SetBasicAuth(partner.ID.String(), url.QueryEscape(partner.Secret))
	})
}

func (f *front) refresh(ctx context.Context, t *testing.T, partner pgtest.Client, token string) response {
	return f.token(ctx, t, partner, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
}

func (f *front) read(ctx context.Context, t *testing.T, tokens oauth.Tokens) response {
	day := tokens.HistoryFrom.Format(time.DateOnly)
	path := fmt.Sprintf("/connect-svc/v1/grants/%s/daily-activity?from=%s&to=%s", tokens.GrantID, day, day)
	return f.do(ctx, t, http.MethodGet, path, nil, func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+tokens.AccessToken)
	})
}
