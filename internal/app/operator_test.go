package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/edgetest"
)

// operatorRequests is a request with the token for each operation, and some beside them.
func operatorRequests(t *testing.T) []*http.Request {
	t.Helper()
	spec, err := operatorapi.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	var requests []*http.Request
	add := func(method, path string) {
		request := httptest.NewRequest(method, path, strings.NewReader("{}"))
		request.Host = "127.0.0.1"
		request.Header.Set("Authorization", "Bearer "+edgetest.UnnamedToken)
		request.Header.Set("Content-Type", "application/json")
		requests = append(requests, request)
	}
	for path, item := range spec.Paths.Map() {
		for method := range item.Operations() {
			add(method, strings.NewReplacer("{user_id}", uuid.NewString(), "{client_id}", uuid.NewString(),
				"{webhook_id}", "msg_"+strings.Repeat("0", 32)).Replace(path))
		}
	}
	if len(requests) < 29 {
		t.Fatalf("%d operations", len(requests))
	}
	for _, path := range []string{"/operator/", "/operator/v1/nothing", "//operator/v1/users", "/x/../operator/v1/users", "/connect-svc/v1/operator/v1/users"} {
		add(http.MethodPost, path)
	}
	return requests
}

// Decisions, section 1: the operator API is on the private listener alone. On the public one its paths are what all
// unknown paths are, also for who has the token.
func TestOperatorAPIIsPrivate(t *testing.T) {
	t.Parallel()
	a, _, _ := openWith(t, func(c *Config) { c.Operators = edgetest.Tokens(t) })
	defer a.Close()
	for _, request := range operatorRequests(t) {
		got := httptest.NewRecorder()
		a.public.HTTP.Handler.ServeHTTP(got, request)
		if got.Code != http.StatusNotFound || strings.Contains(got.Body.String(), "urn:connect-svc:problem") {
			t.Errorf("%s %s on the public listener: %d %s", request.Method, request.URL, got.Code, got.Body)
		}
	}
	for _, request := range operatorRequests(t) {
		if !strings.HasPrefix(request.URL.Path, "/operator/") {
			continue
		}
		got := httptest.NewRecorder()
		a.private.HTTP.Handler.ServeHTTP(got, request)
		if !strings.Contains(got.Body.String(), "urn:connect-svc:problem") || got.Code == http.StatusUnauthorized {
			t.Errorf("%s %s on the private listener: %d %s", request.Method, request.URL, got.Code, got.Body)
		}
	}
}

// Without a token there is no operator API, whatever a caller sends.
func TestOperatorAPIIsOff(t *testing.T) {
	t.Parallel()
	a, _, _ := open(t)
	defer a.Close()
	for _, request := range operatorRequests(t) {
		request.Header.Set("Authorization", "Bearer ")
		got := httptest.NewRecorder()
		a.private.HTTP.Handler.ServeHTTP(got, request)
		if strings.HasPrefix(request.URL.Path, "/operator/") && got.Code != http.StatusNotFound {
			t.Errorf("%s %s: %d", request.Method, request.URL, got.Code)
		}
	}
}
