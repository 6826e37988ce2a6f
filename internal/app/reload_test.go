package app_test

import (
	"errors"
	"net"
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
	"connect-svc/internal/testing/wait"
)

// While a reload asks a database that does not answer, nothing waits for it: not Prometheus, nor who looks what is wrong, nor the server's own
// look at the clocks.
func TestNothingWaitsForAReload(t *testing.T) {
	t.Parallel()
	var config app.Config
	e := e2e.New(t, func(c *app.Config) { config = *c })
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config.DatabaseURL = "postgres://connect@" + silent.Addr().String() + "/connect"
	reloaded := make(chan error, 1)
	go func() { reloaded <- e.App.Reload(config, nil) }()
	held, err := silent.Accept() // and says nothing
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 2)
	for _, path := range []string{"/metrics", "/readyz?verbose"} {
		go func() {
			answer := httptest.NewRecorder()
			e.App.PrivateHandler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
			asked <- answer.Body.String()
		}()
	}
	texts := wait.For(t, "an answer", asked) + wait.For(t, "another", asked)
	if !strings.Contains(texts, "connect_config_last_reload_successful 1") || !strings.Contains(texts, "not since the start") || len(reloaded) > 0 {
		t.Errorf("the reload ended first, or these are the answers: %s", texts)
	}
	_, _ = silent.Close(), held.Close()
	if err := wait.For(t, "the reload ends", reloaded); err == nil {
		t.Error("the service uses a database that does not answer")
	}
}

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
