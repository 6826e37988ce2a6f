package app

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/account"
	"connect-svc/internal/telemetry"
)

// A mail server that refuses is told by /readyz?verbose and counted, and does not make the service unready.
func TestMailServerThatRefuses(t *testing.T) {
	t.Parallel()
	e := newEndToEnd(t, func(c *Config) {
		var err error
		if c.Mailer, err = account.NewMailer("smtp://127.0.0.1:1", "no-reply@example.com"); err != nil {
			t.Fatal(err)
		}
	})
	if body := e.private(t, "/readyz?verbose"); !strings.Contains(body, `"checks":{"mail_server":"not used yet","service":"ok"}`) {
		t.Errorf("before: %s", body)
	}
	if err := e.app.Accounts.SendCode(t.Context(), account.CodeRequest{SignIn: uuid.New(), Email: "ada@example.com"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the mail server's refusal is told", func() bool {
		return strings.Contains(e.private(t, "/readyz?verbose"), `"status":"ready","checks":{"mail_server":"dial tcp`)
	})
	if body := e.private(t, "/readyz"); strings.Contains(body, "checks") {
		t.Errorf("without being asked for: %s", body)
	}
	if metrics := e.private(t, "/metrics"); !strings.Contains(metrics, "\nconnect_mail_server_failures_total 1") {
		t.Error("the refusal is not counted")
	}
}

// Probes that go well are not logged by default; those that do not are.
func TestProbesAreNotLogged(t *testing.T) {
	t.Parallel()
	for level, logged := range map[slog.Level]bool{slog.LevelInfo: false, slog.LevelDebug: true} {
		log := new(faultLog)
		a, _, _ := openWith(t, func(c *Config) { c.Logger, c.ReadyListen = telemetry.NewLogger(log, level), "127.0.0.1:0" })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		private := "http://" + a.PrivateAddr().String()
		for _, url := range []string{private + "/healthz", private + "/readyz", private + "/metrics", "http://" + a.probing.listener.Addr().String() + "/readyz"} {
			if status, _ := askAnew(t, url); status != http.StatusOK {
				t.Errorf("%s: %d", url, status)
			}
		}
		if got := log.contains(`"msg":"request"`); got != logged {
			t.Errorf("at %s probes are logged: %t", level, got)
		}
		a.stopping.Store(true)
		if status, _ := askAnew(t, private+"/readyz"); status != http.StatusServiceUnavailable || !log.contains(`"code":"not_ready"`) {
			t.Errorf("at %s: %d, and the log does not say it", level, status)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
