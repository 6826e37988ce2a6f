package observability_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/app"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/wait"
)

// A mail server that refuses is told by /readyz?verbose and counted, and does not make the service unready.
func TestMailServerThatRefuses(t *testing.T) {
	t.Parallel()
	e := e2e.New(t, func(c *app.Config) {
		var err error
		if c.Mailer, err = account.NewMailer("smtp://127.0.0.1:1", "no-reply@example.com"); err != nil {
			t.Fatal(err)
		}
	})
	if body := e.Private(t, "/readyz?verbose"); !strings.Contains(body, `"mail_server":"not used yet"`) {
		t.Errorf("before: %s", body)
	}
	if err := e.App.Accounts.SendCode(t.Context(), account.CodeRequest{SignIn: uuid.New(), Email: "ada@example.com"}); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the mail server's refusal is told", func() bool {
		return strings.Contains(e.Private(t, "/readyz?verbose"), `"mail_server":"dial tcp`)
	})
	if body := e.Private(t, "/readyz"); strings.Contains(body, "checks") {
		t.Errorf("without being asked for: %s", body)
	}
	if metrics := e.Private(t, "/metrics"); !strings.Contains(metrics, "\nconnect_mail_server_failures_total 1") {
		t.Error("the refusal is not counted")
	}
}
