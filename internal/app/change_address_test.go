package app

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/account"
	"connect-svc/internal/oauth"
)

// A changed address ends what the former mailbox began: the consent, the code under way, and the session. Connections stay.
func TestChangedAddressEndsWhatItBegan(t *testing.T) {
	t.Parallel()
	e := newEndToEnd(t)
	connected, tokens := e.newConnection(t, e.partner)
	request, browser := consenting(t, e.app, e.partner, connected)
	code := func(signIn uuid.UUID) string {
		t.Helper()
		if err := e.app.Accounts.SendCode(t.Context(), account.CodeRequest{SignIn: signIn, Email: connected.Email}); err != nil {
			t.Fatal(err)
		}
		return e.mail.Next(t).Code
	}
	first, second := uuid.New(), uuid.New()
	session, err := e.app.Accounts.StartSession(t.Context(), first, code(first))
	if err != nil {
		t.Fatal(err)
	}
	waiting := code(second)
	if _, err := e.app.OAuth.Consent(t.Context(), request, browser); err != nil {
		t.Fatal(err)
	}

	address := "new-" + connected.Email
	if _, err := e.app.Accounts.ChangeUser(t.Context(), connected.ID, account.UserChange{Email: &address}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.app.OAuth.Consent(t.Context(), request, browser); !errors.Is(err, oauth.ErrRequestEnded) {
		t.Errorf("the consent page: %v", err)
	}
	if _, err := e.app.OAuth.Allow(t.Context(), request, browser); !errors.Is(err, oauth.ErrRequestEnded) {
		t.Errorf("Allow: %v", err)
	}
	if _, err := e.app.Accounts.VerifyCode(t.Context(), second, waiting); !errors.Is(err, account.ErrNoSignIn) {
		t.Errorf("the code: %v", err)
	}
	if _, err := e.app.Accounts.GetSession(t.Context(), session); !errors.Is(err, account.ErrNoSession) {
		t.Errorf("the session: %v", err)
	}
	if _, err := e.app.OAuth.Refresh(context.WithoutCancel(t.Context()), credentials(e.partner), tokens.RefreshToken); err != nil {
		t.Errorf("the connection: %v", err)
	}
}
