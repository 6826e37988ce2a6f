package users_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
)

// A changed address ends what the former mailbox began: the consent, the code under way, and the session. Connections stay.
func TestChangedAddressEndsWhatItBegan(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	connected, tokens := e.NewConnection(t, e.Partner)
	request, browser := edgetest.Consenting(t, e.App.OAuth, e.Partner, scope.All, connected.ID)
	code := func(signIn uuid.UUID) string {
		t.Helper()
		if err := e.App.Accounts.SendCode(t.Context(), account.CodeRequest{SignIn: signIn, Email: connected.Email}); err != nil {
			t.Fatal(err)
		}
		return e.Mail.Next(t).Code
	}
	first, second := uuid.New(), uuid.New()
	session, err := enter(t.Context(), e, first, code(first))
	if err != nil {
		t.Fatal(err)
	}
	waiting := code(second)
	if _, err := e.App.OAuth.Consent(t.Context(), request, browser); err != nil {
		t.Fatal(err)
	}

	address := "new-" + connected.Email
	if _, err := e.App.Accounts.ChangeUser(t.Context(), connected.ID, account.UserChange{Email: &address}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.App.OAuth.Consent(t.Context(), request, browser); !errors.Is(err, oauth.ErrRequestEnded) {
		t.Errorf("the consent page: %v", err)
	}
	if _, err := e.App.OAuth.Allow(t.Context(), request, browser, ""); !errors.Is(err, oauth.ErrRequestEnded) {
		t.Errorf("Allow: %v", err)
	}
	if _, err := e.App.Accounts.VerifyCode(t.Context(), second, waiting); !errors.Is(err, account.ErrNoSignIn) {
		t.Errorf("the code: %v", err)
	}
	if _, err := e.App.Accounts.GetSession(t.Context(), session); !errors.Is(err, account.ErrNoSession) {
		t.Errorf("the session: %v", err)
	}
	if _, err := e.App.OAuth.Refresh(context.WithoutCancel(t.Context()), edgetest.Credentials(e.Partner), tokens.RefreshToken); err != nil {
		t.Errorf("the connection: %v", err)
	}
}
