package app_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/app"
	"connect-svc/internal/edge/console"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
)

// A reload that failed, or of which a part could not be used, raises its alert until one goes well. The console's page and the metric
// say so, and nothing says a secret.
func TestReloadThatFailed(t *testing.T) {
	t.Parallel()
	var config app.Config
	e := e2e.New(t, func(c *app.Config) {
		c.Operators = edgetest.Tokens(t)
		config = *c
	})
	watches(t, e, time.Minute, nil)
	if f := e.App.Facts(t.Context()); f.Reload != (console.Reload{}) || len(f.Alerts) != 0 {
		t.Errorf("before any: %+v, %v", f.Reload, f.Alerts)
	}
	secret, _ := credential.NewOperatorToken()
	bad := errors.New("CONNECT_SMTP_URL: " + secret + " is no address")
	for name, test := range map[string]struct {
		reload func() error
		left   int
	}{
		"refused": {func() error { return e.App.Withdraw(nil, bad) }, http.StatusUnauthorized},
		"in part": {func() error { return e.App.Reload(config, bad) }, http.StatusOK},
	} {
		if err := test.reload(); err != nil {
			t.Fatal(err)
		}
		watches(t, e, time.Minute, nil)
		f := e.App.Facts(t.Context())
		if names := strings.Join(firing(e), " "); names != "ConnectReloadFailed" {
			t.Errorf("%s: there fire %q", name, names)
		}
		if !strings.HasPrefix(f.Reload.Problem, "CONNECT_SMTP_URL") || strings.Contains(f.Reload.Problem, secret) || f.Reload.At.IsZero() {
			t.Errorf("%s: the facts are %+v", name, f.Reload)
		}
		request := httptest.NewRequest(http.MethodGet, "http://localhost/operator/v1/clients", nil)
		request.Header.Set("Authorization", "Bearer "+edgetest.UnnamedToken)
		answer := httptest.NewRecorder()
		e.App.PrivateHandler().ServeHTTP(answer, request)
		if answer.Code != test.left {
			t.Errorf("%s: an operator is answered with %d", name, answer.Code)
		}
		if err := e.App.Reload(config, nil); err != nil {
			t.Fatal(err)
		}
		watches(t, e, time.Minute, nil)
		if f := e.App.Facts(t.Context()); f.Reload.Problem != "" || len(f.Alerts) != 0 {
			t.Errorf("after %s and a good one: %+v, %v", name, f.Reload, f.Alerts)
		}
	}
}
