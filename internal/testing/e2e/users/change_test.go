package users_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
)

// ask reads as a partner and returns the status.
func ask(t *testing.T, e *e2e.Service, tokens oauth.Tokens, dataset, day string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		fmt.Sprintf("%s/connect-svc/v1/grants/%s/%s?from=%s&to=%s", e.Base, tokens.GrantID, dataset, day, day), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+tokens.AccessToken)
	answer, err := (&http.Client{Transport: e.TLS}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// Another time zone moves no connection: its first readable date stays (specification 2.2). It decides the day from now on: a
// consent that was shown on another day ends (3.1), and the next connection begins on the day in the new zone.
func TestChangedTimezone(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	e.DB.Clock.Set(time.Until(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)))
	user, tokens := e.NewConnection(t, e.Partner)
	other := e.DB.Client(t)
	change := func(zone string) {
		t.Helper()
		if _, err := e.App.Accounts.ChangeUser(t.Context(), user.ID, account.UserChange{Timezone: &zone}); err != nil {
			t.Fatal(err)
		}
	}

	request, browser := edgetest.Consenting(t, e.App.OAuth, other, scope.All, user.ID)
	change("Europe/Berlin") // the same day
	if _, err := e.App.OAuth.Consent(t.Context(), request, browser); err != nil {
		t.Errorf("the consent after a zone with the same day: %v", err)
	}
	change("Pacific/Kiritimati") // where the next day has begun
	if _, err := e.App.OAuth.Allow(t.Context(), request, browser, ""); !errors.Is(err, oauth.ErrRequestEnded) {
		t.Errorf("Allow after a zone with another day: %v", err)
	}

	tokens, err := e.App.OAuth.Refresh(context.WithoutCancel(t.Context()), edgetest.Credentials(e.Partner), tokens.RefreshToken)
	if err != nil {
		t.Fatal(err)
	}
	if got := tokens.HistoryFrom.Format(time.DateOnly); got != "2026-03-10" {
		t.Errorf("history_from became %s", got)
	}
	if status := ask(t, e, tokens, "daily-activity", "2026-03-10"); status != http.StatusOK {
		t.Errorf("a read of the first day: %d", status)
	}
	if err := e.App.OAuth.DisconnectByOperator(t.Context(), user.ID, e.Partner.ID); err != nil {
		t.Fatal(err)
	}
	tokens = edgetest.Connect(t, e.App.OAuth, e.Partner, scope.All, user.ID)
	if got := tokens.HistoryFrom.Format(time.DateOnly); got != "2026-03-11" {
		t.Errorf("history_from of a new connection is %s", got)
	}
}

// Another registration day bounds the reads of steps at once (specification 4.6), in connections that there are, too. Reads of
// rides know no registration day, and nothing before a connection's first day becomes readable.
func TestChangedRegistrationDay(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	e.DB.Clock.Set(time.Until(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)))
	user, tokens := e.NewConnection(t, e.Partner)
	for _, test := range []struct {
		registeredOn, dataset, day string
		status                     int
	}{
		{"2026-03-11", "daily-activity", "2026-03-10", 400},
		{"2026-03-11", "daily-activity", "2026-03-11", 200},
		{"2026-03-11", "cycling-daily", "2026-03-10", 200},
		{"2026-03-11", "cycling-activities", "2026-03-10", 200},
		{"2020-01-01", "daily-activity", "2026-03-10", 200},
		{"2020-01-01", "daily-activity", "2026-03-09", 400},
	} {
		day, err := time.Parse(time.DateOnly, test.registeredOn)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.App.Accounts.ChangeUser(t.Context(), user.ID, account.UserChange{RegisteredOn: &day}); err != nil {
			t.Fatal(err)
		}
		if status := ask(t, e, tokens, test.dataset, test.day); status != test.status {
			t.Errorf("registered on %s, %s of %s: %d, want %d", test.registeredOn, test.dataset, test.day, status, test.status)
		}
	}
}

// An import that changes an address ends what the single change ends, and the connection stays.
func TestImportedAddressEndsWhatItBegan(t *testing.T) {
	t.Parallel()
	e := e2e.New(t)
	user, tokens := e.NewConnection(t, e.Partner)
	request, browser := edgetest.Consenting(t, e.App.OAuth, e.DB.Client(t), scope.All, user.ID)
	signIn := uuid.New()
	if err := e.App.Accounts.SendCode(t.Context(), account.CodeRequest{SignIn: signIn, Email: user.Email}); err != nil {
		t.Fatal(err)
	}
	session, err := enter(t.Context(), e, signIn, e.Mail.Next(t).Code)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.App.Accounts.PutUsers(t.Context(), []account.NewUser{
		{ID: user.ID, Email: "new-" + user.Email, Timezone: "UTC", RegisteredOn: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.App.OAuth.Allow(t.Context(), request, browser, ""); !errors.Is(err, oauth.ErrRequestEnded) {
		t.Errorf("Allow: %v", err)
	}
	if _, err := e.App.Accounts.GetSession(t.Context(), session); !errors.Is(err, account.ErrNoSession) {
		t.Errorf("the session: %v", err)
	}
	if _, err := e.App.OAuth.Refresh(context.WithoutCancel(t.Context()), edgetest.Credentials(e.Partner), tokens.RefreshToken); err != nil {
		t.Errorf("the connection: %v", err)
	}
}

// enter starts a session of the account pages with a code.
func enter(ctx context.Context, e *e2e.Service, signIn uuid.UUID, code string) (account.SessionKey, error) {
	verified, err := e.App.Accounts.VerifyCode(ctx, signIn, code)
	if err != nil {
		return account.SessionKey{}, err
	}
	return e.App.Accounts.StartSession(ctx, signIn, verified)
}
