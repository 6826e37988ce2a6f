package pages

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/pgtest"
)

// A user who is signed in gets a copy of their own data, as a file. The audit log has it. A sign-in for an authorization is not enough.
func TestAccountCopy(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	other := f.newUser(t, "eve@users.example")
	f.connect(t, scope.All)
	v := f.visitor(t)
	v.consent(scope.All)
	if got := v.Location(v.Get(copyPath)); got != "/account/sign-in?ended" {
		t.Errorf("without a session: %s", got)
	}
	v.enter(email)
	link := v.account().Find(`a[href="` + copyPath + `"]`)
	if _, saved := link.Attr("download"); saved { // a browser would save the sign-in page once the session has ended
		t.Error("the browser saves whatever the link leads to")
	}
	got := v.Get(link.AttrOr("href", ""))
	if err := contracttest.Operator.CheckSchema("UserCopy", []byte(got.Source)); err != nil || got.StatusCode != http.StatusOK {
		t.Errorf("status %d, %v: %s", got.StatusCode, err, got.Source)
	}
	if !strings.Contains(got.Source, email) || !strings.Contains(got.Source, f.client.ID.String()) || strings.Contains(got.Source, other.ID.String()) {
		t.Errorf("a copy of somebody else: %s", got.Source)
	}
	if name := got.Header.Get("Content-Disposition"); name != `attachment; filename="my-data.json"` || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a file %s, %s", name, got.Header.Get("Cache-Control"))
	}
	if n := pgtest.Value[int](t, f.DB, `select count(*) from audit_log where actor = 'user' and action = 'user.exported' and detail = '{"by": "account_pages"}' and subject = $1`, f.User.ID); n != 1 {
		t.Errorf("%d entries of the audit log, want 1", n)
	}
}

// Without CONNECT_ACCOUNT_COPY the page offers nothing, and there is nothing.
func TestNoAccountCopy(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	f.copies = nil
	f.serve()
	v := f.visitor(t)
	v.enter(email)
	if n := v.account().Find(`a[href="` + copyPath + `"]`).Length(); n != 0 {
		t.Errorf("%d links to a copy", n)
	}
	if got := v.Get(copyPath); got.StatusCode != http.StatusNotFound || strings.Contains(got.Source, `"version"`) {
		t.Errorf("status %d: %s", got.StatusCode, got.Source)
	}
}

// An error before the first byte is a page, and one after it breaks the connection.
func TestAccountCopyFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t, limits)
	begins := false
	f.copies = func(_ context.Context, w io.Writer, _ account.User) error {
		if begins {
			_, _ = w.Write([]byte(`{"version":1`))
		}
		return io.ErrClosedPipe
	}
	f.serve()
	v := f.visitor(t)
	v.enter(email)
	if got := v.Get(copyPath); got.StatusCode != http.StatusInternalServerError || got.Header.Get("Content-Disposition") != "" || !strings.HasPrefix(got.Header.Get("Content-Type"), "text/html") {
		t.Errorf("%d as %v", got.StatusCode, got.Header)
	}
	begins = true
	answer, err := v.Client.Get(at(copyPath))
	if err == nil {
		_, err = io.ReadAll(answer.Body)
		_ = answer.Body.Close()
	}
	if err == nil {
		t.Error("a copy that has failed came as a whole")
	}
	if n := strings.Count(f.Log.String(), io.ErrClosedPipe.Error()); n != 2 {
		t.Errorf("the log has the cause %d times, want 2", n)
	}
}
