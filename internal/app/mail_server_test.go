package app

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/account"
	"connect-svc/internal/testing/wait"
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
	wait.Until(t, "the mail server's refusal is told", func() bool {
		return strings.Contains(e.private(t, "/readyz?verbose"), `"status":"ready","checks":{"mail_server":"dial tcp`)
	})
	if body := e.private(t, "/readyz"); strings.Contains(body, "checks") {
		t.Errorf("without being asked for: %s", body)
	}
	if metrics := e.private(t, "/metrics"); !strings.Contains(metrics, "\nconnect_mail_server_failures_total 1") {
		t.Error("the refusal is not counted")
	}
}
