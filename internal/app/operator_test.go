package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/credential"
	"connect-svc/internal/operators"
)

const operatorToken = "0123456789abcdef0123456789abcdef"

// operatorTokens has operatorToken alone.
func operatorTokens(t *testing.T) *operators.Tokens {
	t.Helper()
	tokens, err := operators.New(credential.Hash(operatorToken), "")
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

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
		request.Header.Set("Authorization", "Bearer "+operatorToken)
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
	a, _, _ := openWith(t, func(c *Config) { c.Operators = operatorTokens(t) })
	defer a.Close()
	for _, request := range operatorRequests(t) {
		got := httptest.NewRecorder()
		a.public.Handler.ServeHTTP(got, request)
		if got.Code != http.StatusNotFound || strings.Contains(got.Body.String(), "urn:connect-svc:problem") {
			t.Errorf("%s %s on the public listener: %d %s", request.Method, request.URL, got.Code, got.Body)
		}
	}
	for _, request := range operatorRequests(t) {
		if !strings.HasPrefix(request.URL.Path, "/operator/") {
			continue
		}
		got := httptest.NewRecorder()
		a.private.Handler.ServeHTTP(got, request)
		if !strings.Contains(got.Body.String(), "urn:connect-svc:problem") || got.Code == http.StatusUnauthorized {
			t.Errorf("%s %s on the private listener: %d %s", request.Method, request.URL, got.Code, got.Body)
		}
	}
}

// Who left is out when the file of tokens is read again, and a file that cannot be used changes nothing.
func TestReloadOperators(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf("ada write sha256:%x", credential.Hash(operatorToken)))
	a, _, _ := openWith(t, func(c *Config) {
		var err error
		if c.Operators, err = operators.New(nil, file); err != nil {
			t.Fatal(err)
		}
	})
	defer a.Close()
	status := func() int {
		request := httptest.NewRequest(http.MethodGet, "/operator/v1/clients", nil)
		request.Host = "127.0.0.1"
		request.Header.Set("Authorization", "Bearer "+operatorToken)
		got := httptest.NewRecorder()
		a.private.Handler.ServeHTTP(got, request)
		return got.Code
	}
	for _, test := range []struct {
		text, wrong string
		want        int
	}{
		{"ada\n", "operator tokens (CONNECT_OPERATOR_TOKENS_FILE): line 1: want NAME read|write sha256:HEX", 200},
		{"# nobody\n", "", 401},
	} {
		write(test.text)
		if err := a.ReloadOperators(); err != nil && err.Error() != test.wrong || err == nil && test.wrong != "" {
			t.Errorf("%q: %v, want %s", test.text, err, test.wrong)
		}
		if got := status(); got != test.want {
			t.Errorf("%q: %d, want %d", test.text, got, test.want)
		}
	}
	without, _, _ := open(t)
	defer without.Close()
	if err := without.ReloadOperators(); err != nil {
		t.Errorf("without tokens: %v", err)
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
		a.private.Handler.ServeHTTP(got, request)
		if strings.HasPrefix(request.URL.Path, "/operator/") && got.Code != http.StatusNotFound {
			t.Errorf("%s %s: %d", request.Method, request.URL, got.Code)
		}
	}
}
